"""`SetDescription`: counts, classes, sizes, mean and deviation of a set of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

from alignkit.errors import DataError
from alignkit.studies.data.moments import ChannelMoments, Moments

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.decoders import Decoded
    from alignkit.progress import ProgressStage
    from alignkit.samples import Samples

Look = Callable[[bytes], "tuple[Decoded, Pixels | None]"]
"""Encoded bytes → the decode's outcome, and the pixels to measure, in 0..255."""


@dataclass(frozen=True, slots=True)
class SideLengths:
    """Distribution of one side of the decoded images, in pixels."""

    least: int
    median: int
    greatest: int


@dataclass(frozen=True, slots=True)
class Remarked:
    """An image whose decode was not ``ok``."""

    id: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class SetDescription:
    """One set, e.g. the training images."""

    name: str
    images: int
    measured: int
    """Images with pixels; ``remarked`` lists the others."""
    bytes: int
    """Size of the encoded files."""
    classes: dict[str, int]
    """Class → images; empty without labels."""
    sizes: int
    """Number of different sizes."""
    width: SideLengths
    height: SideLengths
    whole_set: ChannelMoments
    """Of all pixels together, each with equal weight."""
    per_image: ChannelMoments
    """Of each image alone, then averaged over the images."""
    remarked: tuple[Remarked, ...]


def describe(name: str, samples: Samples, look: Look, stage: ProgressStage) -> SetDescription:
    """Read every image once, holding one at a time.

    Raises `DataError` if none could be decoded.
    """
    moments, sizes = Moments(), Counter[tuple[int, int]]()
    remarked, encoded_bytes = [], 0
    for index, sample in enumerate(samples.ids):
        encoded = samples.read(index)
        encoded_bytes += len(encoded)
        decoded, pixels = look(encoded)
        if decoded.outcome != "ok":
            remarked.append(Remarked(sample, decoded.outcome, decoded.reason))
        if decoded.image is not None and pixels is not None:
            sizes[decoded.image.shape[0], decoded.image.shape[1]] += 1
            moments.add(pixels)
        stage.advance()
    if not moments.images:
        first = f"; the first, {remarked[0].id}: {remarked[0].reason}" if remarked else ""
        raise DataError(f"{name}: none of {len(samples)} images could be decoded{first}")
    return SetDescription(
        name=name,
        images=len(samples),
        measured=moments.images,
        bytes=encoded_bytes,
        classes=_by_class(samples),
        sizes=len(sizes),
        width=_sides(sizes, 1),
        height=_sides(sizes, 0),
        whole_set=moments.whole_set,
        per_image=moments.per_image,
        remarked=tuple(remarked),
    )


def _by_class(samples: Samples) -> dict[str, int]:
    counted = Counter(samples.labels)
    return {name: counted[index] for index, name in enumerate(samples.classes)}


def _sides(sizes: Counter[tuple[int, int]], axis: int) -> SideLengths:
    sides = sorted(size[axis] for size in sizes.elements())
    return SideLengths(sides[0], median_low(sides), sides[-1])
