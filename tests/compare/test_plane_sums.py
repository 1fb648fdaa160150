"""Sums in Y'CbCr against NumPy in float64, which transforms both images and not their difference."""

import cv2
import numpy as np
import pytest

from alignkit.compare import plane_sums as module
from alignkit.compare.plane_sums import PLANES, plane_sums, same_planes
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from tests.photos import encoded, photo


def ycbcr(image):
    """The three formulas of ITU-T T.871, one by one, unrounded."""
    red, green, blue = np.moveaxis(image.astype(np.float64), -1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    return np.stack([luma, (blue - luma) / 1.772 + 128, (red - luma) / 1.402 + 128])


def pair(dtype, seed=0, shape=(61, 47, 3)):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 256, shape)
    right = np.clip(left + rng.normal(0, 4, shape), 0, 255)
    return left.astype(dtype), right.astype(dtype)


def check(found, left, right):
    signed = ycbcr(right) - ycbcr(left)
    for number in range(3):
        gap = np.abs(signed[number]).ravel()
        assert found.mean_abs(number) == pytest.approx(gap.mean(), rel=1e-5)
        assert found.bias(number) == pytest.approx(signed[number].mean(), abs=1e-5)
        assert found.max_abs[number] == pytest.approx(gap.max(), rel=1e-5)
        assert found.psnr(number) == pytest.approx(
            10 * np.log10(255**2 / (gap**2).mean()), rel=1e-5
        )
        for percent in (50, 99, 99.9):
            exact = np.percentile(gap, percent, method="inverted_cdf")
            assert exact * (1 - 1e-4) <= found.percentile(number, percent) <= exact * 1.0079


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_sums_equal_both_images_transformed(dtype):
    left, right = pair(dtype)
    check(plane_sums(left, right), left, right)


def test_sums_of_two_images_are_those_of_their_pixels_together():
    one, other = pair(np.uint8, 1), pair(np.uint8, 2, (20, 47, 3))
    joined = plane_sums(*one) + plane_sums(*other)
    assert (joined.images, joined.pixels) == (2, 81 * 47)
    check(joined, *(np.concatenate(both) for both in zip(one, other, strict=True)))


def test_grey_differences_lie_in_luma_alone_and_chroma_in_chroma():
    left = np.full((8, 8, 3), 100, np.uint8)
    grey = plane_sums(left, left + np.uint8(3))
    assert grey.max_abs == pytest.approx((3, 0, 0), abs=1e-5)
    files = SimpleJPEGDecoder(), SimpleJPEGDecoder(chroma="nearest")
    muted = (photo("china", 64, 96) // 2 + 64).astype(np.uint8)  # nothing is cut off at 0 or 255
    found = plane_sums(*(each.decode(encoded(muted, subsampling="4:2:0")).image for each in files))
    luma, *chroma = (found.mean_abs(number) for number in range(len(PLANES)))
    assert luma < 0.5 * min(chroma)


def test_opencv_has_the_same_matrix():
    left, right = (each.astype(np.float32) for each in pair(np.uint8))
    converted = [cv2.cvtColor(each / 255, cv2.COLOR_RGB2YCrCb) * 255 for each in (left, right)]
    gap = np.abs(converted[1] - converted[0]).mean(axis=(0, 1))
    found = plane_sums(left, right)
    # OpenCV rounds the factors of chroma to three digits
    assert [found.mean_abs(0), found.mean_abs(2), found.mean_abs(1)] == pytest.approx(gap, rel=2e-3)


def test_equal_images_give_zero_and_no_psnr():
    left, _ = pair(np.uint8)
    for found in (plane_sums(left, left), same_planes(61 * 47)):
        assert tuple(found.max_abs) == (0, 0, 0)
        assert [found.mean_abs(0), found.percentile(0, 99), found.psnr(0)] == [0, 0, None]


def test_values_that_are_not_finite_are_left_out():
    left, right = pair(np.float32)
    right[0, 0, 1], right[3, 2] = np.nan, np.inf
    found = plane_sums(left, right)
    assert found.pixels == 61 * 47 - 2
    assert np.isfinite(found.sums).all()
    nothing = plane_sums(left, np.full_like(left, np.nan))
    assert (nothing.pixels, nothing.mean_abs(0), nothing.percentile(0, 99)) == (0, None, None)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes differ"):
        plane_sums(np.zeros((2, 2, 3), np.uint8), np.zeros((2, 3, 3), np.uint8))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_large_image_is_compared_in_strips(monkeypatch, dtype):
    left, right = pair(dtype)
    monkeypatch.setattr(module, "STRIP_VALUES", 47 * 3 * 10)
    check(plane_sums(left, right), left, right)
    assert plane_sums(left, right).images == 1
