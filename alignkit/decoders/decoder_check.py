"""Self-test of the decoders on five small JPEG files of the package.

The files are the same bytes everywhere, so hashes of two machines can be compared: where they
differ, the machines decode differently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from alignkit.decoders import DECODERS, DecodeOutcome, Decoder
from alignkit.isolation import process_wide
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded, Work

if TYPE_CHECKING:
    from alignkit.arrays import Image
    from alignkit.plugins import Plugin

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
    """Run every installed decoder on every file, in a worker process.

    A decoder that ends the process fails there; and nothing that its library prints is ours.
    """
    decoders = [
        Encoded(name, b"", given=plugin)
        for name, plugin in DECODERS.items()
        if not plugin.missing() and not DECODERS.reason(name)
    ]
    work: Work[list[DecoderCheck]] = _SelfTest()
    found = process_wide().run(work, decoders, processes=1, images_a_task=1)
    return [check for checks in found for check in checks]


@dataclass(frozen=True, slots=True)
class _SelfTest:
    """The work of a worker: an "image" is the name of a decoder, with its plugin."""

    def warm_up(self, begin: Begin) -> None:
        """Load nothing: a library that fails is the failure of its own decoder."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[DecoderCheck]:
        """Test the decoders, five files each."""
        tested = []
        for place, each in enumerate(images):
            begin(place, EVERYTHING)
            tested += _tests(each.id, each.given, "; ".join(reason for _, reason in each.lost))
        return tested


def _tests(name: str, plugin: Plugin, died: str) -> list[DecoderCheck]:
    """Test one decoder; ``died`` says how it ended an earlier worker, and is then its failure."""
    try:
        return [
            DecoderCheck(name, kind, "failed", died) if died else _test(name, plugin, kind)
            for kind in SELF_TEST_KINDS
        ]
    except Exception as error:  # noqa: BLE001 - reported as the failure of this decoder
        reason = f"{type(error).__name__}: {error}"
        return [DecoderCheck(name, kind, "failed", reason) for kind in SELF_TEST_KINDS]


def _test(name: str, plugin: Plugin, kind: str) -> DecoderCheck:
    decoder = plugin.load()()
    decoded = decoder.decode(small_jpeg(kind))
    if decoded.image is None:
        return DecoderCheck(name, kind, decoded.outcome, decoded.reason)
    # nothing is learned from a rule that the decoder itself computes
    others = {
        "its own rule" if each == decoder else rule: _pixels(each, kind)  # type: ignore[arg-type]
        for rule, each in _rules().items()
    }
    missing = DECODERS[_REFERENCE].missing()
    expected = None if missing else _pixels(DECODERS[_REFERENCE].load()(), kind)
    digest = hashlib.sha256(decoded.image.tobytes()).hexdigest()
    return DecoderCheck(
        name, kind, decoded.outcome, _finding(decoded.image, expected, others), digest
    )


def _rules() -> dict[str, Decoder]:
    """Return the decoder of each rule whose library is installed."""
    return {
        rule: DECODERS[name].load()(**options)
        for rule, (name, options) in _OTHER_RULES.items()
        if not DECODERS[name].missing()
    }


@cache
def _pixels(decoder: Decoder, kind: str) -> Image | None:
    # every decoder is compared with the same ones
    return decoder.decode(small_jpeg(kind)).image


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
