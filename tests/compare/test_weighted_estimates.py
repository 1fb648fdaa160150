"""Numbers beside metrics have the mean and the interval that `drift` would give them."""

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from alignkit.compare.answers import RatioOfSums
from alignkit.compare.bootstrap import image_weights
from alignkit.tasks.embedding.retrieval_facts import weighted_estimates

IMAGES = 90
GROUPS = np.arange(IMAGES) // 3


def ratio(seed):
    draw = np.random.default_rng(seed)
    return RatioOfSums(draw.random(IMAGES), draw.integers(1, 4, IMAGES).astype(float))


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_an_interval_is_that_of_the_shared_draws(groups):
    number = ratio(0)
    found = weighted_estimates([{"a": number}], IMAGES, groups, resamples=500)["a"]
    weights = np.concatenate([*image_weights(IMAGES, groups, 500, seed=0)], axis=1).astype(float)
    drawn = (number.above @ weights) / (number.below @ weights)
    assert found.value == pytest.approx(number.above.sum() / number.below.sum())
    units = IMAGES if groups is None else IMAGES // 3
    tail = norm.cdf(-math.sqrt(units / (units - 1)) * t.ppf(0.975, units - 1))
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [tail, 1 - tail]).tolist())


def test_equal_images_of_a_group_are_no_more_than_one():
    few = RatioOfSums(np.random.default_rng(1).random(30), np.ones(30))
    tripled = RatioOfSums(np.repeat(few.above, 3), np.ones(IMAGES))
    (one,) = weighted_estimates([{"a": few}], 30, None, resamples=300).values()
    (three,) = weighted_estimates([{"a": tripled}], IMAGES, GROUPS, resamples=300).values()
    assert [three.value, three.low, three.high] == pytest.approx([one.value, one.low, one.high])


def test_seeds_are_averaged_and_widen_the_interval():
    seeds = [{"a": RatioOfSums(np.full(IMAGES, value))} for value in (0.2, 0.4)]
    found = weighted_estimates(seeds, IMAGES, None, resamples=200)["a"]
    assert found.value == pytest.approx(0.3)
    assert found.low < 0.2 < 0.4 < found.high


def test_a_number_that_a_seed_does_not_define_has_no_value():
    defined, undefined = ratio(0), RatioOfSums(np.zeros(IMAGES), np.zeros(IMAGES))
    found = weighted_estimates([{"a": defined}, {"a": undefined}], IMAGES, None, resamples=50)["a"]
    assert (found.value, found.low, found.high) == (None, None, None)
