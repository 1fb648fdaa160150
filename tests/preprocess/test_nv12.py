"""The NV12 round trip against scikit-image, OpenCV and FFmpeg."""

import cv2
import numpy as np
import pytest
from skimage.color import rgb2ycbcr

from alignkit.preprocess import Colour
from alignkit.preprocess.nv12 import nv12_from_rgb, nv12_round_trip, rgb_from_nv12
from tests.photos import photo

SPACES = [(matrix, extent) for matrix in ("bt601", "bt709") for extent in ("limited", "full")]


def blocks(side: int = 2) -> np.ndarray:
    """Colours that are constant over square blocks, so that halving chroma loses nothing."""
    colours = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    return colours.repeat(side, axis=0).repeat(side, axis=1)


def test_bt601_limited_codes_equal_those_of_scikit_image():
    luma, chroma = nv12_from_rgb(blocks().astype(np.float32), "bt601", "limited")
    expected = rgb2ycbcr(blocks())
    assert np.abs(luma - expected[..., 0]).max() <= 0.51
    assert np.abs(chroma - expected[::2, ::2, 1:]).max() <= 0.51


def test_bt601_full_codes_equal_those_of_jpeg():
    """JFIF is BT.601 in full range; Pillow's conversion rounds to nearest."""
    from PIL import Image

    luma, chroma = nv12_from_rgb(blocks().astype(np.float32), "bt601", "full")
    expected = np.asarray(Image.fromarray(blocks()).convert("YCbCr")).astype(int)
    assert np.abs(luma - expected[..., 0]).max() <= 1
    assert np.abs(chroma - expected[::2, ::2, 1:]).max() <= 1


def test_the_way_back_equals_opencvs_in_bt601_limited():
    luma, chroma = nv12_from_rgb(photo("flower", 60, 96).astype(np.float32), "bt601", "limited")
    planes = np.concatenate([luma, chroma.reshape(30, 96)]).astype(np.uint8)
    expected = cv2.cvtColor(planes, cv2.COLOR_YUV2RGB_NV12).astype(int)
    assert np.abs(rgb_from_nv12(luma, chroma, "bt601", "limited") - expected).max() <= 1


def test_the_round_trip_equals_opencvs_where_chroma_is_constant_over_blocks():
    planar = cv2.cvtColor(blocks(), cv2.COLOR_RGB2YUV_I420)
    expected = cv2.cvtColor(planar, cv2.COLOR_YUV2RGB_I420).astype(int)
    difference = np.abs(nv12_round_trip(blocks(), "bt601", "limited") - expected)
    assert difference.max() <= 4  # two codes of chroma: OpenCV's way there is off by one at times
    assert difference.mean() < 0.5


@pytest.mark.parametrize(("matrix", "extent"), SPACES)
def test_the_codes_equal_ffmpegs(matrix, extent):
    av = pytest.importorskip("av", reason="needs the extra pyav")
    plain = blocks(16)
    converted = av.VideoFrame.from_ndarray(plain, format="rgb24").reformat(
        format="nv12",
        dst_colorspace={"bt601": "ITU601", "bt709": "ITU709"}[matrix],
        dst_color_range={"limited": "MPEG", "full": "JPEG"}[extent],
    )
    luma, chroma = nv12_from_rgb(plain.astype(np.float32), matrix, extent)
    expected_luma, expected_chroma = np.split(converted.to_ndarray(), [len(luma)])
    assert np.abs(luma - expected_luma).max() <= 1
    # FFmpeg filters chroma across the edges of the blocks; their middles stay
    middles = expected_chroma.reshape(chroma.shape)[4::8, 4::8]
    assert np.abs(chroma[4::8, 4::8] - middles).max() <= 1


@pytest.mark.parametrize(("matrix", "extent"), SPACES)
def test_greys_survive_within_the_rounding_of_their_range(matrix, extent):
    greys = np.arange(256, dtype=np.uint8).repeat(12).reshape(-1, 16, 3)
    difference = np.abs(nv12_round_trip(greys, matrix, extent).astype(int) - greys)
    assert difference.max() == (1 if extent == "limited" else 0)


@pytest.mark.parametrize(("matrix", "extent"), SPACES)
def test_colours_survive_where_chroma_is_constant_over_blocks(matrix, extent):
    difference = np.abs(nv12_round_trip(blocks(), matrix, extent).astype(int) - blocks())
    assert difference.max() <= 3


def test_ranges_and_matrices_differ():
    trips = [nv12_round_trip(photo(), *space) for space in SPACES]
    for index, one in enumerate(trips):
        assert all(not np.array_equal(one, other) for other in trips[index + 1 :])


@pytest.mark.parametrize("size", [(61, 97), (60, 97), (61, 96), (1, 1)])
def test_keeps_shape_dtype_and_input(size):
    image = photo(height=size[0], width=size[1]).copy()
    before = image.copy()
    for pixels in (image, image.astype(np.float32) + np.float32(0.25)):
        tripped = nv12_round_trip(pixels, "bt601", "limited")
        assert tripped.shape == pixels.shape
        assert tripped.dtype == pixels.dtype
    assert np.array_equal(image, before)


@pytest.mark.parametrize(("matrix", "extent"), SPACES)
def test_is_a_colour_of_the_colour_stage(matrix, extent):
    expected = nv12_round_trip(photo(), matrix, extent)
    assert np.array_equal(Colour(f"nv12-{matrix}-{extent}")(photo()), expected)
