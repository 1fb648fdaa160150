"""What a classifier's outputs are, by the answers to all images and never by those of a batch."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax

from alignkit.compare.idle_answers import nothing_answered
from alignkit.compare.logit_sums import ScoreRows, added_rows
from alignkit.compare.predictions import Predictions
from alignkit.outcome import Failed, Measured
from alignkit.predict import Answer
from alignkit.predict.predict_cells import Predicted, read_alike
from alignkit.record import BatchCheck
from alignkit.tasks import ClassMap
from alignkit.tasks.classification import Classification
from alignkit.tasks.multi_label import MultiLabel
from tests.task_case import ids, samples_of

RNG = np.random.default_rng(0)
RAW = RNG.normal(size=(60, 5))
SHARES = softmax(RAW, axis=1)
EMBEDDING = RAW / np.linalg.norm(RAW, axis=1, keepdims=True)
WORDS = {"": "", "labels": "add up to", "embedding": "has the length 1"}
FOUND = {
    # name: rows; what they are, and why they are refused as scores of classes
    "logits": (RAW, "logits", ""),
    "logits above 0": (np.abs(RAW) * 90 + 30, "logits", ""),
    "logarithms of probabilities": (log_softmax(RAW, axis=1), "logits", ""),
    "probabilities": (SHARES, "probabilities", ""),
    "probabilities in float16": (SHARES.astype(np.float16), "probabilities", ""),
    "probabilities of two classes": (softmax(RAW[:, :2], axis=1), "probabilities", ""),
    "certain answers": (np.eye(5)[RAW.argmax(axis=1)], "probabilities", ""),
    "percentages": (100 * SHARES, "percent", ""),
    "levels": (255 * SHARES, "levels", ""),
    "labels": (expit(RAW), "logits", "labels"),
    "labels in percent": (100 * expit(RAW), "logits", "labels"),
    "an embedding": (EMBEDDING, "logits", "embedding"),
    "one logit": (RAW[:, :1], "logits", ""),
    "all alike": (np.full((60, 5), 0.5), "logits", ""),
}


def predictions(rows, declared=""):
    rows = np.asarray(rows, np.float32)
    names = tuple("abcde")[: max(rows.shape[1], 2)]
    return Predictions(tuple(ids(len(rows))), np.zeros(0, np.int64), rows, (), names, declared)


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_rows_are_what_all_of_them_are_whatever_the_batches_are(name, size):
    rows, scale, refused = FOUND[name]
    rows = np.asarray(rows, np.float32)
    parts = [ScoreRows.of(rows[at : at + size]) for at in range(0, len(rows), size)]
    whole = added_rows(parts)
    assert whole == ScoreRows.of(rows)
    assert whole.scale == scale
    assert bool(whole.misread(whole)) is bool(refused)
    assert WORDS[refused] in whole.misread(whole)
    order = ScoreRows.of(rows[RNG.permutation(len(rows))])
    assert (order.scale, order.misread(order)) == (whole.scale, whole.misread(whole))


@pytest.mark.parametrize("name", FOUND)
def test_rows_that_are_not_finite_say_nothing(name):
    rows, _, _ = FOUND[name]
    lost = np.array(rows, np.float32)[[0, 1, *range(60)]]
    lost[0, 0], lost[1, 0] = np.nan, np.inf
    assert ScoreRows.of(lost) == ScoreRows.of(np.asarray(rows, np.float32))


def test_few_rows_are_judged_with_the_others():
    """Three images, 15 scores, show nothing; a batch of three is no reason to read them."""
    few, rows = predictions(expit(RAW[:3])), predictions(expit(RAW))
    assert few.misread() == ""
    assert "add up to" in rows.misread()


def test_a_score_of_any_side_shows_that_they_are_logits():
    near = predictions(0.5 + 1e-3 * expit(RAW))
    assert "add up to" in near.misread()
    assert near.misread(predictions(RAW)) == ""
    assert predictions(RAW).misread(near) == ""


def test_a_candidate_of_a_lower_precision_may_add_up_to_another_sum():
    """Probabilities of 1,000 classes in steps of 1 / 256 lose those below half a step."""
    shares = softmax(RNG.normal(size=(40, 1000)), axis=1).astype(np.float32)
    steps = np.round(shares * 256) / 256
    assert abs(steps.sum(axis=1) - 1).max() > 0.1
    exact, rounded = ScoreRows.of(shares), ScoreRows.of(steps)
    every = added_rows([exact, rounded])
    assert (exact.scale, exact.misread(every)) == ("probabilities", "")


@pytest.mark.parametrize(
    ("scores", "scale", "found"),
    [
        ("auto", "", "logits"), ("auto", "logits", "logits"), ("auto", "probabilities", "logits"),
        ("sigmoid", "", "logits"), ("as-is", "", "probabilities"), ("percent", "", "percent"),
        ("levels", "probabilities", "levels"),
    ],
)  # fmt: skip
def test_what_an_option_says_is_not_asked_of_the_values(scores, scale, found, tmp_path):
    samples = samples_of(ids(60))
    classes = ClassMap((), tuple("abcde"), (), scale)
    rows = expit(RAW).astype(np.float32)
    answers = Classification(scores=scores).answers(samples.ids, rows, samples, classes)
    assert answers.scale == found
    assert bool(answers.misread()) is (scores == "auto" and scale != "logits")
    answers.to_parquet(tmp_path / "a.parquet")
    again = Predictions.from_parquet(tmp_path / "a.parquet")
    assert (again.declared, again.misread()) == (answers.declared, answers.misread())


def cell(answers, *, aligned=False):
    training = SimpleNamespace(row="a", seed=0)
    runtime = SimpleNamespace(backend=SimpleNamespace(needs_onnx=False))
    evaluation = SimpleNamespace(aligned=aligned, training=training, runtime=runtime)
    return Predicted(evaluation, Measured(Answer(answers, {}, "", BatchCheck())))


def labelled(rows):
    rows = np.asarray(rows, np.float32)
    classes = ClassMap((), tuple("abcde"), (), "")
    return MultiLabel().answers(tuple(ids(len(rows))), rows, samples_of(ids(len(rows))), classes)


HIDDEN = 0.5 + 1e-3 * expit(RAW)
"""Logits of near-equal images, which alone look like probabilities."""
ROWS = {
    # name: make answers of the aligned cell and of two others; which fail
    "labels are probabilities in every cell": (labelled, [expit(RAW)] * 3, True),
    "logits of one cell show it": (labelled, [HIDDEN, HIDDEN, RAW], False),
    "logits of the aligned cell show it": (labelled, [RAW, HIDDEN, HIDDEN], False),
    "classes are labels in every cell": (predictions, [expit(RAW)] * 3, True),
    "classes by logits of one cell": (predictions, [HIDDEN, RAW, HIDDEN], False),
    "probabilities in a lower precision": (
        predictions, [SHARES, np.round(SHARES * 6) / 6, SHARES], False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_cells_of_a_model_are_read_alike(name, order):
    made, rows, failed = ROWS[name]
    cells = [cell(made(each), aligned=not at) for at, each in enumerate(rows)]
    checkpoint = SimpleNamespace(format="weights", graph=None, weights=None)
    found = [*read_alike([cells[at] for at in order], checkpoint)]
    assert {isinstance(each.ended, Failed) for each in found} == {failed}
    if failed:
        return
    by_place = {each.evaluation.aligned: each.ended.value.predictions for each in found}
    home = by_place[True]
    for each in found:  # no two columns by two rules
        assert "as logits are" not in nothing_answered([(home, each.ended.value.predictions)])
        assert "add up to" not in nothing_answered([(home, each.ended.value.predictions)])
