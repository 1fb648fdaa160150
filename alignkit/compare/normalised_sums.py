"""`PixelSums` of two normalised tensors, from the ``uint8`` pixels both were made of by one stage.

`Normalise` maps a pixel p to (p / 255 - mean) / std, so that two tensors differ by the difference
of their pixels over 255 std. A histogram of the pixels' differences by channel therefore tells all
that is summed of the tensors' differences, but for what float32 rounds: some 1e-7.
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
    """From two ``uint8`` images (h, w, 3) that differ and their sums; in the tensors' units."""
    scales, units, bins = _tables(normalise)
    counts = _counts_by_channel(reference, candidate)
    found = counts > 0
    present = bins[found]
    histogram = np.bincount(present, counts[found]).astype(np.int64)
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
        max_abs=float(units[found].max()),
    )


@lru_cache(maxsize=16)
def _tables(
    normalise: Normalise,
) -> tuple[list[float], npt.NDArray[np.float64], npt.NDArray[np.uint16]]:
    """What a level of each channel is in units; (3, 256) every difference in units, and its bin."""
    scales = [1 / (255 * std) for std in normalise.std]
    units = np.outer(scales, np.arange(256))
    return scales, units, bins_of(units.astype(np.float32))


def _counts_by_channel(reference: Pixels, candidate: Pixels) -> Histogram:
    """(3, 256) absolute differences."""
    import cv2
    from PIL import Image as PillowImage

    height, width, _ = reference.shape
    padded = SCRATCH.array("padded", (height, width, 4), np.uint8)
    cv2.cvtColor(cv2.absdiff(reference, candidate), cv2.COLOR_RGB2RGBA, padded)
    # looked at as RGBA, not copied, and counted channel by channel
    image = PillowImage.frombuffer("RGBA", (width, height), padded, "raw", "RGBA", 0, 1)
    counts: Histogram = np.array(image.histogram(), np.int64).reshape(4, 256)[:3]
    return counts
