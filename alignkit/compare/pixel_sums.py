"""`PixelSums`: counts over pairs of images, additive, in constant memory.

One pass keeps a histogram of the absolute differences and a few sums; greatest and mean difference,
any percentile, shares above a level, PSNR and SSIM follow from them, or are ``None`` without any
value. Sums are float64: those of bytes are whole numbers, exact up to 2**53; those of floats are
rounded as they are added, so that images are added in one order (`alignkit.lots`).

SSIM (Wang et al., IEEE TIP 13(4), 2004, eq. 13) follows scikit-image's defaults: uniform 7 by 7
window, sample covariance, ``data_range=255``, mean over channels and over the pixels whose window
lies inside the image. It equals scikit-image within 1e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator

from alignkit.arrays import Batch, Pixels
from alignkit.compare.histogram import (
    INFINITE,
    MOST_BINS,
    SCRATCH,
    Bins,
    Depth,
    Histogram,
    added,
    count_above,
    histogram_of,
    percentile_of,
    shortened,
    tables_of,
    widened,
)
from alignkit.record import Count
from alignkit.record.pixel_facts import PixelTotals, added_totals
from alignkit.record.stored import Real

Rows: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
EQUAL = np.array([0, 0, 0, 255], np.uint8).view(np.uint32)
"""A pixel without a difference, as OpenCV pads it to four bytes."""
ChannelAxis = Literal["last", "first"]
STRIP_VALUES = 1 << 24
"""Values of two large images that are compared at a time, which bounds the memory for it."""
_Plane: TypeAlias = npt.NDArray[np.float32]
_WINDOW = 7
_MARGIN = _WINDOW // 2
_C1 = np.float32((0.01 * 255) ** 2)
_C2 = np.float32((0.03 * 255) ** 2)
_MIDDLE = np.float32(128)  # subtracted from the pixels, so that float32 squares cancel less
_SAMPLE = np.float32(_WINDOW**2 / (_WINDOW**2 - 1))
_STRIP = 64  # rows at a time: the intermediates then stay in the cache, which halves the time


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PixelSums(PixelTotals):
    """Sums over pairs of images of one stage; signed ones are candidate minus reference.

    In grey levels 0..255, or in the units of a normalised tensor. It is stored as it is.
    """

    depth: Depth
    """``uint8`` if all images are; else ``float32``."""
    histogram: Bins
    """Absolute differences of values (pixel by channel), see `alignkit.compare.histogram`."""
    sums: tuple[Real, Real, Real] = (0, 0, 0)
    """Signed, per channel R, G, B."""
    ssim_images: Count = 0
    ssim_sum: Real = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # the default of dataclasses with slots takes ten times as long to read
        return _made, tuple(getattr(self, name) for name in _FIELDS)

    def __add__(self, other: PixelSums) -> PixelSums:
        """Join the sums of two sets of images."""
        if self.depth != other.depth:
            return self.as_float() + other.as_float()
        left, right = self.sums, other.sums
        return PixelSums(
            **added_totals(self, other),
            depth=self.depth,
            histogram=added(self.histogram, other.histogram),
            sums=(left[0] + right[0], left[1] + right[1], left[2] + right[2]),
            ssim_images=self.ssim_images + other.ssim_images,
            ssim_sum=self.ssim_sum + other.ssim_sum,
        )

    def as_float(self) -> PixelSums:
        """Return the same sums over a ``float32`` histogram."""
        if self.depth == "float32":
            return self
        return replace(self, depth="float32", histogram=widened(self.histogram))

    @property
    def bias(self) -> tuple[float, float, float] | None:
        """Compute the mean signed difference per channel R, G, B.

        It is also ``None`` if some values are not finite, as those are not counted by channel.
        """
        if not self.pixels or self.non_finite:
            return None
        red, green, blue = (each / self.pixels for each in self.sums)
        return red, green, blue

    def share_above(self, level: float) -> float | None:
        """Compute the share of values that differ by more than ``level``."""
        above = count_above(self.histogram, level, self.depth)
        return above / self.values if self.values else None

    def percentile(self, percent: float) -> float | None:
        """Find the difference that ``percent`` % of the values do not exceed."""
        if not self.values:
            return None
        # a bin's edge may lie above the greatest difference
        return min(percentile_of(self.histogram, percent, self.depth), self.max_abs)

    @property
    def ssim(self) -> float | None:
        """Compute the mean SSIM of the images of 7 by 7 pixels or more that have one."""
        return self.ssim_sum / self.ssim_images if self.ssim_images else None


_FIELDS = tuple(each.name for each in fields(PixelSums))


def _made(*values: Any) -> PixelSums:
    return PixelSums(**dict(zip(_FIELDS, values, strict=True)))


def _consistent(sums: PixelSums) -> PixelSums:
    holds = (
        len(sums.histogram) <= MOST_BINS[sums.depth]
        and sums.histogram.sum() == sums.values
        and sums.identical <= sums.images
        and sums.ssim_images <= sums.images
        and sums.differing_pixels <= sums.pixels
    )
    if not holds:
        raise ValueError("its counts contradict each other")
    return sums


StoredSums: TypeAlias = Annotated[PixelSums, AfterValidator(_consistent)]
"""Sums that may come from another machine."""


def pixel_sums(
    reference: Pixels | Batch,
    candidate: Pixels | Batch,
    *,
    channels: ChannelAxis = "last",
) -> PixelSums:
    """Compare two images (h, w, 3), or two tensors (3, h, w) with ``channels="first"``.

    `with_ssim` adds the SSIM. Raise `ValueError` if the shapes differ.
    """
    if reference.shape != candidate.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {candidate.shape}")
    depth: Depth = "uint8" if reference.dtype == candidate.dtype == np.uint8 else "float32"
    left, right = _rows(reference, depth), _rows(candidate, depth)
    if _equal(left, right):
        return identical_sums(left.size, depth)
    # whole numbers, so that the sums of strips are those of the image to the last digit
    if depth == "uint8" and channels == "last" and left.size > STRIP_VALUES:
        rows = max(1, STRIP_VALUES // left.shape[1])
        strips = [slice(top, top + rows) for top in range(0, len(left), rows)]
        parts = [_differing(left[each], right[each], channels) for each in strips]
        return replace(sum(parts[1:], parts[0]), images=1)
    return _differing(left, right, channels)


def identical_sums(values: int, depth: Depth) -> PixelSums:
    """Return the sums of two equal images of ``values`` values."""
    counts = np.array([values])
    return PixelSums(depth=depth, histogram=counts, images=1, identical=1, pixels=values // 3)


def with_ssim(counted: PixelSums, reference: Pixels, candidate: Pixels) -> PixelSums:
    """Add the SSIM of a pair of finite images in 0..255 to its sums, from 7 by 7 pixels on."""
    if counted.non_finite or min(reference.shape[:2]) < _WINDOW:
        return counted
    value = 1.0 if counted.identical else ssim_of(reference, candidate)
    return replace(counted, ssim_images=1, ssim_sum=value)


def _rows(image: Pixels | Batch, depth: Depth) -> Rows:
    """Join the last two axes, C-contiguous: OpenCV would take the third axis for channels."""
    rows: Rows = np.ascontiguousarray(image, depth).reshape(image.shape[0], -1)
    return rows


def _equal(left: Rows, right: Rows) -> bool:
    if not np.array_equal(left[0], right[0]):  # most pairs that differ do so in the first row
        return False
    if left.dtype == np.uint8:
        return cv2.norm(left, right, cv2.NORM_INF) == 0
    # the maximum of OpenCV passes over a NaN, which is a difference
    return np.array_equal(left, right)


def pixel_sums_and_levels(
    reference: Pixels | Batch, candidate: Pixels | Batch
) -> tuple[PixelSums, Histogram | None]:
    """Compare two ``uint8`` images (h, w, 3) of one shape as `pixel_sums` does.

    Return also (3, 256) counts of absolute differences by channel and level, of the same pass;
    ``None`` if the images are equal.
    """
    left, right = _rows(reference, "uint8"), _rows(candidate, "uint8")
    if _equal(left, right):
        return identical_sums(left.size, "uint8"), None
    difference = _difference(left, right)
    padded = _padded(difference)
    levels = tables_of(padded)[:3]
    signed = _signed_sums(left, right, "last")
    counts = shortened(levels.sum(axis=0))
    return _exact_sums(counts, left.size, _differing_in(padded), signed), levels


def _differing(left: Rows, right: Rows, channels: ChannelAxis) -> PixelSums:
    difference = _difference(left, right)
    counts = histogram_of(difference)
    if difference.dtype == np.uint8 and channels == "last":
        signed = _signed_sums(left, right, channels)
        return _exact_sums(counts, left.size, _differing_pixels(difference, channels), signed)
    lost = 0
    if difference.dtype != np.uint8 and counts[INFINITE:].any():
        finite = np.isfinite(difference)
        lost = int(difference.size - np.count_nonzero(finite))
        # as zeros they add to no sum; the bin of zero is corrected below
        left, right = np.where(finite, left, 0), np.where(finite, right, 0)
        difference = _difference(left, right)
        counts = histogram_of(difference)
        counts[0] -= lost
    return PixelSums(
        depth="uint8" if difference.dtype == np.uint8 else "float32",
        histogram=counts,
        images=1,
        pixels=difference.size // 3,
        differing_pixels=_differing_pixels(difference, channels),
        sum_abs=cv2.norm(difference, cv2.NORM_L1),
        sum_squares=cv2.norm(difference, cv2.NORM_L2SQR),
        sums=_signed_sums(left, right, channels),
        max_abs=cv2.norm(difference, cv2.NORM_INF),
        non_finite=lost,
    )


def _exact_sums(
    counts: Histogram, values: int, differing_pixels: int, signed: tuple[float, float, float]
) -> PixelSums:
    """Derive the sums of ``uint8`` images from their exact histogram: whole numbers."""
    levels = np.arange(len(counts))
    return PixelSums(
        depth="uint8",
        histogram=counts,
        images=1,
        pixels=values // 3,
        differing_pixels=differing_pixels,
        sum_abs=float(counts @ levels),
        sum_squares=float(counts @ levels**2),
        sums=signed,
        max_abs=float(len(counts) - 1),
    )


def _difference(left: Rows, right: Rows) -> Rows:
    difference = SCRATCH.array("difference", left.shape, left.dtype)
    cv2.absdiff(left, right, difference)
    return difference


def _planes(rows: Rows) -> Sequence[Rows]:
    """Return the channels of a tensor's rows."""
    third = len(rows) // 3
    return rows[:third], rows[third : 2 * third], rows[2 * third :]


