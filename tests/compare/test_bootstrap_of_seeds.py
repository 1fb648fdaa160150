"""Intervals over seeds and images: against plain loops, and by simulated coverage."""

import numpy as np
import pytest
from scipy.stats import t as student

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws, joined_draws, spread_of
from alignkit.compare.predictions import Predictions
from alignkit.compare.statistics import percentile_interval, welch_satterthwaite_df

CLASSES = tuple("abcd")


def models(seeds, n=240, noise=1.0, bias=0.0):
    """Pairs of predictions: seeds share the images, and each has a bias of its own."""
    data = np.random.default_rng(0)
    labels = data.integers(0, 4, n)
    befores, afters = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed + 1)
        before = rng.normal(size=(n, 4)) + 1.5 * np.eye(4)[labels]
        after = before + noise * rng.normal(size=(n, 4))
        after[:, 0] += bias * rng.normal()
        for logits, side in ((before, befores), (after, afters)):
            side.append(
                Predictions(tuple(map(str, range(n))), labels, logits.astype(np.float32), CLASSES)
            )
    return befores, afters


def slow_interval(befores, afters, resamples=1_500):
    """The same definition by loops, with draws of its own."""
    rng = np.random.default_rng(99)
    labels = befores[0].labels
    n, seeds = len(labels), len(befores)

    def changes(chosen):
        def recall(side):
            right = side.predicted[chosen] == labels[chosen]
            return np.mean([right[labels[chosen] == each].mean() for each in range(4)])

        return [recall(b) - recall(a) for a, b in zip(befores, afters, strict=True)]

    observed = changes(np.arange(n))
    drawn = [changes(rng.integers(0, n, n)) for _ in range(resamples)]
    by_images = np.var([np.mean(each) for each in drawn])
    noise = np.mean([np.var(np.subtract(each, observed), ddof=1) for each in drawn])
    by_seeds = max(0.0, np.var(observed, ddof=1) - noise) / seeds
    free = (by_images + by_seeds) ** 2 / (by_images**2 / (n - 1) + by_seeds**2 / (seeds - 1))
    wider = student.ppf(0.975, free) / 1.959964
    part = np.sqrt(by_seeds / (np.var(observed, ddof=1) / seeds))
    joined = []
    for each in drawn:
        again = rng.choice(observed, seeds - 1)
        moved = np.mean(each) - np.mean(observed) + part * (np.mean(again) - np.mean(observed))
        joined.append(np.mean(observed) + wider * moved)
    return np.percentile(joined, [2.5, 97.5])


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_intervals_equal_those_of_plain_loops(bias):
    befores, afters = models(3, bias=bias)
    ours = drift(reference=befores, candidate=afters, draws=SharedDraws(8_000)).metrics[
        "recall.macro"
    ]
    low, high = slow_interval(befores, afters)
    assert ours.low == pytest.approx(low, abs=0.1 * (high - low))
    assert ours.high == pytest.approx(high, abs=0.1 * (high - low))


def coverage(seeds, *, of_seed, of_image, of_both, plain=False, n=150, samples=300):
    rng = np.random.default_rng(seeds)
    weights = rng.multinomial(n, np.ones(n) / n, size=300).T / n
    covered = 0
    for sample in range(samples):
        each = (
            of_seed * rng.normal(size=(seeds, 1))
            + of_image * rng.normal(size=(1, n))
            + of_both * rng.normal(size=(seeds, n))
        )
        observed, draws = each.mean(axis=1), each @ weights
        spread = spread_of(draws, observed)
        joined = joined_draws(draws, observed, spread, images=n, seed=sample)
        low, high = percentile_interval(draws.mean(axis=0) if plain else joined)
        covered += low <= 0 <= high
    return covered / samples


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(
    "noise",
    [
        {"of_seed": 1.0, "of_image": 0.3, "of_both": 0.3},
        {"of_seed": 0.08, "of_image": 0.7, "of_both": 0.7},
        {"of_seed": 0.0, "of_image": 1.0, "of_both": 0.0},
        {"of_seed": 0.0, "of_image": 0.0, "of_both": 1.0},
    ],
)
def test_intervals_hold_the_truth_about_19_times_in_20(seeds, noise):
    assert 0.90 <= coverage(seeds, **noise) <= 1.0


def test_images_alone_would_claim_too_much():
    noise = {"of_seed": 1.0, "of_image": 0.3, "of_both": 0.3}
    assert coverage(3, **noise, plain=True) < 0.3
    assert coverage(2, **noise) > 0.85


def test_standard_errors_are_those_the_data_were_made_with():
    rng = np.random.default_rng(0)
    seeds, n = 400, 400
    each = 0.2 * rng.normal(size=(seeds, 1)) + rng.normal(size=(1, n)) + rng.normal(size=(seeds, n))
    weights = rng.multinomial(n, np.ones(n) / n, size=400).T / n
    spread = spread_of(each @ weights, each.mean(axis=1))
    assert spread.images == pytest.approx(1 / np.sqrt(n), rel=0.12)
    assert spread.seeds == pytest.approx(0.2 / np.sqrt(seeds), rel=0.12)


def test_one_seed_is_the_plain_bootstrap_of_images():
    draws = np.random.default_rng(0).normal(size=(1, 500))
    spread = spread_of(draws, np.zeros(1))
    assert np.array_equal(joined_draws(draws, np.zeros(1), spread, images=50), draws[0])
    assert spread.seeds == 0


def test_undefined_draws_of_a_class_do_not_spoil_its_spread():
    draws = np.random.default_rng(0).normal(size=(3, 2, 500))
    holed = draws.copy()
    holed[:, 0, :50] = np.nan
    holed[:, 1] = np.nan
    spread = spread_of(holed, np.zeros((3, 2)))
    alone = spread_of(draws[:, 0, 50:], np.zeros(3))
    assert spread.images[0] == pytest.approx(alone.images)
    assert np.isnan(spread.images[1])


def test_freedom_lies_between_that_of_seeds_and_of_images():
    only_seeds = welch_satterthwaite_df(np.array(0.0), np.array(1.0), images=100, seeds=3)
    only_images = welch_satterthwaite_df(np.array(1.0), np.array(0.0), images=100, seeds=3)
    nothing = welch_satterthwaite_df(np.array(0.0), np.array(0.0), images=100, seeds=3)
    assert (float(only_seeds), float(only_images), float(nothing)) == pytest.approx(
        (2.0, 99.0, 99.0)
    )
