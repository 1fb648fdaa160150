"""The slope of a series by Theil and Sen, with an interval that holds whatever the noise is.

The slope is the median of those between all pairs of points (Theil, Proceedings Koninklijke
Nederlandse Akademie van Wetenschappen 53, 1950). With independent noise, how many of n(n−1)/2 pairs
lie below the true slope is distributed as the inversions of a random order, Kendall's statistic, so
that the interval lies between two of the slopes themselves (Sen, J. American Statistical
Association 63(324), 1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, combinations
from math import factorial
from statistics import median

from alignkit.record import Estimate

LEAST_FOR_A_SLOPE = 5
"""Points from which on there is an interval: of four, 1 of 24 orders is without any inversion."""
_ONE_SIDE = 40
"""Each end is missed in at most 1 of so many cases."""


def theil_sen(values: Sequence[float]) -> Estimate:
    """Compute the slope of (n,) equally distant values, in their unit a step, with its interval.

    The interval has at least 95 %: its chances are exact. Equal values widen it. There is no value
    of fewer than two points, and no interval of fewer than five.
    """
    n = len(values)
    if n < 2:
        return Estimate(None, None, None, "a slope needs two points")
    slopes = sorted((values[j] - values[i]) / (j - i) for i, j in combinations(range(n), 2))
    middle = median(slopes)
    if n < LEAST_FOR_A_SLOPE:
        return Estimate(middle, None, None, f"{n} points are too few for an interval")
    rank = _rank(n)
    return Estimate(middle, slopes[rank - 1], slopes[-rank])


@lru_cache(maxsize=64)
def _rank(n: int) -> int:
    """Return the rank of the lower end, from 1: the greatest one that is seldom missed.

    The slope of rank r lies above the true one if fewer than r pairs lie below it.
    """
    ways = [1]  # number of inversions → orders of so many points
    for points in range(2, n + 1):
        # the last point is inverted with 0 to points - 1 of those before it
        sums = [0, *accumulate(ways + [0] * (points - 1))]
        ways = [sums[each + 1] - sums[max(0, each + 1 - points)] for each in range(len(sums) - 1)]
    most = factorial(n) // _ONE_SIDE
    return sum(1 for fewer in accumulate(ways) if fewer <= most)
