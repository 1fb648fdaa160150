"""Pairs of a row's cells against `drift` of the two, number by number."""

from itertools import combinations

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.cell_pairs import cell_pairs
from alignkit.compare.predictions import Predictions
from tests.compare.test_compare import predictions

RESAMPLES = 300


def as_drift(reference, candidate):
    return drift(reference=reference, candidate=candidate, draws=SharedDraws(RESAMPLES))


def assert_is(found, expected):
    for count in ("n", "right_to_wrong", "wrong_to_right", "wrong_to_wrong"):
        assert getattr(found, count) == getattr(expected, count), count
    assert found.p_values == pytest.approx(expected.p_values, abs=1e-12)
    assert found.detectable == pytest.approx(expected.detectable)
    assert found.metrics.keys() == expected.metrics.keys()
    for mine, other in [
        *((found.metrics[name], expected.metrics[name]) for name in found.metrics),
        (found.churn, expected.churn),
    ]:
        assert mine.reason == other.reason
        for end in ("value", "low", "high"):
            assert getattr(mine, end) == pytest.approx(getattr(other, end), abs=1e-12), end


@pytest.mark.parametrize("seeds", [1, 3])
def test_each_pair_is_the_drift_of_the_two(seeds):
    cells = [
        [predictions(10 * cell + k, n=240, noise=0.4 + 0.3 * cell) for k in range(seeds)]
        for cell in range(3)
    ]
    found = cell_pairs(cells, draws=SharedDraws(RESAMPLES))
    assert [*found] == [*combinations(range(3), 2)]
    for (i, j), pair in found.items():
        assert_is(pair, as_drift(cells[i], cells[j]))


def test_a_pair_takes_the_images_and_the_seeds_that_both_have():
    whole = [predictions(k, n=200, noise=0.5) for k in range(2)]
    part = [predictions(5 + k, n=200, noise=0.9).rows(np.arange(20, 190)) for k in range(2)]
    crashed = [None, predictions(9, n=200, noise=0.7)]
    found = cell_pairs([whole, part, crashed, [None, None]], draws=SharedDraws(RESAMPLES))
    assert [*found] == [(0, 1), (0, 2), (1, 2)]
    assert_is(found[0, 1], as_drift(whole, part))
    assert_is(found[0, 2], as_drift(whole[1:], crashed[1:]))
    assert_is(found[1, 2], as_drift(part[1:], crashed[1:]))
    assert found[1, 2].n == 170


def test_cells_without_a_common_image_are_no_pair():
    first = predictions(n=30)
    other = Predictions(
        tuple(f"other {k}" for k in range(30)), first.labels, first.logits, first.classes
    )
    assert cell_pairs([[first], [other]], draws=SharedDraws(RESAMPLES)) == {}


def test_a_class_that_one_side_never_predicts_keeps_its_reason():
    empty = predictions(n=60, classes=2)
    never = Predictions(empty.ids, empty.labels, np.full((60, 2), np.nan, np.float32), ("a", "b"))
    found = cell_pairs([[empty], [never]], draws=SharedDraws(RESAMPLES))[0, 1]
    assert_is(found, as_drift([empty], [never]))
    assert found.metrics["precision.macro"].value is None
