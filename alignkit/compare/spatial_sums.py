"""`SpatialSums`: where in the image, and at which frequencies, one stage of two paths differs.

The mean difference by position is of every image. Spectrum, lattices, displacement and mechanisms
are computed on some drawn images, as they cost more than the comparison itself. An image that both
paths give alike adds nothing, and is counted by the stage's `PixelSums`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Image, Pixels
from alignkit.compare.displacement import LumaPlane, Normal, displacement_terms
from alignkit.compare.mechanism_terms import (
    FROM_RGB,
    GRIDS,
    decode_terms,
    expected,
    radial_power,
    resize_terms,
)
from alignkit.compare.stored_fields import BITS, PAIRS
from alignkit.preprocess import StageName
from alignkit.record.stored import STRICT

MAP_SIDE = 32
"""Most rows and columns of a map."""
FOLDS = (7, 9, 16)
"""Periods in pixels at which a decode's differences are folded: JPEG's units of 16 pixels, and two
that no decoder has, which show how even a fold is without a lattice."""
_SAMPLES = 128
"""Most rows and columns of an image that its map is made of."""
_WINDOW = 256
"""Most rows and columns of an image that lattices, displacement and chroma are computed from."""
_LEAST = 8
"""Fewest rows and columns of an image that has a displacement."""
_REMAP = 32767
"""Rows and columns from which on OpenCV's remap refuses an image."""
_PLANES = FROM_RGB.astype(np.float32)
_MEAN = np.full((1, 3), 1 / 3, np.float32)