def _signed_sums(left: Rows, right: Rows, channels: ChannelAxis) -> tuple[float, float, float]:
    """Sum candidate minus reference by channel."""
    sides: Sequence[Sequence[float]]
    if channels == "first":
        sides = [[cv2.sumElems(each)[0] for each in _planes(rows)] for rows in (left, right)]
    else:
        sides = [cv2.sumElems(rows.reshape(len(rows), -1, 3)) for rows in (left, right)]
    before, after = sides
    red, green, blue = (after[place] - before[place] for place in range(3))
    return red, green, blue


def _differing_pixels(difference: Rows, channels: ChannelAxis) -> int:
    if channels == "first":
        red, green, blue = _planes(difference)
        return cv2.countNonZero(cv2.max(cv2.max(red, green), blue))
    if difference.dtype != np.uint8:
        differs = SCRATCH.array("values", difference.shape, np.bool_)
        difference = np.not_equal(difference, 0, out=differs).view(np.uint8)
    return _differing_in(_padded(difference))


def _padded(difference: Rows) -> npt.NDArray[np.uint8]:
    """Pad ``uint8`` pixels to (h, w, 4); valid until the next call."""
    pixels = difference.reshape(len(difference), -1, 3)
    padded = SCRATCH.array("padded", (*pixels.shape[:2], 4), np.uint8)
    cv2.cvtColor(pixels, cv2.COLOR_RGB2RGBA, padded)
    return padded


