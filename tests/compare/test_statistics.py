"""Intervals, exact tests and detectable effects against statsmodels, NumPy and published values."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm, ttest_1samp
from scipy.stats import t as student
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from alignkit.compare.statistics import (
    Moved,
    RequiredSample,
    change_p,
    detectable_effect,
    discordance_bound,
    exact_interval,
    greatest_share,
    holm,
    images_for_none,
    mcnemar,
    most_within,
    percentile_interval,
    required_sample,
    t_over_normal,
)


@pytest.mark.parametrize(("lost", "won"), [(0, 0), (0, 5), (3, 3), (10, 2), (61, 40), (0, 200)])
def test_mcnemar_equals_statsmodels(lost, won):
    theirs = statsmodels_mcnemar([[500, lost], [won, 100]], exact=True).pvalue
    assert mcnemar(lost, won) == pytest.approx(min(1.0, theirs), rel=1e-12)


def test_holm_equals_statsmodels():
    p_values = [0.01, 0.04, 0.03, 0.005, 0.9, 0.04]
    theirs = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(theirs.tolist())
    assert holm([]) == ()


@pytest.mark.parametrize(("count", "n"), [(0, 1), (0, 40), (1, 40), (7, 1000), (39, 40), (40, 40)])
def test_exact_intervals_equal_statsmodels(count, n):
    theirs = proportion_confint(count, n, alpha=0.05, method="beta")
    assert exact_interval(count, n) == pytest.approx(theirs, abs=1e-12)
    # one-sided: all of the 5 % lies on one side of an interval of 90 %
    _, high = proportion_confint(count, n, alpha=0.10, method="beta")
    assert greatest_share(count, n) == pytest.approx(high, abs=1e-12)


@pytest.mark.parametrize("share", [0.001, 0.005, 0.01, 0.2, 0.9])
def test_the_budget_of_images_is_the_last_whose_bound_is_within_it(share):
    for n in (1, 50, 598, 1000, 5000):
        most = most_within(share, n)
        fits = [greatest_share(count, n) <= share for count in range(n + 1)]
        assert most == (sum(fits) - 1 if fits[0] else None)
        assert (most is not None) == (n >= images_for_none(share))
        if most is not None:  # by the definition of a binomial tail
            assert binom.cdf(most, n, share) <= 0.05 < binom.cdf(most + 1, n, share)


@pytest.mark.parametrize(
    ("effect", "discordance", "images"),
    [(0.001, 0.01, 78_482), (0.002, 0.01, 19_615), (0.005, 0.02, 6_271), (0.01, 0.02, 1_562)],
)
def test_the_detectable_effect_equals_the_published_table(effect, discordance, images):
    assert detectable_effect(images, discordance) == pytest.approx(effect, rel=1e-4)


def test_detectable_effect_is_found_four_times_in_five():
    n, discordance = 2_000, 0.05
    effect = detectable_effect(n, discordance)
    rng = np.random.default_rng(0)
    shares = [(discordance + effect) / 2, (discordance - effect) / 2, 1 - discordance]
    lost, won, _ = rng.multinomial(n, shares, size=4_000).T
    difference = (lost - won) / n
    error = np.sqrt(((lost + won) / n - difference**2) / n)
    assert np.mean(np.abs(difference) > 1.959964 * error) == pytest.approx(0.80, abs=0.02)


def test_detectable_effect_never_exceeds_the_flips_it_needs():
    for n in (10, 100, 1_000, 50_000):
        effect = detectable_effect(n, 0.0)
        # the discordance of that very effect explains it, as all its flips go one way
        assert effect == pytest.approx(detectable_effect(n, effect))
        assert 0 < effect < 1
    assert detectable_effect(1_000, 0.0) == pytest.approx(7.849 / 1007.849, rel=1e-4)


def test_without_a_flip_the_exact_test_finds_the_effect_about_four_times_in_five():
    n = 1_000
    lost = np.random.default_rng(0).binomial(n, detectable_effect(n, 0.0), size=2_000)
    assert np.mean([mcnemar(int(each), 0) < 0.05 for each in lost]) == pytest.approx(0.80, abs=0.03)


def test_effect_shrinks_with_images_and_grows_with_discordance():
    effects = [detectable_effect(n, 0.02) for n in (100, 1_000, 10_000)]
    assert effects == sorted(effects, reverse=True)
    effects = [detectable_effect(1_000, share) for share in (0, 0.001, 0.01, 0.1, 1)]
    assert effects == sorted(effects)


def test_discordance_without_a_flip_follows_the_rule_of_three():
    assert discordance_bound(1_000, 0.0) == 0.003
    assert discordance_bound(1_000, 0.01) == 0.01
    assert discordance_bound(1, 0.0) == 1.0
    assert (1 - discordance_bound(1_000, 0.0)) ** 1_000 == pytest.approx(0.05, abs=0.001)


def test_percentile_interval_is_numpys_and_leaves_undefined_draws_out():
    draws = np.random.default_rng(0).normal(size=(3, 500))
    expected = np.percentile(draws, [2.5, 97.5], axis=1)
    assert percentile_interval(draws) == pytest.approx(expected)
    holed = draws.copy()
    holed[1, :100] = np.nan
    holed[2] = np.nan
    low, high = percentile_interval(holed)
    assert (low[1], high[1]) == pytest.approx(tuple(np.percentile(draws[1, 100:], [2.5, 97.5])))
    assert np.isnan([low[2], high[2]]).all()


def test_stretch_is_students_quantile_over_the_normal_one():
    free = np.array([1.0, 2.0, 5.0, 239.0])
    assert t_over_normal(free) == pytest.approx(student.ppf(0.975, free) / norm.ppf(0.975))


def test_the_p_value_is_scipys_t_test_where_only_seeds_vary():
    changes = np.array([0.02, 0.035, 0.01, 0.04])
    ours = change_p(
        changes.mean(), images_error=0.0, seeds_error=changes.std(ddof=1) / 2, images=500, seeds=4,
        flipped=Moved.alike(100),
    )  # fmt: skip
    assert ours == pytest.approx(ttest_1samp(changes, 0).pvalue)


def test_few_flips_cannot_be_significant_however_small_the_error():
    known = {"images_error": 0.001, "seeds_error": 0.0, "images": 500, "seeds": 3}
    assert change_p(0.1, **known, flipped=Moved.alike(4)) == pytest.approx(mcnemar(4, 0))
    assert change_p(0.1, **known, flipped=Moved.alike(40)) < 1e-9
    assert change_p(0.0, **known, flipped=Moved.alike(40)) == 1.0


def test_settling_numbers_settle_and_one_less_does_not():
    known = {"images_error": 0.004, "seeds_error": 0.003}
    found = required_sample(0.009, **known, images=240, seeds=3)

    def half(images, seeds):
        by_images, by_seeds = 0.004**2 * 240 / images, 0.003**2 * 3 / seeds
        free = (by_images + by_seeds) ** 2 / (
            by_images**2 / (images - 1) + by_seeds**2 / (seeds - 1)
        )
        return student.ppf(0.975, free) * np.sqrt(by_images + by_seeds)

    assert half(240, found.seeds) <= 0.009 < half(240, found.seeds - 1)
    # with three seeds, no number of images brings the quantile of two degrees of freedom down
    assert found.images is None
    assert required_sample(0.0, **known, images=240, seeds=3) == RequiredSample(None, None)
    alone = required_sample(0.002, images_error=0.004, seeds_error=0.0, images=240, seeds=1)
    assert alone.seeds is None
    assert alone.images == pytest.approx(240 * (1.96 * 2) ** 2, rel=0.01)


@pytest.mark.parametrize("drawn", [3, 10, 30, 1000])
def test_few_images_expand_the_percentiles_to_students_interval(drawn):
    """Of a normal mean the ends are those of the t interval, with the variance over n − 1."""
    standard_error = 1.0  # of the draws: their variance is over n
    draws = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    low, high = percentile_interval(draws, drawn)
    expected = student.ppf(0.975, drawn - 1) * math.sqrt(drawn / (drawn - 1)) * standard_error
    reach = min(expected, draws[-1])
    assert high == pytest.approx(reach, rel=1e-3)
    assert low == pytest.approx(-reach, rel=1e-3)
