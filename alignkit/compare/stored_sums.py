"""The stored form of additive sums of arrays: `PlaneSums`, `SpatialSums` ↔ JSON, bit by bit.

Parts of lots hold it. They may come from another machine, so that each number is checked before it
is added up.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from alignkit.compare.displacement import Normal
from alignkit.compare.histogram import Bins
from alignkit.compare.plane_sums import PLANES, PlaneSums
from alignkit.compare.spatial_sums import DrawnImage, SpatialSums
from alignkit.record import Count, Stored
from alignkit.record.stored import Real


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
    """`PlaneSums`."""

    histograms: tuple[Bins, ...]
    images: Count
    pixels: Count
    sums: StoredArray
    sum_abs: StoredArray
    sum_squares: StoredArray
    max_abs: StoredArray

    @model_validator(mode="after")
    def _consistent(self) -> StoredPlanes:
        if [int(each.sum()) for each in self.histograms] != [self.pixels] * len(PLANES):
            raise ValueError("its counts contradict each other")
        return self

    @classmethod
    def of(cls, sums: PlaneSums) -> StoredPlanes:
        """Return the stored form."""
        arrays = {name: StoredArray.of(getattr(sums, name)) for name in _PLANE_SUMS}
        counts = sums.histograms
        return cls(histograms=counts, images=sums.images, pixels=sums.pixels, **arrays)

    def sums_again(self) -> PlaneSums:
        """Return the sums that were stored."""
        arrays = {name: getattr(self, name).array_again() for name in _PLANE_SUMS}
        return PlaneSums(self.histograms, self.images, self.pixels, **arrays)


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
