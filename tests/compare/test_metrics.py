"""Classification metrics against scikit-learn and hand-worked cases."""

import warnings

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from alignkit.compare.logit_sums import logit_distance
from alignkit.compare.metrics import (
    METRICS,
    NO_PREDICTION,
    class_counts,
    flips,
    mean_apart,
    predicted_classes,
    ratio,
    top_chances,
    top_classes,
)


def random_case(seed: int, n: int = 300, classes: int = 7):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    predicted = np.where(rng.random(n) < 0.7, labels, rng.integers(0, classes, n))
    return labels, predicted


def sklearn_scores(labels, predicted, classes, average):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sklearn_metrics.precision_recall_fscore_support(
            labels, predicted, labels=range(classes), average=average, zero_division=np.nan
        )[:3]


def same(ours, theirs):
    theirs = np.atleast_1d(theirs)
    assert [each is None for each in ours] == list(np.isnan(theirs))
    assert [each for each in ours if each is not None] == pytest.approx(
        theirs[~np.isnan(theirs)].tolist(), abs=1e-15
    )


def test_outputs_outside_the_classes_are_scored_as_scikit_learn_scores_other_labels():
    labels, predicted = random_case(seed=5)
    predicted[::9] = 7 + np.arange(len(predicted[::9])) % 4
    counts = class_counts(labels, predicted, 7)
    assert len(counts.predicted) == 7
    ours = counts.metrics()
    for average in ("macro", "micro", "weighted"):
        theirs = sklearn_scores(labels, predicted, 7, average)
        same([ours[f"{name}.{average}"] for name in ("precision", "recall", "f1")], theirs)
    assert ours["top1"] == pytest.approx(sklearn_metrics.accuracy_score(labels, predicted))


@pytest.mark.parametrize("kind", ["all present", "absent class", "never predicted", "neither"])
@pytest.mark.parametrize("seed", range(3))
def test_recall_precision_and_f1_equal_scikit_learn(seed, kind):
    labels, predicted = random_case(seed)
    if kind in ("absent class", "neither"):
        labels[labels == 2] = 3
    if kind in ("never predicted", "neither"):
        predicted[predicted == 2] = 4
    counts = class_counts(labels, predicted, 7)
    hits, guesses, support = map(np.array, (counts.true_positive, counts.predicted, counts.support))
    precision, recall, f1 = sklearn_scores(labels, predicted, 7, None)
    np.testing.assert_allclose(ratio(hits, guesses), precision, atol=1e-15)
    np.testing.assert_allclose(ratio(hits, support), recall, atol=1e-15)
    np.testing.assert_allclose(ratio(2 * hits, guesses + support), f1, atol=1e-15)
    for average in ("macro", "micro", "weighted"):
        theirs = sklearn_scores(labels, predicted, 7, average)
        ours = counts.metrics()
        same([ours[f"{each}.{average}"] for each in ("precision", "recall", "f1")], theirs)
    assert ours["top1"] == pytest.approx(sklearn_metrics.accuracy_score(labels, predicted))
    assert set(ours) == set(METRICS)


def test_a_class_that_does_not_occur_is_undefined_and_left_out_of_the_macro_mean():
    counts = class_counts(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 3)
    assert (counts.true_positive, counts.predicted, counts.support) == (
        (1, 2, 0),
        (1, 3, 0),
        (2, 2, 0),
    )
    assert counts.metrics()["precision.macro"] == pytest.approx(5 / 6)
    assert counts.metrics()["recall.macro"] == 0.75


def test_nothing_predicted_gives_none_and_no_warning():
    empty = np.array([], np.int64)
    assert set(class_counts(empty, empty, 2).metrics().values()) == {None}


def test_nan_logits_predict_nothing_and_count_as_wrong():
    logits = np.array([[0, np.nan], [0, 1], [np.inf, 0]], np.float32)
    predicted = predicted_classes(logits)
    assert predicted.tolist() == [NO_PREDICTION, 1, 0]
    counts = class_counts(np.array([1, 1, 0]), predicted, 2)
    assert counts.true_positive == (1, 1)
    assert counts.predicted == (1, 1)
    assert counts.support == (1, 2)


def test_flips_of_a_case_worked_by_hand():
    labels = np.array([0, 0, 1, 1, 2, 2])
    before = np.array([0, 0, 0, 1, 0, 0])
    after = np.array([0, 1, 1, 1, 1, 0])
    names = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong")
    assert flips(labels, before, after) == dict.fromkeys(names, 1)


