"""Histograms of absolute differences, in constant memory.

For ``uint8`` there is a bin a level, and the histogram is exact. For ``float32`` a bin is the
upper half of the difference's bits, rounded up: bin *b* holds the differences above ``edge(b - 1)``
and up to ``edge(b)``. Edges lie 0.4 to 0.8 % apart at any magnitude, so that differences of 1e-6
are told apart as well as those of 100. Zero, powers of two and all whole numbers up to 256 are
edges: shares above such a level are exact, and a percentile is at most 0.8 % too great.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Depth = Literal["uint8", "float32"]
Histogram: TypeAlias = npt.NDArray[np.int64]
Differences: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.float32]

INFINITE = 32_640  # the bin of infinity and of the greatest finite floats; NaN lies above
COUNTED_AT_ONCE = 1 << 24  # cv2.calcHist counts in float32, which is exact up to here


def histogram_of(differences: Differences) -> Histogram:
    """(rows, columns) absolute differences → counts, up to the last bin that is not empty."""
    if differences.dtype != np.uint8:
        return np.bincount(bins_of(differences).ravel())
    import cv2

    counts = np.zeros(256, np.int64)
    rows = max(1, COUNTED_AT_ONCE // differences.shape[1])
    for top in range(0, len(differences), rows):
        part = cv2.calcHist([differences[top : top + rows]], [0], None, [256], [0, 256])
        counts += part.ravel().astype(np.int64)
    return counts[: int(np.flatnonzero(counts)[-1]) + 1]


def added(left: Histogram, right: Histogram) -> Histogram:
    """The histogram of both sets of differences."""
    shorter, longer = sorted((left, right), key=len)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


def bins_of(differences: Differences) -> npt.NDArray[np.uint16]:
    """The ``float32`` bin of each difference."""
    bits = differences.astype(np.float32).view(np.uint32)
    bits += np.uint32(0xFFFF)
    bits >>= np.uint32(16)
    return bits.astype(np.uint16)


def edge(index: int, depth: Depth) -> float:
    """The greatest difference that a bin holds."""
    if depth == "uint8":
        return float(index)
    return float(np.uint32(index << 16).view(np.float32))


def widened(counts: Histogram) -> Histogram:
    """A ``uint8`` histogram as a ``float32`` one, without loss."""
    bins = bins_of(np.arange(len(counts), dtype=np.uint8))
    wide = np.zeros(int(bins[-1]) + 1, np.int64)
    wide[bins] = counts
    return wide


def count_above(counts: Histogram, level: float, depth: Depth) -> int:
    """How many differences exceed ``level``; for ``float32`` its bin is counted as not above."""
    first = (
        math.floor(level) if depth == "uint8" else int(bins_of(np.asarray([level], np.float32))[0])
    )
    return int(counts[first + 1 :].sum())


def percentile_of(counts: Histogram, percent: float, depth: Depth) -> float:
    """The least edge that ``percent`` % of the differences do not exceed; needs one difference.

    For ``uint8`` this is ``numpy.percentile(…, method="inverted_cdf")``.
    """
    cumulative = np.cumsum(counts)
    wanted = max(1, math.ceil(percent / 100 * int(cumulative[-1])))
    return edge(int(np.searchsorted(cumulative, wanted)), depth)
