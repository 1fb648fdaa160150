"""Pixel sums against NumPy in wide types, and scikit-image."""

import json
import math
from functools import reduce
from itertools import permutations
from operator import add

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from alignkit.compare import pixel_sums as module
from alignkit.compare.histogram import edge, histogram_of
from alignkit.compare.pixel_sums import (
    PixelSums,
    StoredSums,
    identical_sums,
    pixel_sums,
    with_ssim,
)

STORED = TypeAdapter(StoredSums)


def pair(seed=0, shape=(61, 47, 3), spread=9, dtype=np.uint8):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 256, shape)
    right = np.clip(left + rng.integers(-spread, spread + 1, shape), 0, 255)
    if dtype == np.float32:
        right = np.clip(right + rng.normal(0, 0.01, shape), 0, 255)
    return left.astype(dtype), right.astype(dtype)


def check(found: PixelSums, left, right, axis=-1):
    signed = right.astype(np.float64) - left.astype(np.float64)
    gap = np.abs(signed)
    others = tuple(each for each in range(gap.ndim) if each != axis % gap.ndim)
    assert found.values == gap.size
    assert found.max_abs == pytest.approx(gap.max(), rel=1e-6)
    assert found.mean_abs == pytest.approx(gap.mean(), rel=1e-6)
    assert found.bias == pytest.approx(signed.mean(axis=others), abs=1e-6)
    assert found.share_differing == (gap > 0).any(axis=axis).mean()
    for level in (0, 1, 2, 4, 8):
        assert found.share_above(level) == (gap > level).mean()
    assert found.mse == pytest.approx((gap**2).mean(), rel=1e-6)
    return gap


@pytest.mark.parametrize("seed", range(3))
def test_integer_sums_equal_numpy_exactly(seed):
    left, right = pair(seed)
    found = pixel_sums(left, right)
    gap = check(found, left, right)
    assert found.sum_abs == gap.sum()
    assert found.sum_squares == (gap**2).sum()
    for percent in (0, 1, 50, 90, 99, 99.9, 100):
        assert found.percentile(percent) == np.percentile(gap, percent, method="inverted_cdf")


def test_extreme_levels_do_not_underflow():
    black, white = np.zeros((4, 5, 3), np.uint8), np.full((4, 5, 3), 255, np.uint8)
    assert pixel_sums(black, white).bias == (255.0, 255.0, 255.0)
    assert pixel_sums(white, black).bias == (-255.0, -255.0, -255.0)
    assert pixel_sums(white, black).max_abs == 255
    assert pixel_sums(white, black).mean_abs == 255


def test_a_pixel_that_differs_in_one_channel_counts_once():
    left = np.zeros((2, 2, 3), np.uint8)
    right = left.copy()
    right[0, 0] = [1, 2, 0]
    right[1, 1, 2] = 3
    found = pixel_sums(left, right)
    assert found.differing_pixels == 2
    assert found.sums == (1, 2, 3)
    assert found.share_differing == 0.5


@pytest.mark.parametrize("kinds", [(np.float32, np.float32), (np.uint8, np.float32)])
def test_float_sums_equal_numpy(kinds):
    left, right = pair(3, dtype=np.float32)
    left, right = left.astype(kinds[0]), right.astype(kinds[1])
    found = pixel_sums(left, right)
    assert found.depth == "float32"
    gap = check(found, left, right)
    for percent in (1, 50, 90, 99, 99.9, 100):
        exact = np.percentile(gap, percent, method="inverted_cdf")
        assert exact <= found.percentile(percent) <= max(exact * 1.0079, 0)


def test_channels_first_tensors_of_any_width():
    rng = np.random.default_rng(0)
    for width in (3, 40, 700):
        left = rng.normal(size=(3, 20, width)).astype(np.float32)
        right = left + rng.normal(0, 1e-4, left.shape).astype(np.float32)
        right[1] += 2.5
        found = pixel_sums(left, right, channels="first")
        check(found, left, right, axis=0)
        assert found.bias == pytest.approx((0, 2.5, 0), abs=1e-4)


