"""The noise floor of a few hand-made seeds."""

import numpy as np
import pytest

from alignkit.compare.noise_floor import noise_floor
from alignkit.compare.predictions import Predictions
from alignkit.errors import DataError, NothingCompared


def predicting(classes_predicted, labels=(0, 0, 1, 1)) -> Predictions:
    logits = np.eye(2, dtype=np.float32)[list(classes_predicted)]
    return Predictions(tuple("abcd"), np.array(labels), logits, ("x", "y"))


def test_spread_and_churn_of_three_seeds_worked_by_hand():
    found = noise_floor(
        "opencv",
        {3: predicting([0, 0, 1, 1]), 1: predicting([0, 0, 1, 0]), 2: predicting([1, 0, 1, 0])},
    )
    assert (found.preprocess, found.seeds) == ("opencv", (3, 1, 2))
    assert found.metrics["top1"] == 1.0 - 0.5
    assert found.churn == pytest.approx((0.25 + 0.5 + 0.25) / 3)


def test_equal_models_have_a_floor_of_zero():
    found = noise_floor("opencv", dict.fromkeys((0, 1), predicting([0, 1, 1, 1])))
    assert set(found.metrics.values()) == {0.0}
    assert found.churn == 0.0


def test_a_metric_undefined_for_one_seed_is_left_out():
    one = predicting([0, 0, 0, 0])
    one.logits[:] = np.nan
    found = noise_floor("opencv", {0: predicting([0, 0, 1, 1]), 1: one})
    assert "precision.macro" not in found.metrics
    assert found.metrics["top1"] == 1.0


def test_one_seed_has_no_floor_and_says_why():
    with pytest.raises(NothingCompared, match="one seed"):
        noise_floor("opencv", {0: predicting([0, 0, 1, 1])})


def test_seeds_on_different_images_are_refused():
    other = predicting([0, 0, 1, 1]).rows(np.array([1, 0, 2, 3]))
    with pytest.raises(DataError):
        noise_floor("opencv", {0: predicting([0, 0, 1, 1]), 1: other})
