"""`Totals`: what pairs of images add up to at one stage, without a histogram.

For the many small groups a set is broken down into, and for single images; see `PixelSums` for the
stages of the whole set.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from alignkit.compare.pixel_sums import PixelSums


class Totals(NamedTuple):
    """Differences in grey levels; a tuple, as thousands are sent between processes."""

    images: int = 0
    """Images compared."""
    identical: int = 0
    shape_mismatches: int = 0
    """Images whose two arrays differ in shape: not compared."""
    pixels: int = 0
    differing_pixels: int = 0
    """Pixels that differ in any channel."""
    values: int = 0
    """Three a pixel, less those that are not finite."""
    sum_abs: float = 0
    sum_squares: float = 0
    max_abs: float = 0

    def plus(self, other: Totals) -> Totals:
        """Join two groups."""
        return Totals(
            self.images + other.images,
            self.identical + other.identical,
            self.shape_mismatches + other.shape_mismatches,
            self.pixels + other.pixels,
            self.differing_pixels + other.differing_pixels,
            self.values + other.values,
            self.sum_abs + other.sum_abs,
            self.sum_squares + other.sum_squares,
            max(self.max_abs, other.max_abs),
        )

    @property
    def mean_abs(self) -> float | None:
        """Mean absolute difference of values; ``None`` of nothing."""
        return self.sum_abs / self.values if self.values else None

    @property
    def share_differing(self) -> float | None:
        """Share of pixels that differ in any channel; ``None`` of nothing."""
        return self.differing_pixels / self.pixels if self.pixels else None

    @property
    def psnr(self) -> float | None:
        """In dB of 255; ``None`` of nothing, and where nothing differs."""
        if not self.sum_squares or not self.values:
            return None
        return 10 * math.log10(255**2 * self.values / self.sum_squares)


def totals_of(sums: PixelSums | None) -> Totals:
    """Those of one comparison; ``None`` means that the shapes differ."""
    if sums is None:
        return Totals(shape_mismatches=1)
    return Totals(
        images=sums.images,
        identical=sums.identical,
        pixels=sums.pixels,
        differing_pixels=sums.differing_pixels,
        values=sums.values,
        sum_abs=sums.sum_abs,
        sum_squares=sums.sum_squares,
        max_abs=sums.max_abs,
    )
