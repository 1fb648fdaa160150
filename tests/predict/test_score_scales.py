"""Scores that are no logits although nothing says so: refused, and read rightly as the advice says.

Every graph is made here; the right answers are counted by ONNX Runtime on the graph as it is, with
NumPy alone after it.
"""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.compare.idle_answers import nothing_answered
from alignkit.errors import AlignkitError
from alignkit.predict.given_model import given_model, given_task, open_given
from tests.predict.test_given_answers import (
    BYTE,
    FLOAT,
    IMAGES,
    LEVELS,
    ONE,
    SCORES,
    SIDE,
    answers,
    by_hand,
    node,
    opened,
    written,
)

SIDES = [each.astype(np.float32) for each in LEVELS]
MEAN = [node("ReduceMean", "x", "mean", axes=[1], keepdims=1), node("Mul", "mean ten", "m"),
        node("Sigmoid", "m", "p"), node("Mul", "p top", "s")]  # fmt: skip
LABELS = [*SCORES, node("Sigmoid", "z", "p"), node("Mul", "p top", "s")]
PLANE, PLAIN, LAST, ROW = [1, SIDE, SIDE], [SIDE, SIDE], [SIDE, SIDE, 1], [5]


def mask(top, sides=PLANE, behind=(), kind=FLOAT, **weights):
    held = {"ten": np.float32(10), "top": np.float32(top), **weights}
    nodes = [*MEAN, *behind] or MEAN
    name = nodes[-1].output[0]
    return "segmentation", nodes, {name: (kind, sides)}, {"weights": held}


def labels(top, behind=(), kind=FLOAT):
    nodes = [*LABELS, *behind]
    return "multi-label", nodes, {nodes[-1].output[0]: (kind, ROW)}, {
        "weights": {"top": np.float32(top)}
    }  # fmt: skip


def one(top):
    held = {**ONE, "top": np.float32(top)}
    return "classification", LABELS, {"s": (FLOAT, [1])}, {"weights": held}


BYTES = [node("Cast", "s", "y", to=BYTE)]
HARD = [node("Greater", "p half", "b"), node("Cast", "b", "w", to=FLOAT), node("Mul", "w top", "v"),
        node("Cast", "v", "y", to=BYTE)]  # fmt: skip
SQUEEZED = [node("Squeeze", "s axis", "y")]
LASTLY = [node("Transpose", "s", "y", perm=[0, 2, 3, 1])]
CASES = {
    # name: task, graph; what the advice names, and the score of a probability of 1
    "masks of bytes to 255": (mask(255, behind=BYTES, kind=BYTE), "levels", 255),
    "masks of two bytes": (
        mask(255, behind=HARD, kind=BYTE, half=np.float32(0.5)), "levels", 255,
    ),
    "masks of floats to 255": (mask(255), "levels", 255),
    "masks of floats to 255, channels last": (mask(255, LAST, LASTLY), "levels", 255),
    "masks of floats to 255 without channels": (
        mask(255, PLAIN, SQUEEZED, axis=np.array([1])), "levels", 255,
    ),
    "masks of bytes in percent": (mask(100, behind=BYTES, kind=BYTE), "percent", 100),
    "masks in percent": (mask(100), "percent", 100),
    "masks of probabilities": (mask(1), "as-is", 1),
    "labels in percent": (labels(100), "percent", 100),
    "labels in bytes of percent": (labels(100, BYTES, BYTE), "percent", 100),
    "labels to 255": (labels(255), "levels", 255),
    "labels in probabilities": (labels(1), "as-is", 1),
    "one percentage": (one(100), "percent", 100),
    "one level": (one(255), "levels", 255),
}  # fmt: skip


def refusal(file, task, sides=SIDES):
    with opened(file, task) as model:
        return nothing_answered([tuple(answers(model, each) for each in sides)])


@pytest.mark.parametrize("case", CASES)
def test_the_advice_for_scores_that_are_no_logits_gives_the_answers_of_the_graph(case, tmp_path):
    (task, nodes, outputs, options), advice, top = CASES[case]
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    given = str(file) if outputs[nodes[-1].output[0]][1] != PLAIN else (
        f"{{onnx: {file}, classes: [back, front]}}"
    )  # fmt: skip
    try:
        said = refusal(given, task)
    except AlignkitError as error:
        said = str(error)
    assert f"'scores: {advice}'" in said
    was, now = (
        by_hand(file, each)[0].astype(float).reshape(IMAGES, -1) > top / 2 for each in SIDES
    )
    with opened(file, f"{{name: {task}, scores: {advice}}}") as model:
        found = [answers(model, each) for each in SIDES]
    changed = (was != now).mean(axis=1) > (0.01 if task == "segmentation" else 0)
    assert found[0].changed(found[1]).tolist() == changed.tolist()
    assert changed.any()
    assert nothing_answered([tuple(found)]) == ""


