"""Sums of two tensors without the tensors, against the tensors."""

from dataclasses import fields

import numpy as np
import pytest

from alignkit.compare.image_diff import normalised_sums
from alignkit.compare.pixel_sums import PixelSums, pixel_sums, pixel_sums_and_levels
from alignkit.preprocess.normalise import Normalise


@pytest.mark.parametrize("normalise", [Normalise(), Normalise((0.5,) * 3, (0.1, 0.5, 1.0))])
@pytest.mark.parametrize("reversed_channels", [False, True])
def test_sums_equal_those_of_the_tensors(normalise, reversed_channels):
    rng = np.random.default_rng(0)
    left = rng.integers(0, 256, (40, 50, 3), np.uint8)
    right = np.where(rng.random(left.shape) < 0.3, rng.integers(0, 256, left.shape), left)
    right = right.astype(np.uint8)
    if reversed_channels:
        left, right = left[..., ::-1], right[..., ::-1]
    pixels, levels = pixel_sums_and_levels(left, right)
    for channel in range(3):
        gap = np.abs(right[..., channel].astype(int) - left[..., channel])
        assert levels[channel].tolist() == np.bincount(gap.ravel(), minlength=256).tolist()
    alone = pixel_sums(left, right)
    for each in fields(PixelSums):
        assert np.array_equal(getattr(pixels, each.name), getattr(alone, each.name))
    found = normalised_sums(pixels, levels, normalise)
    made = pixel_sums(normalise(left), normalise(right), channels="first")
    for name in ("images", "identical", "pixels", "differing_pixels", "values", "depth"):
        assert getattr(found, name) == getattr(made, name)
    for name in ("max_abs", "mean_abs", "mse"):
        assert getattr(found, name) == pytest.approx(getattr(made, name), rel=1e-5)
    assert found.bias == pytest.approx(made.bias, abs=1e-6)
    assert found.histogram.sum() == made.histogram.sum()
    for percent in (50, 75, 99, 99.9):
        assert found.percentile(percent) == pytest.approx(made.percentile(percent), rel=0.008)
