"""Images that depend on each other are drawn, counted and tested as groups."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import binomtest

from alignkit.compare import drift
from alignkit.compare.answers import RatioOfSums
from alignkit.compare.bootstrap import SharedDraws, image_weights, resample_weights
from alignkit.compare.statistics import FEW_DEFINE
from alignkit.tasks.embedding.retrieval_facts import weighted_estimates
from tests.compare.test_quality import Rated, rated


@dataclass(frozen=True, eq=False)
class Grouped(Rated):
    """Rated answers whose images form groups."""

    of_group: tuple = ()

    def groups(self):
        return np.array(self.of_group) if self.of_group else None

    def churn(self, other):
        return RatioOfSums(self.changed(other).astype(float), np.ones(len(self)))

    def metrics_of(self, weights):
        found = super().metrics_of(weights)
        return {name: value for name, value in found.items() if value.ndim == 1}


def grouped(values, groups, moved=None):
    plain = rated(values, moved)
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return Grouped(**fields, of_group=tuple(groups))


def test_a_draw_takes_whole_groups_as_many_as_there_are():
    groups = np.array([0, 0, 0, 1, 2, 2])
    blocks = np.concatenate([*image_weights(6, groups, 500, 3)], axis=1)
    first = blocks[[0, 3, 4]]
    assert np.array_equal(blocks, first[groups])
    assert (first.sum(axis=0) == 3).all()
    assert np.array_equal(first, np.concatenate([*resample_weights(3, 500, 3)], axis=1))


def test_images_without_groups_are_drawn_as_ever():
    ours, plain = (np.concatenate([*each], axis=1) for each in (
        image_weights(50, None, 300, 7), resample_weights(50, 300, 7),
    ))  # fmt: skip
    assert np.array_equal(ours, plain)


def test_every_image_its_own_group_gives_the_numbers_of_images():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=60), rng.normal(size=60)
    moved = rng.random(60) < 0.4
    alone = drift([rated(before)], [rated(after, moved)], draws=SharedDraws(300))
    own = drift(
        [grouped(before, range(60))], [grouped(after, range(60), moved)], draws=SharedDraws(300)
    )
    assert own.groups == 60
    assert alone.groups is None
    expected = replace(own, groups=None, detectable=alone.detectable, classes=alone.classes)
    assert expected == alone
    # linear around the mean, which differs in the last digits
    assert own.detectable == pytest.approx(alone.detectable, rel=1e-12)


def test_copies_in_a_group_add_no_certainty():
    """Each image five times is one image five times, not five images."""
    rng = np.random.default_rng(1)
    before, after, moved = rng.normal(size=40), rng.normal(size=40), rng.random(40) < 0.3
    once = drift([rated(before)], [rated(after, moved)], draws=SharedDraws(500))
    groups = np.repeat(np.arange(40), 5)

    def five(values):
        return np.repeat(values, 5)

    copied = drift(
        [grouped(five(before), groups)],
        [grouped(five(after), groups, five(moved))],
        draws=SharedDraws(500),
    )
    assert copied.n == 200
    assert copied.groups == 40
    assert copied.changed == 5 * once.changed
    assert (copied.churn.low, copied.churn.high) == pytest.approx((once.churn.low, once.churn.high))
    assert copied.errors["churn"].images == pytest.approx(once.errors["churn"].images)
    assert copied.mcnemar_p == pytest.approx(once.mcnemar_p)
    assert copied.detectable == pytest.approx(once.detectable)
    assert {**copied.p_values} == pytest.approx({**once.p_values})
    ignored = drift(
        [rated(five(before))], [rated(five(after), five(moved))], draws=SharedDraws(500)
    )
    assert ignored.errors["churn"].images < 0.6 * once.errors["churn"].images


def test_a_group_is_one_trial_by_the_sign_of_its_sum():
    groups = [0, 0, 0, 1, 2, 2]
    before, after = np.zeros(6), np.array([1.0, 1, -1, 1, -1, -1])
    found = drift([grouped(before, groups)], [grouped(after, groups)], draws=SharedDraws(50))
    assert (found.wrong_to_right, found.right_to_wrong) == (3, 3)
    assert found.mcnemar_p == pytest.approx(binomtest(2, 3).pvalue)


def test_images_that_were_not_asked_count_in_no_share():
    @dataclass(frozen=True, eq=False)
    class Asked(Grouped):
        def churn(self, other):
            asked = (np.arange(len(self)) < 10).astype(float)
            return RatioOfSums(self.changed(other) * asked, asked)

    moved = np.arange(40) < 4
    sides = [grouped(np.zeros(40), range(40), moved) for _ in range(2)]
    one, other = (
        Asked(**{name: getattr(each, name) for name in each.__dataclass_fields__}) for each in sides
    )
    found = drift([one], [other], draws=SharedDraws(50))
    assert (found.n, found.asked, found.changed) == (40, 10, 4)
    assert found.churn.value == 0.4


def test_a_single_group_or_image_gives_a_value_and_no_interval():
    before, after = np.zeros(6), np.array([1.0, 1, -1, 1, -1, -1])
    one_group = drift([grouped(before, [0] * 6)], [grouped(after, [0] * 6)], draws=SharedDraws(50))
    one_image = drift([rated(before[:1])], [rated(after[:1])], draws=SharedDraws(50))
    for found in (one_group, one_image):
        assert (found.churn.value, found.churn.low, found.churn.high) == (1.0, None, None)
        assert found.churn.reason == FEW_DEFINE
        assert found.errors == {}
        assert found.p_values == {}
    two = drift([grouped(before, [0] * 3 + [1] * 3)], [grouped(after, [0] * 3 + [1] * 3)])
    assert two.churn.low is not None


@pytest.mark.parametrize(("asked", "known"), [(1, False), (2, True)])
def test_a_value_that_one_group_defines_has_no_interval(asked, known):
    """Of twenty groups one alone is counted: every draw that has it gives the same value."""
    values = np.where(np.arange(40) < 2 * asked, np.arange(40) % 2, 0.0)
    counted = (np.arange(40) < 2 * asked).astype(float)
    groups = np.repeat(np.arange(20), 2)
    found = weighted_estimates([{"rate": RatioOfSums(values, counted)}], 40, groups)["rate"]
    assert found.value == 0.5
    assert (found.low is not None) == known
    assert found.reason == ("" if known else FEW_DEFINE)
