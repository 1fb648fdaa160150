"""Slopes by Theil and Sen, against SciPy's and against counted orders."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import kendalltau, theilslopes

from alignkit.compare.trend import theil_sen


@pytest.mark.parametrize("n", [5, 6, 8, 10, 12, 20, 40])
def test_slope_and_interval_are_those_of_scipy(n):
    draws = np.random.default_rng(n)
    values = 3 + 0.5 * np.arange(n) + draws.normal(size=n)
    ours, theirs = theil_sen(values.tolist()), theilslopes(values)
    assert ours.value == pytest.approx(theirs.slope)
    # the same rank by the exact chances and by the normal curve
    assert (ours.low, ours.high) == pytest.approx((theirs.low_slope, theirs.high_slope))


@pytest.mark.parametrize("n", [5, 6, 7])
def test_every_order_of_noise_counted_misses_at_most_one_in_forty_on_each_side(n):
    missed = [0, 0]
    for noise in permutations(range(n)):
        found = theil_sen(noise)
        assert found.low is not None
        assert found.high is not None
        missed[0] += found.low > 0
        missed[1] += found.high < 0
    orders = len([*permutations(range(n))])
    assert max(missed) * 40 <= orders


def test_an_interval_without_zero_is_kendalls_test():
    draws = np.random.default_rng(3)
    for _ in range(50):
        values = (0.3 * np.arange(9) + draws.normal(size=9)).tolist()
        found = theil_sen(values)
        p = kendalltau(range(9), values, method="exact").pvalue
        assert (found.low > 0 or found.high < 0) == (p <= 0.05)


def test_equal_values_have_no_slope():
    found = theil_sen([7.0] * 6)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_few_points_have_no_interval():
    found = theil_sen([1, 2, 4, 8])
    slopes = [(2**j - 2**i) / (j - i) for i, j in combinations(range(4), 2)]
    assert found.value == pytest.approx(np.median(slopes))
    assert found.low is None
    assert "too few" in found.reason
    assert theil_sen([1]).value is None
