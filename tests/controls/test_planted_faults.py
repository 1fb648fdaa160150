"""Planted faults are found where they were planted, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from alignkit.controls.planted_faults import check_pixels, shift_half_pixel, swap_channels
from alignkit.decoders.dali import DALIGPUDecoder
from alignkit.preprocess import ColourSpace
from alignkit.samples import Samples
from tests.controls.photographs import opencv_path, photographs
from tests.photos import photo


@pytest.mark.parametrize("space", get_args(ColourSpace))
def test_planted_faults_are_found_in_every_colour_space_and_nothing_where_nothing_is(space):
    controls = check_pixels(opencv_path(space), photographs())
    assert [control.passed for control in controls] == [True] * 3, controls
    assert [control.observed for control in controls] == [
        "no stage differs",
        "colour is the first stage that differs",
        "resize is the first stage that differs",
    ]


@pytest.mark.parametrize("space", get_args(ColourSpace))
def test_a_swap_exchanges_red_and_blue_of_what_the_colour_stage_gives(space):
    path, pixels = opencv_path(space), photo("china", 48, 48)
    swapped = swap_channels(path).colour(pixels)
    red, green, blue = np.moveaxis(path.colour(pixels), -1, 0)
    assert (swapped == np.stack([blue, green, red], axis=-1)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"size": (32, 32)},  # below every image: nothing is padded
        {"size": (4000, 4000)},  # a border around each
        {"size": (4000, 32)},
        {"size": (200, 200), "at": (0, 3)},
        {"size": (1, 1), "pad": 0},
    ],
)
def test_a_path_that_resamples_nothing_shows_its_faults_too(options):
    path = replace(opencv_path(), resize=replace(opencv_path().resize, fit="none", **options))
    controls = check_pixels(path, photographs())
    assert [control.passed for control in controls] == [True] * 3, controls
    ramp = np.repeat(np.arange(64, dtype=np.uint8)[None, :, None] * 2, 64, axis=0).repeat(3, axis=2)
    within = replace(path.resize, size=(64, 64), at=None)
    shifted = shift_half_pixel(replace(path, resize=within)).resize(ramp)
    # half of a step of two levels from column to column
    assert (ramp.astype(int) - shifted)[2:-2, 2:-2].mean() == pytest.approx(1.0, abs=1e-6)


def test_a_shift_moves_a_ramp_by_half_an_output_pixel():
    path = opencv_path()
    ramp = np.repeat(np.arange(128, dtype=np.uint8)[None, :, None], 64, axis=0).repeat(3, axis=2)
    shifted = shift_half_pixel(path).resize.resizer.resize(ramp, 16, 32)
    plain = path.resize.resizer.resize(ramp, 16, 32)
    inner = (shifted.astype(int) - plain)[4:-4, 4:-4]
    assert abs(inner.mean()) == pytest.approx(2.0, abs=0.5)  # half of 128 / 32 input pixels


def test_grey_images_do_not_hide_a_swap(jpegs):
    grey = Samples(("grey.jpg",), (), (), lambda index: jpegs["grey"], "grey")
    controls = check_pixels(opencv_path(), grey)
    assert [control.passed for control in controls] == [True] * 3, controls


def test_a_path_that_decodes_nothing_has_failed_controls():
    path = replace(opencv_path(), max_pixels=1)
    controls = check_pixels(path, photographs())
    assert [control.passed for control in controls] == [False] * 3
    assert all("none of 4 images was decoded" in control.observed for control in controls)
    assert not any(control.traceback for control in controls)


def test_a_path_that_cannot_run_here_has_no_controls():
    path = replace(opencv_path(), decode=DALIGPUDecoder())
    if not path.missing():
        pytest.skip("this machine has a GPU and DALI")
    assert check_pixels(path, photographs()) == ()
