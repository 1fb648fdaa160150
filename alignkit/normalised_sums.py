"""`PixelSums` of two normalised tensors, from the ``uint8`` pixels both were made of by one stage.

`Normalise` maps a pixel p to (p / 255 - mean) / std, so that two tensors differ by the difference
of their pixels over 255 std. A histogram of the pixels' differences by channel therefore tells all
that is summed of the tensors' differences, but for what float32 rounds: some 1e-7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignkit.histogram import Histogram, bins_of
from alignkit.pixel_sums import PixelSums

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.preprocess import Normalise


def normalised_sums(
    pixels: PixelSums, reference: Pixels, candidate: Pixels, normalise: Normalise
) -> PixelSums:
    """From two ``uint8`` images (h, w, 3) that differ and their sums; in the tensors' units."""
    scales = [1 / (255 * std) for std in normalise.std]
    counts = _counts_by_channel(reference, candidate)
    units = np.outer(scales, np.arange(256))
    found = counts > 0
    bins = bins_of(units[found].astype(np.float32))
    histogram = np.zeros(int(bins.max()) + 1, np.int64)
    np.add.at(histogram, bins, counts[found])
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


def _counts_by_channel(reference: Pixels, candidate: Pixels) -> Histogram:
    """(3, 256) absolute differences."""
    import cv2
    from PIL import Image as PillowImage

    difference = cv2.absdiff(np.ascontiguousarray(reference), np.ascontiguousarray(candidate))
    image = PillowImage.fromarray(difference)
    counts: Histogram = np.array(image.histogram(), np.int64).reshape(3, 256)
    return counts
