"""`PlaneSums`: differences in Y'CbCr, plane by plane; chroma upsampling changes Cb and Cr alone.

The drift of chroma upsampling lies in Cb and Cr, that of truncated colours in Y', and means over R,
G and B mix them. JPEG's own Y'CbCr (JFIF; BT.601, full range) is linear in RGB, so the difference
of two images is transformed, and nothing is rounded. Sums are additive, in constant memory;
`alignkit.compare.histogram` says which shares and percentiles are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import cv2
import numpy as np
from pydantic import AfterValidator

from alignkit.arrays import FloatArray, Pixels
from alignkit.compare.histogram import Bins, added, histogram_of, percentile_of
from alignkit.compare.image_diff import ImageDiff, with_decode
from alignkit.compare.mechanism_terms import FROM_RGB
from alignkit.compare.pixel_sums import STRIP_VALUES
from alignkit.compare.stored_fields import BITS
from alignkit.preprocess import STAGES, Preprocess, StageName, Taps
from alignkit.record import Count, PlaneStage
from alignkit.record.stored import STRICT

PLANES = ("Y'", "Cb", "Cr")


@dataclass(frozen=True, slots=True, eq=False)
class PlaneSums:
    """Sums over pairs of images by plane; candidate minus reference, in grey levels."""

    __pydantic_config__ = STRICT

    histograms: tuple[Bins, ...]
    """Absolute differences."""
    images: Count
    pixels: Count
    """Without those with a value that is not finite; no number has them."""
    sums: Annotated[FloatArray, BITS]
    """Signed; (3,) as the next three."""
    sum_abs: Annotated[FloatArray, BITS]
    sum_squares: Annotated[FloatArray, BITS]
    max_abs: Annotated[FloatArray, BITS]

    def __add__(self, other: PlaneSums) -> PlaneSums:
        """Join the sums of two sets of images."""
        both = zip(self.histograms, other.histograms, strict=True)
        return PlaneSums(
            histograms=tuple(added(*histograms) for histograms in both),
            images=self.images + other.images,
            pixels=self.pixels + other.pixels,
            sums=self.sums + other.sums,
            sum_abs=self.sum_abs + other.sum_abs,
            sum_squares=self.sum_squares + other.sum_squares,
            max_abs=np.maximum(self.max_abs, other.max_abs),
        )

    def mean_abs(self, plane: int) -> float | None:
        """Compute the mean absolute difference; ``None`` where no pixel was compared."""
        return float(self.sum_abs[plane]) / self.pixels if self.pixels else None

    def bias(self, plane: int) -> float | None:
        """Compute the mean signed difference; ``None`` where no pixel was compared."""
        return float(self.sums[plane]) / self.pixels if self.pixels else None

    def percentile(self, plane: int, percent: float) -> float | None:
        """Find the difference that ``percent`` % of a plane do not exceed, within 0.8 %."""
        if not self.pixels:
            return None
        reached = percentile_of(self.histograms[plane], percent, "float32")
        # a bin's edge may lie above the greatest difference
        return min(reached, float(self.max_abs[plane]))

    def psnr(self, plane: int) -> float | None:
        """Compute the PSNR in dB of 255; ``None`` also if nothing differs."""
        squares = float(self.sum_squares[plane])
        return 10 * math.log10(255**2 * self.pixels / squares) if squares else None


def _consistent(sums: PlaneSums) -> PlaneSums:
    if [int(each.sum()) for each in sums.histograms] != [sums.pixels] * len(PLANES):
        raise ValueError("its counts contradict each other")
    return sums


Planes: TypeAlias = dict[StageName, Annotated[PlaneSums, AfterValidator(_consistent)]]
"""Sums by stage; without stages where no pair of images had equal shapes."""


def plane_sums(reference: Pixels, candidate: Pixels) -> PlaneSums:
    """Compare two RGB images (h, w, 3) in 0..255; raise `ValueError` if the shapes differ."""
    if reference.shape != candidate.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {candidate.shape}")
    rows = max(1, STRIP_VALUES // (reference.shape[1] * 3))
    strips = [slice(top, top + rows) for top in range(0, len(reference), rows)]
    parts = [_strip_sums(reference[each], candidate[each]) for each in strips]
    return replace(sum(parts[1:], parts[0]), images=1)


def _strip_sums(reference: Pixels, candidate: Pixels) -> PlaneSums:
    gap = np.subtract(candidate, reference, dtype=np.float32)
    # one sum tells whether any value is not finite
    if not np.isfinite(gap.sum(dtype=np.float64)):
        gap = gap[np.isfinite(gap).all(axis=2)].reshape(1, -1, 3)
    if not gap.size:
        return same_planes(0)
    planes = cv2.split(cv2.transform(gap, FROM_RGB))
    return PlaneSums(
        histograms=tuple(histogram_of(np.abs(plane)) for plane in planes),
        images=1,
        pixels=gap.shape[0] * gap.shape[1],
        sums=np.array([cv2.sumElems(plane)[0] for plane in planes]),
        sum_abs=np.array([cv2.norm(plane, cv2.NORM_L1) for plane in planes]),
        sum_squares=np.array([cv2.norm(plane, cv2.NORM_L2SQR) for plane in planes]),
        max_abs=np.array([cv2.norm(plane, cv2.NORM_INF) for plane in planes]),
    )


def same_planes(pixels: int) -> PlaneSums:
    """Return the sums of two equal images of ``pixels`` pixels."""
    counts, zeros = np.array([pixels]), np.zeros(3)
    return PlaneSums((counts, counts, counts), 1, pixels, zeros, zeros, zeros, zeros)


def planes_of(
    diff: ImageDiff,
    paths: tuple[Preprocess, Preprocess],
    taps: tuple[Taps, Taps],
    stages: Sequence[StageName],
) -> Planes:
    """Compare one image's planes; stages that ``diff`` found equal are not computed again."""
    found: Planes = {}
    for stage in stages:
        counted = diff.sums[stage, "cumulative"]
        if counted is None:
            continue
        if counted.identical:
            found[stage] = same_planes(counted.pixels)
            continue
        left, right = (with_decode(each)[stage] for each in taps)
        # Y'CbCr is that of R, G, B, in this order
        if stage == "colour" and paths[0].colour.space == "bgr":
            left, right = left[..., ::-1], right[..., ::-1]
        found[stage] = plane_sums(left, right)
    return found


def added_planes(one: Planes, other: Planes) -> Planes:
    """Add the planes of two sets of images."""
    both = {stage: one[stage] + other[stage] for stage in one.keys() & other.keys()}
    return {**one, **other, **both}


def plane_stages(reference: str, candidate: str, planes: Planes) -> tuple[PlaneStage, ...]:
    """Return the record's entries, stage by stage and plane by plane."""
    return tuple(
        PlaneStage.model_validate(
            {
                "reference": reference,
                "candidate": candidate,
                "stage": stage,
                "plane": plane,
                "images": sums.images,
                "mean_abs": sums.mean_abs(number),
                "max_abs": float(sums.max_abs[number]) if sums.pixels else None,
                "bias": sums.bias(number),
                "p99": sums.percentile(number, 99),
                "p99_9": sums.percentile(number, 99.9),
                "psnr": sums.psnr(number),
            }
        )
        for stage, sums in sorted(planes.items(), key=lambda each: STAGES.index(each[0]))
        for number, plane in enumerate(PLANES)
    )
