"""The controls find what is planted, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.cell import Measured
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.predict_cells import Predicted
from alignkit.predictions import Predictions
from alignkit.preprocess import Colour, Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from alignkit.verify import (
    check_identity,
    check_learned,
    check_planted_faults,
    check_same_inputs,
    check_same_pixels,
    shift_half_pixel,
    swap_channels,
)
from tests.photos import encoded, photo


@pytest.fixture
def samples() -> Samples:
    files = [encoded(photo("china", 96, 128)), encoded(photo("flower", 120, 90))]
    return Samples(("china.jpg", "flower.jpg"), (), (), files.__getitem__, "two photographs")


@pytest.fixture
def path() -> Preprocess:
    return Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (48, 48)))


def predictions(logits: list[list[float]], ids: tuple[str, ...] = ("a", "b")) -> Predictions:
    return Predictions(ids, np.zeros(2, np.int64), np.array(logits, np.float32), ("x", "y"))


def test_a_path_compared_with_itself_differs_nowhere(path, samples):
    control = check_same_pixels(path, samples)
    assert control.passed
    assert control.observed == "no stage differs"


def test_planted_faults_are_found_where_they_were_planted(path, samples):
    controls = check_planted_faults(path, samples)
    assert [control.passed for control in controls] == [True, True]
    assert "colour" in controls[0].observed
    assert "resize" in controls[1].observed


def test_a_swap_is_its_own_inverse(path):
    assert swap_channels(path).colour == Colour("bgr")
    assert swap_channels(replace(path, colour=Colour("bgr"))).colour == Colour("rgb")


def test_a_shift_moves_a_ramp_by_half_an_output_pixel(path):
    ramp = np.repeat(np.arange(128, dtype=np.uint8)[None, :, None], 64, axis=0).repeat(3, axis=2)
    shifted = shift_half_pixel(path).resize.resizer.resize(ramp, 16, 32)
    plain = path.resize.resizer.resize(ramp, 16, 32)
    inner = (shifted.astype(int) - plain)[4:-4, 4:-4]
    assert abs(inner.mean()) == pytest.approx(2.0, abs=0.5)  # half of 128 / 32 input pixels


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
    assert control.observed.startswith("seed 0: 50 right, p = 0.")


def test_answering_the_commonest_of_uneven_classes_is_no_skill():
    labels = np.array([0] * 180 + [1] * 20)
    assert not check_learned({"seed 0": answers(labels, np.zeros(200, np.int64), 2)}).passed


def test_the_worst_seed_decides_whether_the_models_learned():
    labels = np.arange(200) % 4
    good, guessing = answers(labels, labels), answers(labels, labels[::-1].copy())
    assert check_learned({"seed 0": good}).passed
    control = check_learned({"seed 0": good, "seed 1": guessing})
    assert not control.passed
    assert control.observed.startswith("seed 1: ")


def test_the_binomial_test_is_exact():
    """29 of 80 at a quarter: the upper tail, summed with fractions."""
    from fractions import Fraction
    from math import comb

    labels = np.arange(80) % 4
    predicted = np.where(np.arange(80) < 29, labels, (labels + 1) % 4)
    tail = sum(comb(80, k) * Fraction(3) ** (80 - k) for k in range(29, 81)) / Fraction(4) ** 80
    assert float(tail) == pytest.approx(0.0172, abs=1e-3)
    told = check_learned({"one": answers(labels, predicted)}).observed
    assert told == f"one: 29 right, p = {float(tail):.3f}"


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