Map: TypeAlias = tuple[int, int]
"""Rows and columns of a map."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnImage:
    """The part of one drawn image."""

    __pydantic_config__ = STRICT

    power: Annotated[FloatArray, BITS] | None
    """See `radial_power`."""
    displacement: Normal | None
    """``None`` for an image of fewer than 8 rows or columns."""
    terms: Normal | None
    """Of `RESIZE_TERMS` or `DECODE_TERMS`; ``None`` at another stage, and for an image with a side
    too short or too long to compute them."""
    expected: Annotated[FloatArray, BITS] | None = None
    """(grids, 4): the scales along x and y, then the shifts, that each of `GRIDS` would give."""
    folds: dict[int, Annotated[FloatArray, BITS]] | None = None
    """Period → (2, period, period): mean |Δ Y'|, and mean of |Δ Cb| and |Δ Cr|, by position in
    squares of so many pixels; of decodes."""


@dataclass(frozen=True, slots=True, eq=False)
class SpatialSums:
    """Sums over the images of one stage that differ on the same input."""

    __pydantic_config__ = STRICT

    maps: Annotated[dict[Map, Annotated[FloatArray, BITS]], PAIRS]
    """Size → (rows, columns): the sum over images of mean |Δ| by position, in levels."""
    drawn: tuple[DrawnImage, ...] = ()

    def __add__(self, other: SpatialSums) -> SpatialSums:
        """Join the sums of two sets of images."""
        both = {
            size: self.maps[size] + other.maps[size]
            for size in self.maps.keys() & other.maps.keys()
        }
        return SpatialSums({**self.maps, **other.maps, **both}, self.drawn + other.drawn)


Spatial: TypeAlias = dict[StageName, SpatialSums]
"""Sums by stage, each on the same input; without stages that do not differ."""


def spatial_sums(
    stage: StageName, source: Image | None, reference: Pixels, candidate: Pixels, *, drawn: bool
) -> SpatialSums:
    """Measure one image (h, w, 3) at a stage; both sides are finite and of one shape.

    ``source`` is the input of both, of which a resize makes its pixels. The map of an image of one
    shape alone is (min(h, 32), min(w, 32)).
    """
    measured = (_drawn_image(stage, source, reference, candidate),) if drawn else ()
    cells = _mean_by_cell(reference, candidate)
    return SpatialSums({(cells.shape[0], cells.shape[1]): cells}, measured)


def _mean_by_cell(reference: Pixels, candidate: Pixels) -> FloatArray:
    """Average the absolute difference over the cells of a map."""
    down, right = map(_cells, reference.shape[:2])
    some = slice(None, None, down.step), slice(None, None, right.step)
    sides = [np.ascontiguousarray(each[some], np.float32) for each in (reference, candidate)]
    values = cv2.transform(cv2.absdiff(*sides), _MEAN)
    if values.shape != (len(down.counts), len(right.counts)):
        summed = np.add.reduceat(np.add.reduceat(values, down.begins, 0), right.begins, 1)
        values = summed / (down.counts[:, None] * right.counts)
    return np.asarray(values, np.float64)


class _Cells(NamedTuple):
    """The cells of a map along one axis."""

    step: int
    """Pixels from one sample to the next."""
    begins: npt.NDArray[np.intp]
    """The first sample of each cell."""
    counts: npt.NDArray[np.float32]
    """Samples of each cell."""


@lru_cache(maxsize=256)
def _cells(length: int) -> _Cells:
    # odd steps meet every position of a lattice of 2, 8 or 16 pixels equally often
    step = -(-length // _SAMPLES) | 1
    cell = np.arange(0, length, step) * min(MAP_SIDE, length) // length
    begins = np.flatnonzero(np.diff(cell, prepend=-1))
    return _Cells(step, begins, np.bincount(cell).astype(np.float32))


def _drawn_image(
    stage: StageName, source: Image | None, reference: Pixels, candidate: Pixels
) -> DrawnImage:
    height, width = reference.shape[:2]
    # from a multiple of 16 on, so that JPEG's lattices stay in place
    top, left = (max(0, length - _WINDOW) // 32 * 16 for length in (height, width))
    window = slice(top, top + _WINDOW), slice(left, left + _WINDOW)
    sides = reference[window], candidate[window]
    terms = grids = folds = shift = None
    if stage == "decode":
        # chroma comes in pairs of pixels
        terms = decode_terms(*sides) if min(height, width) >= 2 else None
        folds = _folds(*sides)
    elif source is not None and max(*source.shape[:2], height, width) < _REMAP:
        # all of it: a grid's corners are those of the image
        terms = resize_terms(source, _luma(reference), _luma(candidate))
        axes = (source.shape[1], width), (source.shape[0], height)
        of_axes = [[expected(name, *axis) for axis in axes] for name in GRIDS]
        grids = np.array([[x[0], y[0], x[1], y[1]] for x, y in of_axes])
    if min(height, width) >= _LEAST:
        centre = (height - 1) / 2 - top, (width - 1) / 2 - left
        shift = displacement_terms(_luma(sides[0]), _luma(sides[1]), centre)
    return DrawnImage(radial_power(reference, candidate), shift, terms, grids, folds)


def _luma(pixels: Pixels) -> LumaPlane:
    return np.asarray(cv2.transform(pixels.astype(np.float32), _PLANES[:1]), np.float32)


def _folds(reference: Pixels, candidate: Pixels) -> dict[int, FloatArray] | None:
    if min(reference.shape[:2]) < max(FOLDS):
        return None
    gap = np.subtract(candidate, reference, dtype=np.float32)
    planes = np.abs(cv2.transform(gap, _PLANES))
    both = np.stack([planes[..., 0], (planes[..., 1] + planes[..., 2]) / 2])
    return {period: _folded(both, period) for period in FOLDS}


def _folded(planes: FloatArray, period: int) -> FloatArray:
    """Average (planes, rows, columns) by position within squares of ``period`` pixels."""
    number, height, width = planes.shape
    rows, columns = height // period, width // period
    whole = planes[:, : rows * period, : columns * period]
    # rows first: one sum over both axes takes ten times as long
    summed = whole.reshape(number, rows, period, -1).sum(axis=1)
    squares = summed.reshape(number, period, columns, period)
    return np.asarray(squares.sum(axis=2, dtype=np.float64) / (rows * columns))


def joined_spatial(parts: Iterable[Spatial]) -> Spatial:
    """Add up the stages of several sets of images, in the order given."""
    found: Spatial = {}
    for part in parts:
        for stage, sums in part.items():
            found[stage] = found[stage] + sums if stage in found else sums
    return found