def test_views_that_are_not_contiguous_are_compared_as_they_look():
    left, right = pair(1)
    check(pixel_sums(left[..., ::-1], right[..., ::-1]), left[..., ::-1], right[..., ::-1])
    check(pixel_sums(left[3:30, 5:40], right[3:30, 5:40]), left[3:30, 5:40], right[3:30, 5:40])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_identical_images_give_zero_everywhere_and_no_psnr(dtype):
    left, _ = pair(dtype=dtype)
    found = with_ssim(pixel_sums(left, left.copy()), left, left.copy())
    assert (found.identical, found.mean_abs, found.max_abs, found.mse) == (1, 0, 0, 0)
    assert found.bias == (0, 0, 0)
    assert found.share_differing == found.share_above(0) == found.percentile(100) == 0
    assert found.psnr is None
    assert found.ssim == 1.0


def test_nothing_compared_gives_none():
    nothing = PixelSums(depth="uint8", histogram=np.array([0]))
    for value in (nothing.mean_abs, nothing.bias, nothing.mse, nothing.psnr, nothing.ssim):
        assert value is None
    assert nothing.percentile(99) is nothing.share_above(1) is nothing.share_differing is None


def test_sums_of_parts_equal_the_sum_of_the_whole():
    pairs = [pair(seed, shape=(20, 30, 3), spread=seed + 1) for seed in range(6)]
    total = pixel_sums(*pairs[0])
    for each in pairs[1:]:
        total += pixel_sums(*each)
    whole = pixel_sums(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    assert total.histogram.tolist() == whole.histogram.tolist()
    for name in ("pixels", "differing_pixels", "sum_abs", "sum_squares", "sums", "max_abs"):
        assert getattr(total, name) == getattr(whole, name)
    assert total.images == 6


def mixed():
    """Sums of images of both depths, of which those of one are very small."""
    pairs = [pair(seed, (9, 8, 3), dtype=np.float32) for seed in range(4)]
    pairs[1] = pairs[1][0] * np.float32(1e-20), pairs[1][1] * np.float32(1e-20)
    pairs[2] = tuple(side.astype(np.uint8) for side in pairs[2])
    return [with_ssim(pixel_sums(*sides), *sides) for sides in pairs]


def test_sums_of_floats_are_those_of_fsum_but_for_the_rounding_of_each_addition():
    for order in permutations(mixed()):
        total = reduce(add, order)
        for name in ("sum_abs", "sum_squares", "ssim_sum"):
            exact = math.fsum(getattr(one, name) for one in order)
            assert getattr(total, name) == pytest.approx(exact, rel=1e-15)
        for channel in range(3):
            exact = math.fsum(one.sums[channel] for one in order)
            assert total.sums[channel] == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_stored_sums_are_those_that_were_stored_in_every_digit():
    for sums in (*mixed(), reduce(add, mixed())):
        text = STORED.dump_json(sums)
        again = STORED.validate_json(text)
        assert again.histogram.tolist() == sums.histogram.tolist()
        assert STORED.dump_json(again) == text
        assert (again.sum_abs, again.sum_squares, again.sums, again.ssim_sum) == (
            sums.sum_abs, sums.sum_squares, sums.sums, sums.ssim_sum
        )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"histogram": [[10**12, 1]]},
        {"histogram": [[-1, 1]]},
        {"histogram": [[0, 1]]},
        {"identical": 10**6},
        {"differing_pixels": 10**6},
        {"sum_abs": "NaN"},
        {"sum_squares": 1e101},
        {"sums": [0]},
    ],
)
def test_stored_sums_that_contradict_themselves_are_refused(change):
    stored = json.loads(STORED.dump_json(mixed()[0]))
    with pytest.raises(ValidationError):
        STORED.validate_json(json.dumps(stored | change))


def test_an_image_with_a_value_that_is_not_finite_has_no_ssim():
    left, right = pair(dtype=np.float32)
    right[3, 4, 1] = np.nan
    found = with_ssim(pixel_sums(left, right), left, right)
    assert (found.ssim_images, found.ssim, found.non_finite) == (0, None, 1)


def test_integer_and_float_sums_join_without_loss():
    left, right = pair(0)
    floats = pair(1, dtype=np.float32)
    joined = pixel_sums(left, right) + pixel_sums(*floats)
    gap = np.concatenate(
        [np.abs(right.astype(int) - left).ravel(), np.abs(floats[1] - floats[0]).ravel()]
    )
    assert joined.depth == "float32"
    for level in (0, 1, 2, 4, 8):
        assert joined.share_above(level) == (gap > level).mean()