def test_logit_distance_equals_numpy():
    rng = np.random.default_rng(0)
    left = rng.normal(size=(10_000, 5)).astype(np.float32)
    right = left + rng.normal(0, 0.1, left.shape).astype(np.float32)
    found = logit_distance(left, right)
    gap = np.abs(right.astype(np.float64) - left)
    assert found.max_abs == gap.max()
    assert found.mean_abs == pytest.approx(gap.mean(), rel=1e-12)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    assert found.cosine == pytest.approx(((left * right).sum(1) / norms).mean(), rel=1e-6)
    assert found.compared == 10_000


def test_quantiles_ladder_and_top_k_equal_numpy():
    rng = np.random.default_rng(2)
    left = rng.normal(size=(5000, 12)).astype(np.float32)
    right = left + (10.0 ** rng.uniform(-7, -0.5, size=(5000, 1))).astype(np.float32)
    right[7, 3] = np.inf
    found = logit_distance(left, right)
    kept = np.isfinite(right).all(axis=1)
    gap = np.abs(left[kept].astype(np.float64) - right[kept])
    quantiles = [found.p50, found.p99, found.p99_9]
    assert quantiles == pytest.approx(np.quantile(gap, [0.5, 0.99, 0.999]), rel=1e-6)
    assert found.inside == {
        name: int((gap.max(axis=1) <= float(name)).sum()) for name in ("1e-05", "1e-03", "1e-02")
    }
    ordered = [np.argsort(-each[kept], axis=1, kind="stable") for each in (left, right)]
    same = [sum(set(a[:k]) == set(b[:k]) for a, b in zip(*ordered, strict=True)) for k in (1, 5)]
    assert list(found.same_top.values()) == same
    assert found.compared == 4999


def test_of_equal_logits_the_first_classes_are_the_top():
    logits = np.array([[1, 3, 3, 3, 0, 3], [0, 0, 0, 0, 0, 0]], np.float64)
    assert top_classes(logits, 2).tolist() == [
        [False, True, True, False, False, False], [True, True, False, False, False, False],
    ]  # fmt: skip
    assert (top_classes(logits, 1).argmax(axis=1) == predicted_classes(logits)).all()


@pytest.mark.parametrize(("classes", "known"), [(1, []), (5, [1]), (6, [1, 5])])
def test_top_k_is_counted_only_where_it_leaves_a_class_out(classes, known):
    logits = np.random.default_rng(0).normal(size=(9, classes)).astype(np.float32)
    assert logit_distance(logits, logits).same_top == dict.fromkeys(map(str, known), 9)


def test_equal_logits_are_at_distance_zero_exactly():
    logits = np.random.default_rng(0).normal(size=(99, 10)).astype(np.float32)
    found = logit_distance(logits, logits.copy())
    assert (found.max_abs, found.mean_abs, found.cosine) == (0.0, 0.0, 1.0)


def test_non_finite_logits_are_left_out():
    left = np.array([[1, 0], [np.nan, 0], [0, 2]], np.float32)
    right = np.array([[1, 0], [1, 0], [0, np.inf]], np.float32)
    found = logit_distance(left, right)
    assert (found.max_abs, found.compared) == (0.0, 1)
    none = logit_distance(left[1:], right[1:])
    assert (none.max_abs, none.mean_abs, none.cosine, none.compared) == (None, None, None, 0)
    assert none.reason


def test_zero_logits_have_no_direction():
    zeros = np.zeros((2, 3), np.float32)
    found = logit_distance(zeros, zeros)
    assert found.max_abs == 0
    assert found.cosine is None
    assert found.reason


def test_the_softmax_of_two_equals_scipy_and_does_not_overflow():
    from scipy.special import softmax

    logits = np.array([[1, 3, 2], [1000, 999, 0], [5, 5, 5]], np.float32)
    ordered = np.sort(softmax(logits.astype(np.float64), axis=1), axis=1)
    assert top_chances(logits) == pytest.approx(ordered[:, :-3:-1], abs=1e-12)


def test_mean_apart_is_numpy_s_in_float64_and_unknown_without_finite_logits():
    left = np.array([[0, 1], [3e38, 0], [np.nan, 0], [1, 2]], np.float32)
    right = np.array([[2, -1], [-3e38, 0], [0, 0], [np.inf, 2]], np.float32)
    assert mean_apart(left, right) == pytest.approx([2, 3e38, np.nan, np.nan], nan_ok=True)
