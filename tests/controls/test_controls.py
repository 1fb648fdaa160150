"""The controls find what is planted, and nothing where nothing is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.compare.class_changes import of_different_images
from alignkit.compare.predictions import Predictions
from alignkit.controls import (
    check_above_constant,
    check_identity,
    check_learned,
    check_same_inputs,
    verify,
)
from alignkit.outcome import Measured
from alignkit.predict.predict_cells import Predicted
from alignkit.progress import NoProgress
from alignkit.record import BatchCheck
from alignkit.workspace import Context, Workspace
from tests.controls.photographs import opencv_path, photographs


def predictions(logits: list[list[float]], ids: tuple[str, ...] = ("a", "b")) -> Predictions:
    return Predictions(ids, np.zeros(2, np.int64), np.array(logits, np.float32), ("x", "y"))


def test_equal_predictions_pass_and_one_bit_fails():
    first = predictions([[0.5, 0.25], [1.0, 2.0]])
    assert check_identity(first, predictions([[0.5, 0.25], [1.0, 2.0]])).passed
    off = np.nextafter(np.float32(2.0), np.float32(3.0))
    control = check_identity(first, predictions([[0.5, 0.25], [1.0, float(off)]]))
    assert not control.passed
    assert control.observed.startswith("1 of 4")


def test_other_images_are_not_identical():
    logits = [[0.5, 0.25], [1.0, 2.0]]
    assert not check_identity(predictions(logits), predictions(logits, ("a", "c"))).passed


def answers(labels: np.ndarray, predicted: np.ndarray, classes: int = 4) -> Predictions:
    logits = np.eye(classes, dtype=np.float32)[predicted]
    names = tuple("abcd"[:classes])
    return Predictions(tuple(map(str, range(len(labels)))), labels, logits, names)


def test_a_model_that_answers_one_class_did_not_learn():
    labels = np.arange(200) % 4
    control = check_learned({"seed 0": answers(labels, np.zeros(200, np.int64))})
    assert not control.passed
    assert control.failing == "inconclusive"
    assert "50 of 200" in control.expected
    assert control.observed.startswith("seed 0 is right on 50 of 200 images, not clearly better")


def test_answering_the_commonest_of_uneven_classes_is_no_skill():
    labels = np.array([0] * 180 + [1] * 20)
    assert not check_learned({"seed 0": answers(labels, np.zeros(200, np.int64), 2)}).passed


def test_the_worst_seed_decides_whether_the_models_learned():
    labels = np.arange(200) % 4
    good, guessing = answers(labels, labels), answers(labels, labels[::-1].copy())
    assert check_learned({"seed 0": good}).passed
    control = check_learned({"seed 0": good, "seed 1": guessing})
    assert not control.passed
    assert control.observed.startswith("seed 1 is right on 0 of ")


def test_the_binomial_test_is_exact():
    """29 of 80 at a quarter: the upper tail, summed with fractions."""
    from fractions import Fraction
    from math import comb

    labels = np.arange(80) % 4
    predicted = np.where(np.arange(80) < 29, labels, (labels + 1) % 4)
    tail = sum(comb(80, k) * Fraction(3) ** (80 - k) for k in range(29, 81)) / Fraction(4) ** 80
    assert float(tail) == pytest.approx(0.0172, abs=1e-3)
    told = check_learned({"one": answers(labels, predicted)}).observed
    assert "on 29 of 80 images, not clearly better than" in told
    assert f"(20; p = {float(tail):.3f})" in told


@pytest.mark.parametrize("times", [3, 10, 50])
def test_copies_of_a_few_images_show_no_skill(times):
    """4 of 5 images are right, where the commonest class is right on 2: p is 5 · 0.4⁴ · 0.6 + 0.4⁵."""
    labels, predicted = np.array([0, 1, 2, 3, 0]), np.array([0, 1, 2, 3, 1])
    rows = np.tile(np.arange(5), times)
    made = answers(labels[rows], predicted[rows])
    copies = {name: str(int(name) % 5) for name in made.ids[5:]}
    once = of_different_images(made, copies)
    assert once.ids == ("0", "1", "2", "3", "4")
    assert check_learned({"one": made}).passed
    control = check_learned({"one": once})
    assert not control.passed
    assert "(2; p = 0.087)" in control.observed
    assert of_different_images(once, {}) is once


@pytest.mark.parametrize(
    ("better", "worse", "passed"),
    [(0, 0, False), (7, 0, True), (6, 0, False), (60, 40, False), (63, 37, True), (0, 50, False)],
)
def test_a_model_is_better_than_a_constant_answer_by_a_sign_test(better, worse, passed):
    """7 of 7 is p = 1/128; 63 of 100 is 0.006 and 60 of 100 is 0.028."""
    above = np.array([0.2] * better + [-0.1] * worse + [0.0] * 20)
    control = check_above_constant({"one": above, "other": np.ones(100)})
    assert (control.passed, control.failing) == (passed, "inconclusive")
    assert control.observed.startswith(f"one is better than a constant answer on {better} of ")
    assert ("train longer" in control.observed) == (not passed)


def cell_with(path_name: str, inputs: str) -> Predicted:
    evaluation = SimpleNamespace(preprocess=SimpleNamespace(name=path_name))
    return Predicted(evaluation, Measured(SimpleNamespace(inputs=inputs)))


def test_cells_of_a_path_must_have_been_handed_the_same_bytes():
    same = [cell_with("opencv", "a"), cell_with("opencv", "a"), cell_with("pillow", "b")]
    [control] = check_same_inputs(same)
    assert (control.passed, control.observed) == (True, "3 cells of 2 paths: one hash a path")
    [control] = check_same_inputs([*same, cell_with("pillow", "c")])
    assert not control.passed
    assert control.observed == "other bytes in some cells of pillow"
    assert check_same_inputs(same[1:]) == ()


def test_a_check_that_ends_in_an_error_is_a_failed_control_and_the_others_are_made(tmp_path):
    path, labels = opencv_path(), np.arange(200) % 4
    training = SimpleNamespace(row="opencv", seed=0, given=None)
    evaluation = SimpleNamespace(aligned=True, training=training, preprocess=path)
    alone = BatchCheck(reason="a batch holds one image")
    answer = SimpleNamespace(predictions=answers(labels, labels), inputs="a", batch=alone)
    lost = SimpleNamespace(ended=Measured(SimpleNamespace(weights=tmp_path / "gone")))
    plan = SimpleNamespace(experiment=SimpleNamespace(reference=path))  # says no batch size
    sets = SimpleNamespace(evaluation=photographs(), copies={})
    cells = [Predicted(evaluation, Measured(answer))]
    controls = verify(plan, [lost], cells, sets, Context(Workspace(tmp_path), NoProgress()))
    (failed,) = [each for each in controls if not each.passed]
    assert failed.name == "A/A: the same path twice"
    assert failed.observed.startswith("it ended in an error: AttributeError")
    assert "_check_first_cell" in failed.traceback
    assert [each.name for each in controls if each.passed][-1] == "the reference models learned"
    assert len(controls) == 5
