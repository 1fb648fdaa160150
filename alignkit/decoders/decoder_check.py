"""Self-test of the decoders on five small JPEG files of the package.

The files are the same bytes everywhere, so hashes of two machines can be compared: where they
differ, the machines decode differently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from alignkit.decoders import DECODERS, Decoded, DecodeOutcome
from alignkit.plugins import Plugin

if TYPE_CHECKING:
    from alignkit.arrays import Image

SELF_TEST_KINDS = ("420", "444", "exif-6", "cmyk", "grey")
"""Chroma at half resolution; at full; to be turned a quarter; four inks; one channel."""
_MUST_DECODE = ("420", "444", "exif-6", "grey")
"""Files that every decoder of the base install decodes."""
_REFERENCE = "opencv"
_OTHER_RULES = {
    "nearest chroma": ("simplejpeg", {"chroma": "nearest"}),
    "nvJPEG's rule": ("nvjpeg-model", {}),
}
"""Name of a rule that a decoder may follow → the decoder that follows it here, and its options."""


@dataclass(frozen=True, slots=True)
class DecoderCheck:
    """Result of one decoder on one file."""

    decoder: str
    kind: str
    outcome: DecodeOutcome
    finding: str
    """Difference from the reference decoder's pixels and, if one explains most of it, from another
    rule's; or the reason why there are no pixels."""
    sha256: str = ""
    """Hash of the pixels; empty if there are none."""

    @property
    def passed(self) -> bool:
        """Tell whether the decoder does what the base install promises."""
        return self.outcome == "ok" or self.kind not in _MUST_DECODE


def self_test() -> list[DecoderCheck]:
    """Run every installed decoder on every file.

    One of another package must not take the others down: if it raises, that is its outcome.
    """
    images = {kind: small_jpeg(kind) for kind in SELF_TEST_KINDS}
    reference = DECODERS[_REFERENCE].load()()
    expected = {kind: reference.decode(encoded) for kind, encoded in images.items()}
    rules = {
        rule: DECODERS[name].load()(**options) for rule, (name, options) in _OTHER_RULES.items()
    }
    others = {
        kind: {rule: each.decode(encoded).image for rule, each in rules.items()}
        for kind, encoded in images.items()
    }
    tested = []
    for name, plugin in DECODERS.items():
        if plugin.missing() or DECODERS.reason(name):
            continue
        decode = _caught if plugin.package else _plain
        for kind, encoded in images.items():
            decoder, decoded = decode(plugin, encoded)
            finding, digest = decoded.reason, ""
            if decoded.image is not None:
                # nothing is learned from a rule that the decoder itself computes
                named = {
                    "its own rule" if rules[rule] == decoder else rule: image
                    for rule, image in others[kind].items()
                }
                finding = _finding(decoded.image, expected[kind].image, named)
                digest = hashlib.sha256(decoded.image.tobytes()).hexdigest()
            tested.append(DecoderCheck(name, kind, decoded.outcome, finding, digest))
    return tested


def _plain(plugin: Plugin, encoded: bytes) -> tuple[Any, Decoded]:
    decoder = plugin.load()()
    return decoder, decoder.decode(encoded)


def _caught(plugin: Plugin, encoded: bytes) -> tuple[Any, Decoded]:
    try:
        return _plain(plugin, encoded)
    except Exception as error:  # noqa: BLE001 - whatever another package's decoder raises
        return None, Decoded("failed", reason=f"raised {type(error).__name__}: {error}")


def small_jpeg(kind: str) -> bytes:
    """Read the package's file of a kind."""
    return resources.files("alignkit.decoders").joinpath("jpegs", f"{kind}.jpg").read_bytes()


def _finding(image: Image, expected: Image | None, others: Mapping[str, Image | None]) -> str:
    if expected is None:
        return f"{_REFERENCE} gives nothing to compare with"
    if image.shape != expected.shape:
        turned = image.shape[:2] == expected.shape[1::-1]
        return "turned by EXIF" if turned else f"{image.shape[0]}x{image.shape[1]} pixels"
    mean, most = _distance(image, expected)
    if not most:
        return f"equals {_REFERENCE}"
    text = f"differs from {_REFERENCE}: mean {mean:.2f}, at most {most}"
    comparable = {
        rule: _distance(image, other)
        for rule, other in others.items()
        if other is not None and other.shape == image.shape
    }
    rule = min(comparable, key=lambda each: comparable[each][0], default="")
    # half the distance: the rule then explains most of the difference
    if not rule or comparable[rule][0] > mean / 2:
        return text
    return f"{text}; {rule}: mean {comparable[rule][0]:.2f}, at most {comparable[rule][1]}"


def _distance(left: Image, right: Image) -> tuple[float, int]:
    """Compute the mean and the greatest difference in grey levels."""
    import numpy as np

    difference = np.abs(left.astype(np.int16) - right.astype(np.int16))
    return float(difference.mean()), int(difference.max())
