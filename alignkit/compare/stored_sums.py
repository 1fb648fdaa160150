"""The stored form of additive sums: `PixelDiff`, `PlaneSums`, `SpatialSums` ↔ JSON, bit by bit.

Parts of lots hold it. They may come from another machine, so that each number is checked before it
is added up.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from alignkit.compare.displacement import Normal
from alignkit.compare.image_diff import ComparisonMode
from alignkit.compare.pixel_diff import PixelDiff
from alignkit.compare.pixel_sums import PixelSums
from alignkit.compare.plane_sums import PLANES, PlaneSums
from alignkit.compare.spatial_sums import DrawnImage, SpatialSums
from alignkit.preprocess import StageName
from alignkit.record import Count, Stored
from alignkit.record.stored import Real

_BINS = {"uint8": 1 << 8, "float32": 1 << 16}
"""Bins of a histogram, see `alignkit.compare.histogram`."""


class StoredSums(Stored):
    """`PixelSums` without the empty bins of its histogram."""

    depth: Literal["uint8", "float32"]
    histogram: tuple[tuple[Count, Count], ...]
    """Bin, and the number of differences in it."""
    images: Count
    identical: Count
    pixels: Count
    differing_pixels: Count
    sum_abs: Real
    sum_squares: Real
    sums: tuple[Real, Real, Real]
    max_abs: Real
    non_finite: Count
    ssim_images: Count
    ssim_sum: Real

    @model_validator(mode="after")
    def _consistent(self) -> StoredSums:
        counted = sum(number for _, number in self.histogram)
        holds = (
            all(index < _BINS[self.depth] for index, _ in self.histogram)
            and counted == 3 * self.pixels - self.non_finite
            and self.identical <= self.images
            and self.ssim_images <= self.images
            and self.differing_pixels <= self.pixels
        )
        if not holds:
            raise ValueError("its counts contradict each other")
        return self

    @classmethod
    def of(cls, sums: PixelSums) -> StoredSums:
        """Return the stored form."""
        content = {each.name: getattr(sums, each.name) for each in fields(sums)}
        return cls(**content | {"histogram": stored_bins(sums.histogram)})

    def sums_again(self) -> PixelSums:
        """Return the sums that were stored."""
        content = {name: getattr(self, name) for name in type(self).model_fields}
        return PixelSums(**content | {"histogram": bins_again(self.histogram)})


class StoredDiff(Stored):
    """`PixelDiff`."""

    stage: StageName
    mode: ComparisonMode
    sums: StoredSums | None
    shape_mismatches: Count

    @classmethod
    def of(cls, diff: PixelDiff) -> StoredDiff:
        """Return the stored form."""
        sums = StoredSums.of(diff.sums) if diff.sums else None
        return cls(
            stage=diff.stage, mode=diff.mode, sums=sums, shape_mismatches=diff.shape_mismatches
        )

    def diff_again(self) -> PixelDiff:
        """Return the diff that was stored."""
        sums = self.sums.sums_again() if self.sums else None
        return PixelDiff(self.stage, self.mode, sums, self.shape_mismatches)


class StoredArray(Stored):
    """An array of numbers, bit by bit."""

    dtype: Literal["<f8", "<f4", "<i4", "|b1"]
    shape: tuple[Count, ...]
    data: str
    """Base64 of its values in C order."""

    @model_validator(mode="after")
    def _whole(self) -> StoredArray:
        try:
            length = len(base64.b64decode(self.data, validate=True))
        except binascii.Error:
            raise ValueError("its data are not Base64") from None
        if length != math.prod(self.shape) * int(self.dtype[-1]):
            raise ValueError("its data are not of its shape")
        return self

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> StoredArray:
        """Return the stored form of an array of one of these types."""
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return cls.model_validate({"dtype": array.dtype.str, "shape": array.shape, "data": data})

    def array_again(self) -> npt.NDArray[Any]:
        """Return the array that was stored."""
        values = np.frombuffer(base64.b64decode(self.data), self.dtype)
        return values.reshape(self.shape).copy()


class StoredPlanes(Stored):
    """`PlaneSums` without the empty bins of its histograms."""

    histograms: tuple[tuple[tuple[Count, Count], ...], ...]
    images: Count
    pixels: Count
    sums: StoredArray
    sum_abs: StoredArray
    sum_squares: StoredArray
    max_abs: StoredArray

    @model_validator(mode="after")
    def _consistent(self) -> StoredPlanes:
        counted = [sum(number for _, number in each) for each in self.histograms]
        largest = max((index for each in self.histograms for index, _ in each), default=0)
        if counted != [self.pixels] * len(PLANES) or largest >= _BINS["float32"]:
            raise ValueError("its counts contradict each other")
        return self

    @classmethod
    def of(cls, sums: PlaneSums) -> StoredPlanes:
        """Return the stored form."""
        arrays = {name: StoredArray.of(getattr(sums, name)) for name in _PLANE_SUMS}
        bins = tuple(map(stored_bins, sums.histograms))
        return cls(histograms=bins, images=sums.images, pixels=sums.pixels, **arrays)

    def sums_again(self) -> PlaneSums:
        """Return the sums that were stored."""
        arrays = {name: getattr(self, name).array_again() for name in _PLANE_SUMS}
        counts = tuple(map(bins_again, self.histograms))
        return PlaneSums(histograms=counts, images=self.images, pixels=self.pixels, **arrays)


_PLANE_SUMS = ("sums", "sum_abs", "sum_squares", "max_abs")


class StoredNormal(Stored):
    """`Normal`: the equations of one image's fit."""

    matrix: StoredArray
    vector: StoredArray
    power: Real
    values: Count

    @classmethod
    def of(cls, terms: Normal) -> StoredNormal:
        """Return the stored form."""
        arrays = {name: StoredArray.of(getattr(terms, name)) for name in ("matrix", "vector")}
        return cls(**arrays, power=float(terms.power), values=int(terms.values))

    def normal_again(self) -> Normal:
        """Return the equations that were stored."""
        arrays = self.matrix.array_again(), self.vector.array_again()
        return Normal(*arrays, self.power, self.values)


