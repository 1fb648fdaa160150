"""A decoder self-test on five small JPEG files of the package.

The files are the same bytes everywhere, so that the hashes of two machines can be compared: where
they differ, the machines decode differently.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from alignkit.decoders import DECODERS, Decoded, DecodeOutcome

if TYPE_CHECKING:
    from alignkit.arrays import Image

KINDS = ("420", "444", "exif-6", "cmyk", "grey")
"""Chroma at half resolution, at full; to be turned a quarter; four inks; one channel."""
MUST_DECODE = ("420", "444", "exif-6", "grey")
"""What every decoder of the base install decodes."""
REFERENCE = "opencv"


@dataclass(frozen=True, slots=True)
class DecoderCheck:
    """One decoder on one file."""

    decoder: str
    kind: str
    outcome: DecodeOutcome
    finding: str
    """Against the reference decoder's pixels, and where they are nearer against those with chroma
    upsampled by nearest neighbour; or why there are none."""
    sha256: str = ""
    """Of the pixels; empty where there are none."""

    @property
    def passed(self) -> bool:
        """Whether it did what the base install promises."""
        return self.outcome == "ok" or self.kind not in MUST_DECODE


def self_test() -> list[DecoderCheck]:
    """Every decoder that is installed, on every file."""
    images = {kind: _bytes(kind) for kind in KINDS}
    reference = DECODERS[REFERENCE].load()()
    expected = {kind: reference.decode(encoded) for kind, encoded in images.items()}
    repeating = DECODERS["simplejpeg"].load()(chroma="nearest")
    nearest = {kind: repeating.decode(encoded).image for kind, encoded in images.items()}
    tested = []
    for name, plugin in DECODERS.items():
        if plugin.missing():
            continue
        decoder = plugin.load()()
        for kind, encoded in images.items():
            decoded = decoder.decode(encoded)
            tested.append(_tested(name, kind, decoded, expected[kind], nearest[kind]))
    return tested


def _bytes(kind: str) -> bytes:
    return resources.files("alignkit.decoders").joinpath("jpegs", f"{kind}.jpg").read_bytes()


def _tested(
    name: str, kind: str, decoded: Decoded, expected: Decoded, nearest: Image | None
) -> DecoderCheck:
    if decoded.image is None:
        return DecoderCheck(name, kind, decoded.outcome, decoded.reason)
    digest = hashlib.sha256(decoded.image.tobytes()).hexdigest()
    finding = _finding(decoded.image, expected.image, nearest)
    return DecoderCheck(name, kind, decoded.outcome, finding, digest)


def _finding(image: Image, expected: Image | None, nearest: Image | None) -> str:

    if expected is None:
        return f"{REFERENCE} gives nothing to compare with"
    if image.shape != expected.shape:
        turned = image.shape[:2] == expected.shape[1::-1]
        return "turned by EXIF" if turned else f"{image.shape[0]}x{image.shape[1]} pixels"
    mean, most = _distance(image, expected)
    if not most:
        return f"equals {REFERENCE}"
    told = f"differs from {REFERENCE}: mean {mean:.2f}, at most {most}"
    if nearest is None or nearest.shape != image.shape:
        return told
    mean_nearest, most_nearest = _distance(image, nearest)
    if mean_nearest > mean / 2:
        return told
    return f"{told}; nearest chroma: mean {mean_nearest:.2f}, at most {most_nearest}"


def _distance(left: Image, right: Image) -> tuple[float, int]:
    """Mean and greatest difference in grey levels."""
    import numpy as np

    difference = np.abs(left.astype(np.int16) - right.astype(np.int16))
    return float(difference.mean()), int(difference.max())
