"""`Distance`: how far real pixels and a surrogate's are apart; counts, from which shares follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alignkit.arrays import Pixels


@dataclass(frozen=True, slots=True)
class Distance:
    """Over some images; in grey levels 0..255."""

    images: int = 0
    images_equal: int = 0
    pixels: int = 0
    pixels_equal: int = 0
    """In all three channels, as the next."""
    pixels_within_1: int = 0
    sum_abs: float = 0.0
    """Over pixels and channels."""
    max_levels: float = 0.0

    def __add__(self, other: Distance) -> Distance:
        """Of both sets of images."""
        return Distance(
            self.images + other.images,
            self.images_equal + other.images_equal,
            self.pixels + other.pixels,
            self.pixels_equal + other.pixels_equal,
            self.pixels_within_1 + other.pixels_within_1,
            self.sum_abs + other.sum_abs,
            max(self.max_levels, other.max_levels),
        )

    def facts(self) -> dict[str, Any]:
        """JSON-ready; shares, mean and greatest are ``None`` where no image was compared."""
        some = self.pixels or None
        return {
            "images": self.images,
            "images_equal": self.images_equal,
            "pixels": self.pixels,
            "share_equal": some and self.pixels_equal / some,
            "share_within_1": some and self.pixels_within_1 / some,
            "mean_levels": some and self.sum_abs / (3 * some),
            "max_levels": some and self.max_levels,
        }


def distance(real: Pixels, surrogate: Pixels) -> Distance:
    """Of one image, (h, w, 3) each; values that are not finite are an error of the stage."""
    import numpy as np

    gap = np.abs(surrogate.astype(np.float64) - real.astype(np.float64))
    if not np.isfinite(gap).all():
        raise ValueError("a stage gave values that are not finite")
    most = gap.max(axis=2)
    return Distance(
        images=1,
        images_equal=int(not most.any()),
        pixels=most.size,
        pixels_equal=int(np.count_nonzero(most == 0)),
        pixels_within_1=int(np.count_nonzero(most <= 1)),
        sum_abs=float(gap.sum()),
        max_levels=float(most.max()),
    )
