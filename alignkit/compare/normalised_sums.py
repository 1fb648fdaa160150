"""`PixelSums` of two normalised tensors, computed from their ``uint8`` pixels.

`Normalise` maps a pixel p to (p / 255 - mean) / std, so two tensors of one stage differ by the
difference of their pixels over 255 std. A histogram of the pixels' differences by channel therefore
gives all sums over the tensors' differences, up to float32 rounding of about 1e-7.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.compare.histogram import Histogram, bins_of
from alignkit.compare.pixel_sums import SCRATCH, PixelSums

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.preprocess import Normalise


def normalised_sums(
    pixels: PixelSums, reference: Pixels, candidate: Pixels, normalise: Normalise
) -> PixelSums:
    """Convert the sums of two ``uint8`` images (h, w, 3) that differ to the tensors' units."""
    scales, units, bins = _tables(normalise)
    counts = _counts_by_channel(reference, candidate)
    occurring = counts > 0
    histogram = np.bincount(bins[occurring], counts[occurring]).astype(np.int64)
    red, green, blue = (total * scale for total, scale in zip(pixels.sums, scales, strict=True))
    return PixelSums(
        depth="float32",
        histogram=histogram,
        images=1,
        pixels=pixels.pixels,
        differing_pixels=pixels.differing_pixels,
        sum_abs=float((counts * units).sum()),
        sum_squares=float((counts * units**2).sum()),
        sums=(red, green, blue),
        max_abs=float(units[occurring].max()),
    )


@lru_cache(maxsize=16)
def _tables(
    normalise: Normalise,
) -> tuple[list[float], npt.NDArray[np.float64], npt.NDArray[np.uint16]]:
    """Return the units per level of each channel, and (3, 256) differences in units with bins."""
    scales = [1 / (255 * std) for std in normalise.std]
    units = np.outer(scales, np.arange(256))
    return scales, units, bins_of(units.astype(np.float32))


def _counts_by_channel(reference: Pixels, candidate: Pixels) -> Histogram:
    """Count absolute differences by channel and level, (3, 256)."""
    import cv2
    from PIL import Image as PillowImage

    height, width, _ = reference.shape
    padded = SCRATCH.array("padded", (height, width, 4), np.uint8)
    cv2.cvtColor(cv2.absdiff(reference, candidate), cv2.COLOR_RGB2RGBA, padded)
    # viewed as RGBA, not copied, and counted channel by channel
    image = PillowImage.frombuffer("RGBA", (width, height), padded, "raw", "RGBA", 0, 1)
    counts: Histogram = np.array(image.histogram(), np.int64).reshape(4, 256)[:3]
    return counts
