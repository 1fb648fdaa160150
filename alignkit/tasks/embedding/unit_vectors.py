"""Unit vectors whose similarities have the same bits in every order of summation.

Components are multiples of 2⁻²⁶, so a product of two is a multiple of 2⁻⁵², and by Cauchy and
Schwarz no sum of some of a pair's products leaves −2 to 2. Every such sum is a number of float64:
nothing is rounded, and threads, blocks and libraries change no bit of a similarity. float32 holds
the components, as a smaller step than 2⁻²⁶ exists only below 1/4, where 24 bits suffice for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels

Vectors: TypeAlias = npt.NDArray[np.float32]
"""(images, dimensions), a model's raw outputs."""
UnitVectors: TypeAlias = npt.NDArray[np.float32]
"""(images, dimensions), each within 2⁻²⁴ + 2⁻²⁷·√dimensions of length 1, by `unit_vectors`."""

_STEPS = 2.0**26
"""Steps from 0 to 1."""
_BLOCK = 1 << 21
"""Numbers in float64 that are made at a time: 16 MB."""


def unit_vectors(vectors: Vectors) -> tuple[UnitVectors, Labels]:
    """Divide vectors by their length and round to 2⁻²⁶.

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
        found[part] = rounded(block / np.sqrt(np.vecdot(block, block))[:, None])
    return found, images


def rounded(vectors: FloatArray) -> UnitVectors:
    """Round vectors of length 1, (images, dimensions), to multiples of 2⁻²⁶."""
    # a float32 from 1/4 on is a multiple already, and a multiple below is a float32
    steps: UnitVectors = np.rint(vectors.astype(np.float32) * np.float32(_STEPS))
    return steps / np.float32(_STEPS)


def error_bound(dimensions: int) -> float:
    """Bound the error of a similarity that is summed in float32, in any order.

    It is n·u / (1 − n·u) with u = 2⁻²⁴ for vectors of length 1 (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd ed., section 3.1); twice n·u is more.
    """
    return dimensions * 2.0**-23


def pair_similarities(queries: UnitVectors, index: UnitVectors, places: Labels) -> FloatArray:
    """Compute exact similarities, (queries, m), of queries to their ``places`` in the index."""
    found = np.empty(places.shape)
    for part in _parts(len(queries), places.shape[1] * queries.shape[1]):
        near = index[places[part]].astype(np.float64)
        found[part] = np.vecdot(near, queries[part, None].astype(np.float64))
    return found


def similarity_blocks(
    queries: UnitVectors, index: UnitVectors, own: Labels
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield exact similarities, (queries, part), to successive parts of the index.

    That of a query to its ``own`` place in the index, (queries,), is −∞; −1 is no place.
    """
    exact = queries.astype(np.float64)
    for part in _parts(len(index), max(len(queries), index.shape[1])):
        found = exact @ index[part].astype(np.float64).T
        inside = np.flatnonzero((own >= part.start) & (own < part.stop))
        found[inside, own[inside] - part.start] = -np.inf
        yield part, found


def _parts(count: int, width: int) -> Iterator[slice]:
    """Cut rows of a width into parts of `_BLOCK` numbers."""
    rows = max(1, _BLOCK // max(1, width))
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))
