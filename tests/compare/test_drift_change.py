"""The change of a drift: against drifts taken apart, plain loops, and by simulated coverage."""

import numpy as np
import pytest

from alignkit.compare import drift, drift_change
from alignkit.compare.bootstrap import SharedDraws
from alignkit.errors import DataError
from tests.compare.test_bootstrap_of_seeds import models

METRICS = ("churn", "recall.macro", "precision.macro")


def sides(noise, seeds=3, bias=0.0):
    return models(seeds, noise=noise, bias=bias)


def test_the_change_is_the_difference_of_the_two_drifts():
    calm, noisy = sides(0.3), sides(1.5)
    change = drift_change(calm, noisy, METRICS, draws=SharedDraws(300))
    before, after = (
        drift(reference=a, candidate=b, draws=SharedDraws(300)) for a, b in (calm, noisy)
    )
    assert change["churn"].change.value == pytest.approx(after.churn.value - before.churn.value)
    for metric in METRICS[1:]:
        expected = after.metrics[metric].value - before.metrics[metric].value
        assert change[metric].change.value == pytest.approx(expected)


def test_a_drift_changes_by_nothing_from_itself():
    same = sides(0.7)
    for found in drift_change(same, same, METRICS, draws=SharedDraws(300)).values():
        assert (found.change.value, found.change.low, found.change.high) == (0, 0, 0)
        assert found.p == 1
        assert found.before == found.after


def test_of_one_seed_the_interval_is_that_of_paired_images():
    calm, noisy = sides(0.3, seeds=1), sides(1.5, seeds=1)
    found = drift_change(calm, noisy, ("churn",), draws=SharedDraws(8_000))["churn"].change
    flips = [a[0].predicted != b[0].predicted for a, b in (calm, noisy)]
    change = flips[1].astype(float) - flips[0]
    rng = np.random.default_rng(5)
    draws = [change[rng.integers(0, len(change), len(change))].mean() for _ in range(8_000)]
    low, high = np.percentile(draws, [2.5, 97.5])
    assert found.low == pytest.approx(low, abs=0.05 * (high - low))
    assert found.high == pytest.approx(high, abs=0.05 * (high - low))


def test_what_both_have_in_common_cancels():
    calm, noisy = sides(0.9), sides(1.0)
    paired = drift_change(calm, noisy, ("churn",), draws=SharedDraws(2_000))["churn"].change
    apart = [
        drift(reference=a, candidate=b, draws=SharedDraws(2_000)).churn for a, b in (calm, noisy)
    ]
    independent = np.hypot(*(each.high - each.low for each in apart))
    assert paired.high - paired.low < 0.9 * independent


def test_other_seeds_or_images_are_refused():
    few = models(2)
    with pytest.raises(DataError, match="same images and seeds"):
        drift_change(sides(1.0), few, METRICS)
    with pytest.raises(DataError, match="same images and seeds"):
        drift_change(sides(1.0), models(3, n=120), METRICS)