def _differing_in(padded: npt.NDArray[np.uint8]) -> int:
    differs = SCRATCH.array("differs", padded.shape[:2], np.bool_)
    np.not_equal(padded.view(np.uint32)[..., 0], EQUAL, out=differs)
    return int(np.count_nonzero(differs))


# In float32: with windows summed in whole numbers, or fused calls of OpenCV, it took 0.9 to 1.2 ms
# instead of 1.3 ms on 224x224 pixels, and its last digits would change. Half of the time is four
# box filters.
def ssim_of(reference: Pixels, candidate: Pixels) -> float:
    """Compute the mean SSIM of two (h, w, 3) images in 0..255.

    Raise `ValueError` if a side is under 7.
    """
    height, width = reference.shape[0] - 2 * _MARGIN, reference.shape[1] - 2 * _MARGIN
    if height < 1 or width < 1:
        raise ValueError(f"SSIM needs 7 by 7 pixels, the image has {reference.shape[:2]}")
    total = 0.0
    for top in range(0, height, _STRIP):
        rows = slice(top, min(top + _STRIP, height) + 2 * _MARGIN)
        total += _similarity(reference[rows], candidate[rows])
    mean: float = total / (height * width * 3)
    return mean


def _similarity(reference: Pixels, candidate: Pixels) -> float:
    """Sum the SSIM map, computed from the local means of a, a - b, a·b and (a - b)².

    It works in place on whole strips: arrays without gaps are four times as fast as their inner
    part, so the margin is computed too and left out at the end.
    """
    a = reference.astype(np.float32)
    b = candidate.astype(np.float32)
    a -= _MIDDLE
    b -= _MIDDLE
    mean_a, mean_ab = _local_mean(a), _local_mean(a * b)
    a -= b
    mean_gap = _local_mean(a)
    a *= a
    spread = _local_mean(a)
    mean_b = np.subtract(mean_a, mean_gap, out=b)
    mean_gap *= mean_gap
    spread -= mean_gap  # the variance of a - b, which is var(a) + var(b) - 2 cov(a, b)
    mean_ab -= np.multiply(mean_a, mean_b, out=a)  # cov(a, b)
    mean_a += _MIDDLE
    mean_b += _MIDDLE
    luminance = mean_a
    luminance *= mean_b
    luminance *= np.float32(2)
    luminance += _C1
    mean_gap += luminance
    contrast = mean_ab
    contrast *= np.float32(2) * _SAMPLE
    contrast += _C2
    spread *= _SAMPLE
    spread += contrast
    luminance *= contrast
    mean_gap *= spread
    luminance /= mean_gap
    return sum(cv2.sumElems(luminance[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]))


def _local_mean(values: _Plane) -> _Plane:
    filtered: _Plane = cv2.boxFilter(values, cv2.CV_32F, (_WINDOW, _WINDOW))  # type: ignore[assignment]
    return filtered
