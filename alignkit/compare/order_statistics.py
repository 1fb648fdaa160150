"""Percentiles of a sample with intervals that hold whatever the distribution is.

The interval of a percentile lies between two values of the sample itself: how many of n independent
values lie below the true percentile is binomial (David and Nagaraja, Order Statistics, 7.1). That
of the median is the sign test's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

_TAIL = 0.025


class Percentile(NamedTuple):
    """A percentile of a sample with its 95 % interval, in the sample's unit."""

    value: float
    """The least value of the sample that so many percent do not exceed."""
    low: float | None
    """``None`` if no value of so small a sample is low enough."""
    high: float | None


def percentile(values: Sequence[float], percent: int) -> Percentile:
    """Compute the percentile of (n,) values, 0 < ``percent`` < 100, in any order.

    Each end of the interval is missed in at most 2.5 % of cases. Raises `ValueError` without any.
    """
    if not values:
        raise ValueError("there is no value")
    ascending = sorted(values)
    n = len(ascending)
    low, high = _ranks(n, percent)
    return Percentile(
        ascending[-(-percent * n // 100) - 1],
        ascending[low - 1] if low else None,
        ascending[high - 1] if high <= n else None,
    )


def paired_change(
    candidate: Sequence[float], reference: Sequence[float], *, relative: bool
) -> Percentile:
    """Compute the median of candidate minus reference over pairs, (n,) each, such as rounds.

    With ``relative`` the differences are shares of the reference's value.
    """
    pairs = zip(candidate, reference, strict=True)
    return percentile([(b - a) / a if relative else b - a for b, a in pairs], 50)


@lru_cache(maxsize=64)
def _ranks(n: int, percent: int) -> tuple[int, int]:
    """Return the ranks of both ends, from 1; 0 and n + 1 where there is none.

    With B values below the percentile, the value of rank r lies above it if B < r, and the value of
    rank s below it if B ≥ s. The greatest r and the least s of at most 2.5 % are taken.
    """
    from scipy.special import bdtr, bdtrc

    fewer, share = np.arange(n), percent / 100
    low = np.count_nonzero(bdtr(fewer, n, share) <= _TAIL)
    high = n + 1 - np.count_nonzero(bdtrc(fewer, n, share) <= _TAIL)
    return int(low), int(high)