def test_non_finite_values_are_counted_and_left_out():
    left, right = pair(0, dtype=np.float32)
    clean = pixel_sums(left, right)
    right[0, 0, 0], right[1, 1, 1], left[2, 2] = np.nan, np.inf, -np.inf
    found = pixel_sums(left, right)
    assert found.non_finite == 5
    assert found.values == clean.values - 5
    assert np.isfinite([found.mean_abs, found.max_abs, found.mse]).all()
    assert found.histogram.sum() == found.values
    assert found.bias is None
    same = pixel_sums(right, right.copy())
    assert (same.identical, same.non_finite) == (0, 2)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes differ"):
        pixel_sums(np.zeros((2, 3, 3), np.uint8), np.zeros((3, 2, 3), np.uint8))


def test_psnr_equals_scikit_image():
    left, right = pair(2)
    assert pixel_sums(left, right).psnr == pytest.approx(
        peak_signal_noise_ratio(left, right, data_range=255), abs=1e-9
    )


@pytest.mark.parametrize("shape", [(7, 7, 3), (70, 9, 3), (64, 71, 3), (201, 133, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("spread", [2, 100])
def test_ssim_equals_scikit_image(shape, dtype, spread):
    left, right = pair(4, shape, spread, dtype)
    theirs = structural_similarity(
        left.astype(np.float64), right.astype(np.float64), channel_axis=2, data_range=255
    )
    found = with_ssim(pixel_sums(left, right), left, right)
    assert found.ssim == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_ssim_of_flat_images_equals_scikit_image(level):
    left = np.full((50, 50, 3), level, np.uint8)
    right = left.copy()
    right[::7] = abs(level - 1)
    theirs = structural_similarity(left, right, channel_axis=2, data_range=255)
    found = with_ssim(pixel_sums(left, right), left, right)
    assert found.ssim == pytest.approx(theirs, abs=1e-6)


def test_ssim_of_images_under_the_window_is_none():
    left, right = pair(0, (6, 40, 3))
    assert with_ssim(pixel_sums(left, right), left, right).ssim is None


def test_ssim_keeps_the_mean():
    total = with_ssim(identical_sums(147, "uint8"), *[np.zeros((7, 7, 3), np.uint8)] * 2)
    left, right = pair(0, spread=40)
    total += with_ssim(pixel_sums(left, right), left, right)
    theirs = structural_similarity(left, right, channel_axis=2, data_range=255)
    assert total.ssim == pytest.approx((1 + theirs) / 2, abs=1e-6)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1_001])
def test_no_value_is_left_out_of_a_histogram(size):
    values = np.random.default_rng(size).integers(0, 200, (1, size)).astype(np.uint8)
    assert histogram_of(values).tolist() == np.bincount(values[0]).tolist()


@pytest.mark.slow
def test_large_images_are_counted_exactly():
    values = np.zeros((1_100, 32_768), np.uint8)  # more than float32 counts: 36 million
    values[::2, 0] = 7
    assert histogram_of(values).tolist() == [values.size - 550, 0, 0, 0, 0, 0, 0, 550]


def test_float_bins_have_whole_numbers_for_edges_and_are_under_a_hundredth_wide():
    for value in (0.0, *range(1, 257), 2.0**-20, 0.5):
        counts = histogram_of(np.array([[value]], np.float32))
        assert edge(len(counts) - 1, "float32") == value
    edges = [edge(index, "float32") for index in range(2_000, 30_000)]
    assert max(np.diff(edges) / edges[:-1]) < 0.0079


def test_a_large_image_that_is_compared_in_strips_has_the_same_sums(monkeypatch):
    left, right = pair(3)
    right[:20] = left[:20]  # a strip without a difference
    whole = pixel_sums(left, right)
    for strip in (1, 1000, 47 * 3 * 20):
        monkeypatch.setattr(module, "STRIP_VALUES", strip)
        found = pixel_sums(left, right)
        assert (found.histogram == whole.histogram).all()
        numbers = (found.images, found.sum_abs, found.sum_squares, found.sums, found.max_abs)
        assert numbers == (1, whole.sum_abs, whole.sum_squares, whole.sums, whole.max_abs)
        check(found, left, right)
