"""Packed predictions: what is kept of a model in a baseline, and how a later one is paired with it."""

import numpy as np
import pytest

from alignkit.baseline.baseline_from_run import drift_since, pack, unpack
from alignkit.compare import drift
from alignkit.compare.predictions import Predictions
from alignkit.errors import BaselineError, DataError, NothingCompared

CLASSES = ("cat", "dog", "newt")


def predictions(seed, n=40, first=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(first, first + n) % 3
    logits = generator.normal(size=(n, 3)).astype(np.float32)
    logits[np.arange(n), labels] += 1
    return Predictions(tuple(f"{i}.jpg" for i in range(first, first + n)), labels, logits, CLASSES)


def test_ids_labels_classes_and_what_was_predicted_come_back():
    before = predictions(0)
    after = unpack(pack(before))
    assert (after.ids, after.classes) == (before.ids, before.classes)
    assert (after.labels == before.labels).all()
    assert (after.predicted == before.predicted).all()


def test_what_predicted_nothing_comes_back_so():
    before = predictions(0)
    before.logits[3] = np.nan
    assert before.predicted[3] == -1
    after = unpack(pack(before))
    assert after.predicted[3] == -1
    assert (after.predicted == before.predicted).all()


def test_a_thousand_images_take_a_few_bytes_each():
    assert len(pack(predictions(0, n=1000))) < 5000


@pytest.mark.parametrize(
    "packed", ["", "no base 85 \\", pack(predictions(0))[:-20], pack(predictions(0))[:-5]]
)
def test_a_damaged_string_is_an_error(packed):
    with pytest.raises(BaselineError, match="restore it from version control"):
        unpack(packed)


def test_its_drift_is_that_of_the_predictions_themselves():
    before, after = ([predictions(seed) for seed in pair] for pair in ((0, 1), (2, 3)))
    expected = drift(reference=before, candidate=after)
    found = drift_since([pack(each) for each in before], [pack(each) for each in after])
    assert found.churn.value == expected.churn.value
    assert (found.churn.low, found.churn.high) == (expected.churn.low, expected.churn.high)
    for name, estimate in expected.metrics.items():
        assert (found.metrics[name].value, found.metrics[name].low) == (
            estimate.value,
            estimate.low,
        )
    assert found.right_to_wrong == expected.right_to_wrong
    assert found.logits.max_abs is None
    assert "keeps classes, not logits" in found.logits.reason


def test_only_the_images_of_both_are_paired():
    found = drift_since([pack(predictions(0, n=40))], [pack(predictions(0, n=40, first=30))])
    assert found.n == 10


def test_other_images_or_labels_are_no_pair():
    with pytest.raises(NothingCompared):
        drift_since([pack(predictions(0))], [pack(predictions(0, first=90))])
    other = predictions(0)
    other.labels[0] = 2
    with pytest.raises(DataError, match="labels of 1 of 40 images disagree"):
        drift_since([pack(predictions(0))], [pack(other)])
