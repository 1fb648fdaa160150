"""Several labels an image: thresholds, ratios of counts, and average precision under weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    jaccard_score,
    precision_score,
    recall_score,
)

from alignkit.annotations import LabelSet
from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.errors import BackendError, ConfigError, DataError
from alignkit.tasks import ClassMap, OutputShape
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.multi_label.multi_label_answers import average_precision
from tests.task_case import CLASSES, NAMES, ids, labels_of, ones, resamples, samples_of, squash

PLACE = squash(8, 8, 8, 8)


def scores(seed: int, count: int, labels: int = 3):
    found = np.random.default_rng(seed).normal(size=(count, labels))
    return found.round(1).astype(np.float32)  # some are tied


def truth(seed: int, count: int, labels: int = 3):
    return np.random.default_rng(seed).random((count, labels)) < 0.4


def answered(outputs, true=None, task=None, classes=CLASSES):
    task, count = task or MultiLabel(), len(outputs)
    records = task.decode((outputs,), [PLACE] * count, classes)
    annotations = () if true is None else labels_of(true)
    return task.answers(
        ids(count), records, samples_of(ids(count), annotations, classes.classes), classes
    )


def test_ratios_are_those_of_scikit_learn():
    true, raw = truth(1, 40), scores(0, 40)
    answers = answered(raw, true)
    given = torch.sigmoid(torch.from_numpy(raw)).numpy() > 0.5
    found = {name: value[..., 0] for name, value in answers.metrics_of(ones(answers)).items()}
    for name, function in (
        ("recall", recall_score), ("precision", precision_score), ("f1", f1_score),
    ):  # fmt: skip
        for average in ("macro", "micro"):
            assert found[f"{name}.{average}"] == function(true, given, average=average)
    np.testing.assert_array_equal(found["recall"], recall_score(true, given, average=None))
    np.testing.assert_array_equal(found["precision"], precision_score(true, given, average=None))
    assert {*answers.metric_names} <= {*found}
    expected = jaccard_score(true, given, average="samples", zero_division=1.0)
    assert answers.quality().mean() == pytest.approx(expected, abs=1e-15)


def test_average_precision_is_that_of_scikit_learn():
    true, raw = truth(1, 40), scores(0, 40)
    answers = answered(raw, true)
    found = answers.metrics_of(ones(answers))
    expected = average_precision_score(true, raw, average=None)
    np.testing.assert_allclose(found["ap"][:, 0], expected, rtol=1e-14)
    assert found["map"][0] == pytest.approx(average_precision_score(true, raw), rel=1e-14)


def test_average_precision_under_weights_is_that_of_the_images_that_a_resample_drew():
    true, raw = truth(1, 30)[:, 0], scores(0, 30)[:, 0]
    weights, drawn = resamples(30, 50)
    found = average_precision(true, raw, weights)
    expected = [average_precision_score(true[each], raw[each]) for each in drawn]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    weighted = [average_precision_score(true, raw, sample_weight=each) for each in weights.T]
    np.testing.assert_allclose(found, weighted, rtol=1e-13)


def test_average_precision_has_no_value_without_a_true_image():
    weights = np.array([[1, 0], [0, 1]], np.float32)
    found = average_precision(np.array([True, False]), np.zeros(2, np.float32), weights)
    np.testing.assert_array_equal(found, [1, np.nan])
    nothing = average_precision(np.zeros(2, bool), np.zeros(2, np.float32), weights)
    assert np.isnan(nothing).all()


def test_a_score_of_nan_ranks_last():
    true = np.array([True, False, False])
    found = average_precision(true, np.array([np.nan, 0, -9], np.float32), np.ones((3, 1), "f4"))
    assert found == [1 / 3]


def test_a_mean_over_labels_leaves_out_those_that_no_image_has():
    true = truth(1, 10)
    true[:, 2] = False
    raw = scores(0, 10)
    found = answered(raw, true).metrics_of(np.ones((10, 1), np.float32))
    assert found["map"][0] == pytest.approx(average_precision_score(true[:, :2], raw[:, :2]))
    assert np.isnan(found["ap"][2, 0])


@pytest.mark.parametrize("kind", ["sigmoid", "as-is"])
def test_each_label_has_its_threshold(kind):
    limits = {"sky": 0.2, "road": 0.5, "car": 0.9}
    raw = scores(0, 20)
    probabilities = torch.sigmoid(torch.from_numpy(raw)).numpy()
    given = raw if kind == "sigmoid" else probabilities
    answers = answered(given, task=MultiLabel(scores=kind, threshold=limits))
    np.testing.assert_array_equal(answers.given, probabilities > [[0.2, 0.5, 0.9]])


@pytest.mark.parametrize(
    ("threshold", "reason"),
    [
        ({"sky": 0.2}, "threshold: 2 labels have none, first 'road'; name every label"),
        ({"sky": 0.2, "roat": 0.2, "car": 0.2}, "no label 'roat'; did you mean 'road'"),
    ],
)
def test_thresholds_that_do_not_fit_the_labels_are_refused(threshold, reason):
    with pytest.raises(ConfigError, match=reason):
        answered(scores(0, 1), task=MultiLabel(threshold=threshold))


def test_a_threshold_that_is_no_probability_is_refused():
    with pytest.raises(ConfigError, match=r"threshold\.car: 1\.5; from 0 to 1"):
        MultiLabel(threshold={"car": 1.5})
    with pytest.raises(ConfigError, match=r"threshold: -1; from 0 to 1"):
        MultiLabel(threshold=-1)


def test_labels_that_appear_or_vanish_are_counted():
    before = np.array([[1, -1, -1], [1, 1, -1]], np.float32)
    after = np.array([[-1, 1, -1], [1, 1, -2]], np.float32)
    a, b = answered(before), answered(after)
    np.testing.assert_array_equal(a.changed(b), [True, False])
    np.testing.assert_array_equal(a.differs(b), [True, True])
    assert a.measures_of(b)["label_churn"].of(ones(a)) == 1
    assert (a.said(0), a.said(1)) == ("sky", "sky, road")
    assert answered(-np.abs(before)).said(0) == "no label"


def test_a_label_outside_the_data_makes_an_answer_less_right_and_adds_to_no_class():
    classes = ClassMap(("sky", "road"), ("car",), order=(1, 2, 0))
    raw = np.array([[5, 5, -5]], np.float32)  # car, sky, road
    answers = answered(raw, np.array([[True, False]]), classes=classes)
    assert answers.said(0) == "sky, car"
    assert answers.quality() == 0.5
    assert answers.counts().predicted == (1, 0)


def test_an_image_without_labels_is_right_if_it_gets_none():
    answers = answered(np.full((2, 3), -5, np.float32), np.zeros((2, 3), bool))
    np.testing.assert_array_equal(answers.quality(), [1, 1])


def test_an_image_with_nan_is_counted_and_gets_no_label_of_it():
    raw = np.array([[np.nan, 5, -5], [1, np.inf, 1]], np.float32)
    answers = answered(raw, np.ones((2, 3), bool))
    np.testing.assert_array_equal(answers.finite(), [False, False])
    assert answers.said(0) == "road"
    assert answers.changed(answers).sum() == answers.differs(answers).sum() == 0
    assert np.isfinite(answers.metrics_of(ones(answers))["map"]).all()


def test_outputs_are_recognised_or_refused_by_their_shape():
    task = MultiLabel()
    two = [OutputShape("features", (1, 8, 8)), OutputShape("y", (None, 3))]
    assert task.wanted(two) == ("y",)
    sure = [replace(each, scale="logits") for each in two]
    assert task.recognise(sure, 3) == (
        "y: scores of labels, by sigmoid; an image has those above 0.5"
    )
    assert "logits are assumed" in task.recognise(two, 3)
    with pytest.raises(ConfigError, match="y has 3 outputs for 4 labels"):
        task.recognise(two, 4)
    with pytest.raises(ConfigError, match="no output fits"):
        task.recognise(two[:1], 3)
    with pytest.raises(BackendError, match="one score of each label"):
        task.decode((np.zeros((2, 4), np.float32),), [PLACE] * 2, CLASSES)


def test_annotations_that_are_no_labels_of_the_data_are_refused():
    task = MultiLabel()
    records = task.decode((scores(0, 1),), [PLACE], CLASSES)
    with pytest.raises(DataError, match=r"0.jpg: label 3 is not in 0\.\.2"):
        task.answers(ids(1), records, samples_of(ids(1), [LabelSet((3,))]), CLASSES)
    assert task.refuses("labels") == task.refuses("none") == ""
    assert "has mask" in task.refuses("mask")


def test_images_without_labels_have_changes_but_no_metrics():
    a, b = answered(scores(0, 5)), answered(scores(1, 5))
    assert a.metrics_of(ones(a)) == {}
    assert np.isnan(a.quality()).all()
    assert a.outputs == NAMES
    assert a.measures_of(b)["label_churn"].of(ones(a)) > 0


def test_answers_disagree_if_their_labels_or_thresholds_do():
    a, b = answered(scores(0, 9), truth(0, 9)), answered(scores(0, 9), truth(1, 9))
    assert a.unlike(b).startswith("the labels of ")
    assert a.unlike(replace(a, limits=(0.1, 0.1, 0.1))) == "the two have different thresholds"
    assert a.unlike(a) == ""


def test_a_drift_of_labels_has_metrics_measures_classes_and_distances():
    a, b = answered(scores(0, 30), truth(0, 30)), answered(scores(1, 30), truth(0, 30))
    found = drift([a], [b], draws=SharedDraws(50))
    expected = [average_precision_score(truth(0, 30), scores(seed, 30)) for seed in (0, 1)]
    assert found.metrics["map"].value == pytest.approx(expected[1] - expected[0])
    assert found.measures["label_churn"].value > 0
    assert found.logits.max_abs == np.abs(scores(1, 30) - scores(0, 30)).max()
    assert {*found.classes[0].others} == {"ap"}
    reason = "the model's outputs are probabilities, and no logits"
    probable = [replace(each, kind="as-is") for each in (a, b)]
    assert type(a).distance([(probable[0], probable[1])]).reason == reason


def test_a_probability_of_float32_does_not_exceed_its_own_value():
    given = np.array([[0.3, 0.7, 0.1]], np.float32)
    at = answered(given, task=MultiLabel(scores="as-is", threshold=0.3))
    np.testing.assert_array_equal(at.given, [[False, True, False]])
