"""Percentiles and their intervals against exact binomial sums."""

from fractions import Fraction
from itertools import accumulate
from math import comb

import numpy as np
import pytest

from alignkit.compare.order_statistics import paired_change, percentile


@pytest.mark.parametrize("percent", [50, 90, 99])
@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 9, 10, 25, 72, 367, 368, 369])
def test_the_ends_are_those_of_exact_binomial_tails(n, percent):
    # how many of n values lie below the true percentile, in whole numbers of 1 / 100ⁿ
    ways = [comb(n, k) * percent**k * (100 - percent) ** (n - k) for k in range(n + 1)]
    assert sum(ways) == 100**n
    tail = Fraction(25, 1000) * 100**n
    # rank r is too high if fewer than r values lie below the percentile, and rank s too low if s do
    below, above = [0, *accumulate(ways)], [0, *accumulate(reversed(ways))]
    low = max((rank for rank in range(1, n + 1) if below[rank] <= tail), default=None)
    high = min((rank for rank in range(1, n + 1) if above[n + 1 - rank] <= tail), default=None)
    values = np.random.default_rng(n).permutation(n) + 1.0  # each is its own rank
    assert percentile(values.tolist(), percent)[1:] == (low, high)


@pytest.mark.parametrize("percent", [50, 90, 99])
@pytest.mark.parametrize("n", [1, 2, 9, 10, 99, 100, 101, 1000, 1008])
def test_the_value_is_numpys_without_interpolation(n, percent):
    values = np.random.default_rng(n).lognormal(size=n)
    expected = np.percentile(values, percent, method="inverted_cdf")
    assert percentile(values.tolist(), percent).value == expected


@pytest.mark.parametrize("percent", [50, 90, 99])
def test_the_interval_holds_the_true_percentile_as_often_as_it_says(percent):
    draws = np.random.default_rng(3).random((400, 400))
    found = [percentile(each.tolist(), percent) for each in draws]
    held = np.mean([each.low <= percent / 100 <= each.high for each in found])
    assert held >= 0.93  # 95 % and more; 400 draws show less than 93 % once in twenty


def test_nine_rounds_give_the_second_least_and_the_second_greatest():
    rounds = [float(each) for each in (3, 9, 1, 7, 5, 2, 8, 6, 4)]
    assert percentile(rounds, 50) == (5, 2, 8)
    assert percentile(rounds[:5], 50) == (5, None, None)


def test_a_change_is_paired():
    reference, candidate = [1.0, 10.0, 100.0], [2.0, 30.0, 100.0]
    assert paired_change(candidate, reference, relative=False).value == 1
    assert paired_change(candidate, reference, relative=True).value == 1
    with pytest.raises(ValueError, match="zip"):
        paired_change(candidate[:2], reference, relative=True)


def test_nothing_has_no_percentile():
    with pytest.raises(ValueError, match="no value"):
        percentile([], 50)
