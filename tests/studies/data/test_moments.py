"""Streamed moments against numpy over all pixels at once."""

import numpy as np
import pytest

from alignkit.studies.data.moments import Moments


def images(dtype):
    rng = np.random.default_rng(3)
    sizes = [(7, 5), (1, 1), (40, 31), (16, 16)]
    drawn = [rng.normal(rng.uniform(40, 210), 25, (*size, 3)).clip(0, 255) for size in sizes]
    return [each.astype(dtype) for each in drawn]


def moments_of(all_):
    found = Moments()
    for each in all_:
        found.add(each)
    return found


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_whole_set_is_of_all_pixels_and_per_image_is_averaged(dtype):
    found = moments_of(images(dtype))
    scaled = [each.astype(np.float64) / 255 for each in images(dtype)]
    pooled = np.concatenate([each.reshape(-1, 3) for each in scaled])
    assert found.pixels == len(pooled)
    np.testing.assert_allclose(found.whole_set.mean, pooled.mean(0), atol=1e-12)
    np.testing.assert_allclose(found.whole_set.std, pooled.std(0), atol=1e-7)
    means = np.mean([each.mean((0, 1)) for each in scaled], axis=0)
    stds = np.mean([each.std((0, 1)) for each in scaled], axis=0)
    np.testing.assert_allclose(found.per_image.mean, means, atol=1e-12)
    np.testing.assert_allclose(found.per_image.std, stds, atol=1e-7)


def test_images_that_differ_only_from_one_another_have_no_deviation_of_their_own():
    found = moments_of([np.full((4, 6, 3), level, np.uint8) for level in (0, 255)])
    assert found.per_image.std == (0.0, 0.0, 0.0)
    np.testing.assert_allclose(found.whole_set.std, 0.5)
    np.testing.assert_allclose(found.whole_set.mean, 0.5)


def test_a_small_deviation_beside_a_large_mean_is_not_lost_over_many_images():
    flat = np.full((8, 8, 3), 250, np.uint8)
    flat[::2] = 251
    found = moments_of([flat] * 500)
    np.testing.assert_allclose(found.whole_set.std, 0.5 / 255, rtol=1e-9)


def test_pixels_in_bgr_order_are_measured_in_that_order():
    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 0] = 255
    assert moments_of([image[..., ::-1]]).whole_set.mean == (0.0, 0.0, 1.0)
