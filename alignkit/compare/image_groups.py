"""`ImageGroups`: images that differ far more than the others, which a mean over all hides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

from alignkit.text.numbers import count, significant

_APART = 3.0
"""Least difference of the far images ÷ greatest of the others, or `SEEN`."""
SEEN = 0.1
"""Grey levels below which one difference is no greater than another."""


@dataclass(frozen=True, slots=True)
class ImageGroups:
    """Two groups of images by their difference: the near ones, half of all or equal, and others."""

    near: int
    near_most: float
    far: int
    far_least: float
    far_most: float

    def words(self, worst: str, unit: str = "levels") -> str:
        """Say both groups with their numbers; ``worst`` is the image that differs most."""
        alike = f"within {significant(self.near_most, 2)}" if self.near_most else "equal"
        near = f"{self.near} {'is' if self.near == 1 else 'are'} {alike}"
        least, most = significant(self.far_least, 2), significant(self.far_most, 2)
        by = most if least == most else f"{least} to {most}"
        differ = "differs" if self.far == 1 else "differ"
        images = count(self.near + self.far, "image")
        name = worst if self.far == 1 else f"most: {worst}"
        return f"of {images}, {near}, {self.far} {differ} by {by} {unit} ({name})"


def image_groups(images: Mapping[float, int], *, seen: float = SEEN) -> ImageGroups | None:
    """Split differences, each with the number of its images, at their widest gap; or do not.

    ``seen`` is the difference below which one is no greater than another, by default grey levels.
    """
    levels = sorted(images)
    before = accumulate(images[each] for each in levels)
    total = sum(images.values())
    gaps = [
        (high / max(low, seen), place, near)
        for place, ((low, high), near) in enumerate(zip(pairwise(levels), before, strict=False))
        if 2 * near >= total or not low
    ]
    ratio, place, near = max(gaps, default=(0.0, 0, 0))
    if ratio < _APART:
        return None
    return ImageGroups(near, levels[place], total - near, levels[place + 1], levels[-1])
