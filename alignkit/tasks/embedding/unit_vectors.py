"""Unit vectors, and their similarities, each summed in float64 in one order.

A product of matrices sums in an order that depends on threads and on the shapes of both, so that
two equal images could differ in the last bit: here each pair is summed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import RatioOfSums, Weights

Vectors: TypeAlias = npt.NDArray[np.float32]
"""(images, dimensions), a model's raw outputs."""
UnitVectors: TypeAlias = npt.NDArray[np.float32]
"""(images, dimensions), of length 1 before they were rounded to float32, by `unit_vectors`."""

_BLOCK = 1 << 21
"""Numbers in float64 that are made at a time: 16 MB."""
_NEAR = 1e-9
"""Far more than two sums of a pair in float64 differ by."""


def unit_vectors(vectors: Vectors) -> tuple[UnitVectors, Labels]:
    """Divide vectors by their length.

    Return those that have a direction, being finite and not zero, and the images of these, (m,).
    """
    usable = np.empty(len(vectors), np.bool_)
    for part in _parts(*vectors.shape):
        values = vectors[part]
        usable[part] = np.isfinite(values).all(axis=1) & (values != 0).any(axis=1)
    images = np.flatnonzero(usable)
    found = np.empty((len(images), vectors.shape[1]), np.float32)
    for part in _parts(*found.shape):
        block = vectors[images[part]].astype(np.float64)
        found[part] = block / np.sqrt(np.vecdot(block, block))[:, None]
    return found, images


def similarities(one: UnitVectors, other: UnitVectors) -> FloatArray:
    """Sum the products of two vectors, (…, dimensions), each pair alone."""
    found: FloatArray = np.vecdot(one.astype(np.float64), other.astype(np.float64))
    return found


# FAISS sums by BLAS from some number of queries on and by kernels of its own below, and threads
# and processors change its bits: it names candidates, and this says which queries they settle.
def error_bound(dimensions: int) -> float:
    """Bound the error of a similarity that is summed in float32, in any order.

    It is n·u / (1 − n·u) with u = 2⁻²⁴ for vectors of length 1 (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd ed., section 3.1); twice n·u is more, with the roundings of float64.
    """
    return dimensions * 2.0**-23


def pair_similarities(queries: UnitVectors, index: UnitVectors, places: Labels) -> FloatArray:
    """Compute similarities, (queries, m), of queries to their ``places`` in the index."""
    found = np.empty(places.shape)
    for part in _parts(len(queries), places.shape[1] * queries.shape[1]):
        found[part] = similarities(index[places[part]], queries[part, None])
    return found


def similarity_blocks(
    queries: UnitVectors, index: UnitVectors, own: Labels, around: FloatArray | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield similarities, (queries, part), to successive parts of the index.

    That of a query to its ``own`` place in the index, (queries,), is −∞; −1 is no place. To count
    those above or equal to ``around``, (queries,), pairs near it alone are summed alone: the others
    are of a product of matrices, which is many times as quick.
    """
    for part in _parts(len(index), max(len(queries), index.shape[1])):
        if around is None:
            found = similarities(queries[:, None], index[part])
        else:
            found = queries.astype(np.float64) @ index[part].astype(np.float64).T
            rows, places = np.nonzero(np.abs(found - around[:, None]) < _NEAR)
            for some in _parts(len(rows), index.shape[1]):
                chosen = rows[some], places[some]
                found[chosen] = similarities(queries[chosen[0]], index[part][chosen[1]])
        inside = np.flatnonzero((own >= part.start) & (own < part.stop))
        found[inside, own[inside] - part.start] = -np.inf
        yield part, found


def _parts(count: int, width: int) -> Iterator[slice]:
    """Cut rows of a width into parts of `_BLOCK` numbers."""
    rows = max(1, _BLOCK // max(1, width))
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


@dataclass(frozen=True, slots=True, eq=False)
class QuantileOf:
    """The least value that a share of the images does not exceed; NaN values do not count."""

    values: FloatArray
    """(images,)"""
    share: float

    def of(self, weights: Weights) -> FloatArray:
        """Compute it, (draws,): the inverse of the weighted distribution function."""
        known = np.flatnonzero(~np.isnan(self.values))
        if not len(known):
            return np.full(weights.shape[1], np.nan)
        order = known[np.argsort(self.values[known], kind="stable")]
        sums = np.cumsum(weights[order], axis=0, dtype=np.float64)
        at = (sums < self.share * sums[-1]).sum(axis=0)
        found: FloatArray = np.where(sums[-1] > 0, self.values[order][at], np.nan)
        return found


def cosines(one: Vectors, other: Vectors) -> FloatArray:
    """Compute the cosine of the two vectors of each image, (images,).

    It is exactly 1 where both are equal, and NaN where one of them is zero or not finite.
    """
    mine, theirs = (each.astype(np.float64) for each in (one, other))
    norms = np.sqrt(np.vecdot(mine, mine)) * np.sqrt(np.vecdot(theirs, theirs))
    known = np.isfinite(norms) & (norms > 0)
    found: FloatArray = np.full(len(one), np.nan)
    with np.errstate(invalid="ignore"):  # of vectors that are not finite
        np.divide(np.vecdot(mine, theirs), norms, out=found, where=known)
    found[known & (one == other).all(axis=1)] = 1.0
    return np.clip(found, -1.0, 1.0)


def cosine_measures(one: Vectors, other: Vectors) -> dict[str, RatioOfSums | QuantileOf]:
    """Compute ``cosine``, ``cosine.p01`` and ``norm``, over the images with both directions."""
    cosine = cosines(one, other)
    known = ~np.isnan(cosine)
    norms = [np.linalg.norm(each[known].astype(np.float64), axis=1) for each in (one, other)]
    change = np.zeros(len(one))
    change[known] = norms[1] / norms[0] - 1
    below = known.astype(np.float64)
    return {
        "cosine": RatioOfSums(np.where(known, cosine, 0.0), below),
        "cosine.p01": QuantileOf(cosine, 0.01),
        "norm": RatioOfSums(change, below),
    }
