"""What docs/statistics.md says is what the code does."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from alignkit.compare.bootstrap import joined_draws, spread_of
from alignkit.compare.statistics import (
    Moved,
    change_p,
    holm,
    percentile_interval,
    required_sample,
    t_over_normal,
    welch_satterthwaite_df,
)

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "statistics.md").read_text()


def test_the_modules_it_names_exist():
    for name in re.findall(r"`(alignkit\.[a-z_.]+)`", TEXT):
        import_module(name)
    assert (ROOT / "benchmarks" / "coverage.py").exists()


def test_the_interval_is_that_of_its_four_steps():
    rng = np.random.default_rng(0)
    seeds, n = 3, 200
    changes = rng.normal(size=(seeds, 1)) + rng.normal(size=(seeds, n))
    draws = changes @ (rng.multinomial(n, [1 / n] * n, size=4_000).T / n)
    each = changes.mean(axis=1)
    by_images = draws.mean(axis=0).var()
    within = np.mean((draws - each[:, None]).var(axis=0, ddof=1))
    by_seeds = max(0.0, each.var(ddof=1) - within) / seeds
    spread = spread_of(draws, each)
    assert (spread.images**2, spread.seeds**2) == pytest.approx((by_images, by_seeds))
    free = (by_images + by_seeds) ** 2 / (by_images**2 / (n - 1) + by_seeds**2 / (seeds - 1))
    assert float(
        welch_satterthwaite_df(spread.images, spread.seeds, images=n, seeds=seeds)
    ) == pytest.approx(free)
    low, high = percentile_interval(joined_draws(draws, each, spread, images=n))
    half = 1.96 * float(t_over_normal(np.array(free))) * np.sqrt(by_images + by_seeds)
    assert (high - low) / 2 == pytest.approx(half, rel=0.25)  # three seeds are no normal sample


def test_would_settle_is_the_least_number_whose_half_interval_fits_the_gap():
    errors = {"images_error": 0.01, "seeds_error": 0.004}
    needed = required_sample(0.02, **errors, images=200, seeds=3).images

    def half(n):
        by_images = 0.01 * np.sqrt(200 / n)
        free = welch_satterthwaite_df(np.array(by_images), np.array(0.004), images=n, seeds=3)
        return 1.959964 * float(t_over_normal(free)) * np.hypot(by_images, 0.004)

    assert half(needed) <= 0.02 < half(needed - 1)


def test_holm_multiplies_the_smallest_by_their_number_and_an_exact_test_bounds_p():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    certain = change_p(
        0.5, images_error=1e-9, seeds_error=0.0, images=100, seeds=1, flipped=Moved.alike(4)
    )
    assert certain == 2 * 0.5**4