class _StoredDrawn(Stored):
    power: StoredArray | None
    displacement: StoredNormal | None
    terms: StoredNormal | None
    expected: StoredArray | None
    folds: tuple[tuple[int, StoredArray], ...] | None


class StoredSpatial(Stored):
    """`SpatialSums`."""

    maps: tuple[StoredArray, ...]
    """One for each size, in the order in which the sizes were met."""
    drawn: tuple[_StoredDrawn, ...]

    @classmethod
    def of(cls, sums: SpatialSums) -> StoredSpatial:
        """Return the stored form."""
        drawn = tuple(
            _StoredDrawn(
                power=_array(each.power),
                displacement=each.displacement and StoredNormal.of(each.displacement),
                terms=each.terms and StoredNormal.of(each.terms),
                expected=_array(each.expected),
                folds=each.folds
                and tuple((period, StoredArray.of(fold)) for period, fold in each.folds.items()),
            )
            for each in sums.drawn
        )
        return cls(maps=tuple(map(StoredArray.of, sums.maps.values())), drawn=drawn)

    def sums_again(self) -> SpatialSums:
        """Return the sums that were stored."""
        drawn = tuple(
            DrawnImage(
                power=_again(each.power),
                displacement=each.displacement.normal_again() if each.displacement else None,
                terms=each.terms.normal_again() if each.terms else None,
                expected=_again(each.expected),
                folds={period: fold.array_again() for period, fold in each.folds}
                if each.folds
                else None,
            )
            for each in self.drawn
        )
        maps = [each.array_again() for each in self.maps]
        return SpatialSums({(each.shape[0], each.shape[1]): each for each in maps}, drawn)


def _array(array: npt.NDArray[Any] | None) -> StoredArray | None:
    return None if array is None else StoredArray.of(array)


def _again(stored: StoredArray | None) -> npt.NDArray[Any] | None:
    return None if stored is None else stored.array_again()


def stored_bins(histogram: npt.NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return the bins of a histogram that are not empty, each with its number."""
    bins = np.flatnonzero(histogram).tolist()
    return tuple((each, int(histogram[each])) for each in bins)


def bins_again(bins: tuple[tuple[int, int], ...]) -> npt.NDArray[np.int64]:
    """Return the histogram of `stored_bins`."""
    histogram = np.zeros(max((index for index, _ in bins), default=0) + 1, np.int64)
    for index, number in bins:
        histogram[index] = number
    return histogram
