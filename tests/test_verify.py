"""The controls find what is planted, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.predictions import Predictions
from alignkit.preprocess import Colour, Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from alignkit.verify import (
    check_identity,
    check_planted_faults,
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
