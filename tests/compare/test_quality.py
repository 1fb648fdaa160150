"""Worse and better answers, their sign test and the detectable effect, for any quality."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from statsmodels.stats.power import TTestPower

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.record import LogitDistance

N = 200
POWER = norm.ppf(0.975) + norm.ppf(0.8)


@dataclass(frozen=True, eq=False)
class Rated(Predictions):
    """Predictions of one class whose quality and changes are given."""

    values: tuple = ()
    moved: tuple = ()

    def quality(self):
        return np.array(self.values, float)

    def changed(self, other):
        return np.array(other.moved, bool)

    differs = changed

    @classmethod
    def distance(cls, pairs):
        return LogitDistance(None, None, None, "no logits")

    @classmethod
    def pair_facts(cls, pairs, changes, groups):
        return {}


def rated(values, moved=None):
    moved = np.ones(len(values), bool) if moved is None else moved
    ids = tuple(map(str, range(len(values))))
    labels = np.zeros(len(values), int)
    logits = np.eye(2, dtype=np.float32)[np.arange(len(values)) % 2]  # of one class none is drawn
    return Rated(ids, labels, logits, ("a", "b"), values=tuple(values), moved=tuple(moved))


def test_the_detectable_effect_of_a_continuous_quality_is_that_of_a_paired_mean():
    gained = np.random.default_rng(0).normal(0, 1e-3, N)
    found = drift([rated(np.full(N, 7.0))], [rated(7 + gained)], draws=SharedDraws(50)).detectable
    spread = gained.std(ddof=1)
    assert found == pytest.approx(POWER * spread / np.sqrt(N))
    # by Student's instead of the normal distribution a few parts in a hundred more
    solved = TTestPower().solve_power(nobs=N, alpha=0.05, power=0.8) * spread
    assert found == pytest.approx(solved, rel=0.02)


def test_an_unknown_quality_is_left_out_and_hides_nothing():
    gained = np.random.default_rng(0).normal(0, 10, N)
    known = drift([rated(np.zeros(N - 1))], [rated(gained[1:])], draws=SharedDraws(50)).detectable
    gained[0] = np.nan
    assert drift([rated(np.zeros(N))], [rated(gained)], draws=SharedDraws(50)).detectable == known
    nothing = drift([rated(np.full(N, np.nan))], [rated(gained)], draws=SharedDraws(50))
    assert nothing.detectable is None
    assert nothing.right_to_wrong == nothing.wrong_to_right == nothing.wrong_to_wrong == 0


def test_equal_gains_show_no_spread_to_detect_by():
    assert (
        drift([rated(np.full(N, 0.5))], [rated(np.full(N, 0.6))], draws=SharedDraws(50)).detectable
        is None
    )


def test_only_changed_answers_are_counted_and_tested():
    gained, moved = np.full(N, -1e-9), np.arange(N) < 12
    gained[:3] = 0.2
    found = drift([rated(np.full(N, 0.5))], [rated(0.5 + gained, moved)], draws=SharedDraws(50))
    assert (found.right_to_wrong, found.wrong_to_right, found.wrong_to_wrong) == (9, 3, 0)
    assert found.mcnemar_p == pytest.approx(binomtest(3, 12).pvalue)
    still = drift(
        [rated(np.full(N, 0.5))], [rated(0.5 + gained, moved & False)], draws=SharedDraws(50)
    )
    assert still.mcnemar_p == 1.0
