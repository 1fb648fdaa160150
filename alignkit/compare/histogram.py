"""Histograms of absolute differences, in constant memory.

For ``uint8`` each level has a bin, and the histogram is exact. For ``float32`` a bin is the upper
half of the difference's bits, rounded up: bin *b* holds the differences above ``edge(b - 1)`` and
up to ``edge(b)``. Edges lie 0.4 to 0.8 % apart at any magnitude, so differences near 1e-6 are
resolved as well as those near 100. Zero, powers of two and all whole numbers up to 256 are edges:
shares above such a level are exact, and a percentile is up to 0.8 % too great.
"""

from __future__ import annotations

import math
import threading
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter

from alignkit.record import Count

Depth = Literal["uint8", "float32"]
Histogram: TypeAlias = npt.NDArray[np.int64]
MOST_BINS: dict[Depth, int] = {"uint8": 1 << 8, "float32": 1 << 16}
_FILLED = TypeAdapter(
    tuple[tuple[Annotated[int, Field(ge=0, lt=MOST_BINS["float32"])], Count], ...],
    config=ConfigDict(defer_build=True),
)


def _bins_of(stored: object) -> Histogram:
    if isinstance(stored, np.ndarray):  # not read, but made here
        return stored
    bins = _FILLED.validate_python(stored)
    histogram = np.zeros(max((index for index, _ in bins), default=0) + 1, np.int64)
    for index, number in bins:
        histogram[index] = number
    return histogram


def _filled(histogram: Histogram) -> list[tuple[int, int]]:
    bins = np.flatnonzero(histogram).tolist()
    return [(each, int(histogram[each])) for each in bins]


Bins: TypeAlias = Annotated[Histogram, PlainValidator(_bins_of), PlainSerializer(_filled)]
"""A histogram, stored as the bins that are not empty, each with its number."""
Differences: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.float32]

COUNTED_BY_FLOAT = 1 << 24  # cv2.calcHist counts in float32, which is exact up to here
INFINITE = 32_640  # the bin of infinity and of the greatest finite floats; NaN lies above


class Scratch(threading.local):
    """Reused memory by name: page faults of a fresh array cost more than the work on an image.

    Each thread has its own memory, which grows as needed and is freed as the thread ends.
    """

    def __init__(self) -> None:
        self._memory: dict[str, npt.NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a C-contiguous array of arbitrary values, valid until the name is used again."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)


SCRATCH = Scratch()
"""Memory for intermediate arrays, kept from one image to the next."""


def histogram_of(differences: Differences) -> Histogram:
    """Count (rows, columns) absolute differences by bin, up to the last bin that is not empty."""
    values = differences.ravel()
    return _histogram_of_floats(values) if values.dtype != np.uint8 else _histogram_of_bytes(values)


def _histogram_of_bytes(values: Differences) -> Histogram:
    fours = len(values) // 4
    # viewed as four channels, not copied
    counts: Histogram = tables_of(values[: 4 * fours].reshape(1, fours, 4)).sum(axis=0)
    counts += np.bincount(values[4 * fours :], minlength=256)
    return shortened(counts)


# Tried and not faster than Pillow: 16-bit pairs in `cv2.calcHist` or `np.bincount`, offsets that
# spread equal neighbours, strips that fit the cache.
def tables_of(values: Differences) -> Histogram:
    """Count (h, w, 4) ``uint8`` values by channel and level, (4, 256)."""
    from PIL import Image

    # Pillow counts RGBA in four tables in turn, so equal neighbours do not wait for each other's
    # count: more than twice as fast as cv2.calcHist
    size = values.shape[1], values.shape[0]
    image = Image.frombuffer("RGBA", size, values, "raw", "RGBA", 0, 1)
    return np.array(image.histogram(), np.int64).reshape(4, 256)


def shortened(counts: Histogram) -> Histogram:
    """Return the bins up to the last one that is not empty."""
    return counts[: int(np.flatnonzero(counts)[-1]) + 1]


def _histogram_of_floats(values: Differences) -> Histogram:
    import cv2

    bins = _bins(values, SCRATCH.array("bits", values.shape, np.uint32))
    size = int(bins.max()) + 1
    if len(bins) >= COUNTED_BY_FLOAT:
        return np.bincount(bins, minlength=size)
    halves = SCRATCH.array("bins", bins.shape, np.uint16)
    np.copyto(halves, bins, casting="unsafe")
    # takes 16 bits without a cast, so it is nearly twice as fast as numpy.bincount
    counts = cv2.calcHist([halves.reshape(1, -1)], [0], None, [size], [0, size])
    return counts.ravel().astype(np.int64)


def added(left: Histogram, right: Histogram) -> Histogram:
    """Add the histograms of two sets of differences."""
    shorter, longer = (left, right) if len(left) < len(right) else (right, left)
    total = longer.copy()  # the operands stay as they are
    total[: len(shorter)] += shorter
    return total


def bins_of(differences: Differences) -> npt.NDArray[np.uint16]:
    """Return the ``float32`` bin of each difference."""
    values = differences.astype(np.float32)
    return _bins(values, values.view(np.uint32)).astype(np.uint16)


def _bins(values: Differences, out: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    # rounds up, so that a bin's edge is its greatest difference
    np.add(values.view(np.uint32), np.uint32(0xFFFF), out=out)
    out >>= np.uint32(16)
    return out


def edge(index: int, depth: Depth) -> float:
    """Return the greatest difference that a bin holds."""
    if depth == "uint8":
        return float(index)
    return float(np.uint32(index << 16).view(np.float32))


def widened(counts: Histogram) -> Histogram:
    """Convert a ``uint8`` histogram to a ``float32`` one, without loss."""
    bins = bins_of(np.arange(len(counts), dtype=np.uint8))
    wide = np.zeros(int(bins[-1]) + 1, np.int64)
    wide[bins] = counts
    return wide


def count_above(counts: Histogram, level: float, depth: Depth) -> int:
    """Count the differences above ``level``; for ``float32`` its bin is counted as not above."""
    first = (
        math.floor(level) if depth == "uint8" else int(bins_of(np.asarray([level], np.float32))[0])
    )
    return int(counts[first + 1 :].sum())


def percentile_of(counts: Histogram, percent: float, depth: Depth) -> float:
    """Return the least edge that ``percent`` % of the differences do not exceed.

    There must be one difference or more. For ``uint8`` this is ``numpy.percentile(…,
    method="inverted_cdf")``.
    """
    cumulative = np.cumsum(counts)
    wanted = max(1, math.ceil(percent / 100 * int(cumulative[-1])))
    return edge(int(np.searchsorted(cumulative, wanted)), depth)


def quantile_of(counts: Histogram, share: float) -> float:
    """Interpolate between two ``float32`` differences as `numpy.quantile` does, from their edges.

    There must be one difference or more.
    """
    cumulative = np.cumsum(counts)
    place = share * (int(cumulative[-1]) - 1)
    below, above = (
        edge(int(np.searchsorted(cumulative, rank + 1)), "float32")
        for rank in (math.floor(place), math.ceil(place))
    )
    return below + (above - below) * (place % 1)
