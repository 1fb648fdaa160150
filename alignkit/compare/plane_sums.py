"""`PlaneSums`: differences in Y'CbCr, plane by plane; chroma upsampling changes Cb and Cr alone.

JPEG's own Y'CbCr (JFIF; BT.601, full range) is linear in RGB, so the difference of two images is
transformed, and nothing is rounded. Sums are additive, in constant memory;
`alignkit.compare.histogram` says which shares and percentiles are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from alignkit.compare.histogram import Histogram, added, histogram_of, percentile_of

if TYPE_CHECKING:
    from alignkit.arrays import Pixels

PLANES = ("Y'", "Cb", "Cr")
FROM_RGB = np.array(
    [
        [0.299, 0.587, 0.114],
        [-0.299 / 1.772, -0.587 / 1.772, 0.886 / 1.772],
        [0.701 / 1.402, -0.587 / 1.402, -0.114 / 1.402],
    ]
)
"""ITU-T T.871 (JFIF), 7: rows Y', Cb, Cr; offsets cancel in a difference."""
_Value = TypeVar("_Value")
_Three: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class PlaneSums:
    """Sums over pairs of images by plane; candidate minus reference, in grey levels."""

    histograms: tuple[Histogram, Histogram, Histogram]
    """Absolute differences."""
    images: int = 0
    pixels: int = 0
    """Without those with a value that is not finite; no number has them."""
    sums: _Three = (0.0, 0.0, 0.0)
    """Signed."""
    sum_abs: _Three = (0.0, 0.0, 0.0)
    sum_squares: _Three = (0.0, 0.0, 0.0)
    max_abs: _Three = (0.0, 0.0, 0.0)

    def __add__(self, other: PlaneSums) -> PlaneSums:
        """Join the sums of two sets of images."""
        return PlaneSums(
            _three(added(*both) for both in zip(self.histograms, other.histograms, strict=True)),
            self.images + other.images,
            self.pixels + other.pixels,
            _three(map(sum, zip(self.sums, other.sums, strict=True))),
            _three(map(sum, zip(self.sum_abs, other.sum_abs, strict=True))),
            _three(map(sum, zip(self.sum_squares, other.sum_squares, strict=True))),
            _three(map(max, zip(self.max_abs, other.max_abs, strict=True))),
        )

    def mean_abs(self, plane: int) -> float | None:
        """Compute the mean absolute difference; ``None`` where no pixel was compared."""
        return self.sum_abs[plane] / self.pixels if self.pixels else None

    def bias(self, plane: int) -> float | None:
        """Compute the mean signed difference; ``None`` where no pixel was compared."""
        return self.sums[plane] / self.pixels if self.pixels else None

    def percentile(self, plane: int, percent: float) -> float | None:
        """Find the difference that ``percent`` % of a plane do not exceed, within 0.8 %."""
        if not self.pixels:
            return None
        return min(percentile_of(self.histograms[plane], percent, "float32"), self.max_abs[plane])

    def psnr(self, plane: int) -> float | None:
        """Compute the PSNR in dB of 255; ``None`` also if nothing differs."""
        squares = self.sum_squares[plane]
        return 10 * math.log10(255**2 * self.pixels / squares) if squares else None


def plane_sums(reference: Pixels, candidate: Pixels) -> PlaneSums:
    """Compare two RGB images (h, w, 3) in 0..255; raise `ValueError` if the shapes differ."""
    import cv2

    if reference.shape != candidate.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {candidate.shape}")
    gap = np.subtract(candidate, reference, dtype=np.float32)
    # one sum tells whether any value is not finite
    if not np.isfinite(gap.sum(dtype=np.float64)):
        gap = gap[np.isfinite(gap).all(axis=2)].reshape(1, -1, 3)
    if not gap.size:
        return same_planes(0)
    planes = cv2.split(cv2.transform(gap, FROM_RGB))
    return PlaneSums(
        histograms=_three(histogram_of(np.abs(plane)) for plane in planes),
        images=1,
        pixels=gap.shape[0] * gap.shape[1],
        sums=_three(cv2.sumElems(plane)[0] for plane in planes),
        sum_abs=_three(cv2.norm(plane, cv2.NORM_L1) for plane in planes),
        sum_squares=_three(cv2.norm(plane, cv2.NORM_L2SQR) for plane in planes),
        max_abs=_three(cv2.norm(plane, cv2.NORM_INF) for plane in planes),
    )


def same_planes(pixels: int) -> PlaneSums:
    """Return the sums of two equal images of ``pixels`` pixels."""
    counts = np.array([pixels])
    return PlaneSums((counts, counts, counts), images=1, pixels=pixels)


def _three(values: Iterable[_Value]) -> tuple[_Value, _Value, _Value]:
    first, second, third = values
    return first, second, third