def test_few_probabilities_are_no_logits_however_few_they_are(tmp_path):
    task, nodes, outputs, options = labels(1)
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    assert "'scores: as-is'" in refusal(file, task, [each[:2] for each in SIDES])


@pytest.mark.parametrize("alike", ["reference", "candidate"])
def test_logits_of_one_side_that_look_like_probabilities_are_logits(alike, tmp_path):
    """Near-equal images: the other side has a logit below 0, and so all are."""
    nodes = [*SCORES, node("Mul", "z small", "a"), node("Add", "a half", "y")]
    held = {"small": np.float32(1e-3), "half": np.float32(0.5)}
    file = written(tmp_path / "a.onnx", nodes, {"y": (FLOAT, [5])}, weights=held)
    near, far = SIDES[0], SIDES[1] * 300
    assert 0 <= by_hand(file, near)[0].min() <= by_hand(file, near)[0].max() <= 1
    sides = (near, far) if alike == "reference" else (far, near)
    assert refusal(file, "multi-label", sides) == ""
    was, now = (by_hand(file, each)[0] > 0 for each in sides)
    with opened(file, "multi-label") as model:
        found = [answers(model, each) for each in sides]
    assert found[0].changed(found[1]).tolist() == (was != now).any(axis=1).tolist()


def test_labels_in_percent_are_no_classes(tmp_path):
    _, nodes, outputs, options = labels(100)
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    assert "from 0 to 100 and an image's add up to" in refusal(file, "")


def test_percentages_of_classes_that_exclude_each_other_are_read(tmp_path):
    nodes = [*SCORES, node("Softmax", "z", "p", axis=1), node("Mul", "p top", "y")]
    file = written(
        tmp_path / "a.onnx", nodes, {"y": (FLOAT, [5])}, weights={"top": np.float32(100)}
    )
    was, now = (by_hand(file, each)[0].argmax(axis=1) for each in SIDES)
    with opened(file) as model:
        found = [answers(model, each) for each in SIDES]
    assert found[0].changed(found[1]).tolist() == (was != now).tolist()


def test_a_map_of_the_indices_of_two_classes_needs_no_word(tmp_path):
    task, nodes, outputs, options = mask(
        1, behind=[*HARD[:2], node("Cast", "w", "y", to=BYTE)], kind=BYTE, half=np.float32(0.5)
    )
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    was, now = (by_hand(file, each)[0].reshape(IMAGES, -1) for each in SIDES)
    with opened(file, task) as model:
        assert "as whole numbers" in model.recognised
        found = [answers(model, each) for each in SIDES]
    assert found[0].changed(found[1]).tolist() == ((was != now).mean(axis=1) > 0.01).tolist()


@pytest.mark.parametrize("order", ["", "{onnx: FILE, classes: [b, a]}"])
def test_distances_of_an_only_logit_are_those_of_the_models_own_output(order, tmp_path):
    file = written(tmp_path / "a.onnx", SCORES, {"z": (FLOAT, [1])}, weights=ONE)
    was, now = (by_hand(file, each)[0][:, 0].astype(np.float64) for each in SIDES)
    change = np.abs(np.float64(now) - was)
    given = order.replace("FILE", str(file)) or str(file)
    with open_given(given_model(given, given_task("classification")), (SIDE, SIDE)) as model:
        before, after = (answers(model, each) for each in SIDES)
    found = type(before).distance([(before, after)])
    expected = {"mean_abs": change.mean(), "max_abs": change.max(), "p50": np.median(change),
                "cosine": np.sign(was * now).mean()}  # fmt: skip
    assert {each: getattr(found, each) for each in expected} == pytest.approx(expected, rel=1e-5)
    assert np.allclose(before.apart(after), change, rtol=1e-5)
    assert np.allclose(before.margins(), np.abs(was), rtol=1e-5)
    chance = 1 / (1 + np.exp(-np.abs(was)))
    assert np.allclose(before.top_chances()[:, 0], chance, rtol=1e-6)
    assert np.allclose(before.leads(before)[:, 0], np.abs(was), rtol=1e-5)
    stored = tmp_path / "a.parquet"
    before.to_parquet(stored)
    again = type(before).from_parquet(stored)
    assert again.logits.tobytes() == before.logits.tobytes()
    assert again.predicted.tolist() == (was > 0).astype(int).tolist()
