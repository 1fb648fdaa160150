"""The resampling: its law, its sums, its memory."""

import numpy as np
import pytest

from alignkit.compare import bootstrap
from alignkit.compare.bootstrap import (
    SharedDraws,
    image_weights,
    indicators,
    resample_weights,
)


def all_weights(n, resamples, seed):
    return np.concatenate(list(resample_weights(n, resamples, seed)), axis=1)


def test_every_resample_draws_n_images():
    weights = all_weights(50, 400, 0)
    assert weights.shape == (50, 400)
    assert (weights.sum(axis=0) == 50).all()


def test_draws_have_the_moments_of_a_multinomial():
    n = 20
    weights = all_weights(n, 40_000, 1)
    covariance = np.cov(weights)
    assert weights.mean(axis=1) == pytest.approx(np.ones(n), abs=0.03)
    assert np.diag(covariance) == pytest.approx(np.full(n, 1 - 1 / n), abs=0.05)
    assert covariance[~np.eye(n, dtype=bool)] == pytest.approx(np.full(n * n - n, -1 / n), abs=0.03)


def test_the_same_seed_draws_the_same_however_it_is_cut(monkeypatch):
    whole = all_weights(30, 100, 7)
    monkeypatch.setattr(bootstrap, "BLOCK_BYTES", 30 * 4 * 9)
    assert np.array_equal(all_weights(30, 100, 7), whole)
    monkeypatch.setattr(bootstrap, "KEPT_BYTES", 0)
    assert np.array_equal(all_weights(30, 100, 7), whole)
    assert not np.array_equal(all_weights(30, 100, 8), whole)


def test_products_of_indicators_are_exact_sums_of_the_weights():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, 200)
    chosen = rng.random(200) < 0.6
    weights = all_weights(200, 50, 3)
    counts = indicators(group, 4, chosen) @ weights
    expected = [weights[(group == each) & chosen].sum(axis=0) for each in range(4)]
    assert np.array_equal(counts, expected)


@pytest.mark.slow
def test_fifty_thousand_images_stay_under_200_megabytes():
    import tracemalloc

    group = np.random.default_rng(0).integers(0, 10, 50_000)
    members = indicators(group, 10, np.ones(50_000, bool))
    tracemalloc.start()
    for weights in resample_weights(50_000, 2_000, 5):
        members @ weights
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    bootstrap._kept.cache_clear()
    assert peak < 200e6


def test_comparisons_of_the_same_images_share_arrays_that_no_one_changes():
    draws, groups = SharedDraws(50, 3), np.repeat(np.arange(10), 3)
    first = draws.of(30, groups)
    assert draws.of(30, groups.copy()) is first
    for block, expected in zip(first, image_weights(30, groups, 50, 3), strict=True):
        assert np.array_equal(block, expected)
        assert not block.flags.writeable
    # of as many images, but in other groups
    others = draws.of(30, None)
    assert np.array_equal(others[0], next(image_weights(30, None, 50, 3)))
