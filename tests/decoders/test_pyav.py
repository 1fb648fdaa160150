"""`PyAVDecoder` against PyAV called directly."""

import io

import numpy as np
import pytest

pytest.importorskip("av", reason="needs the extra pyav")

import av
from av.video.reformatter import Interpolation

from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.pyav import PyAVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from tests.photos import encoded, make_jpegs, photo


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_to_ndarray_of_the_first_frame(jpegs, kind):
    with av.open(io.BytesIO(jpegs[kind])) as container:
        direct = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert np.array_equal(PyAVDecoder().decode(jpegs[kind]).image, direct)


def test_an_even_height_takes_a_path_without_interpolation_unless_accurate():
    even, odd = (
        encoded(photo("china", *size), subsampling="4:2:0") for size in ((64, 96), (61, 97))
    )
    for file, accurate, alike in ((even, False, True), (even, True, False), (odd, False, False)):
        point, bilinear = (
            PyAVDecoder(name, accurate).decode(file).image for name in ("point", "bilinear")
        )
        assert np.array_equal(point, bilinear) == alike


def test_accurate_comes_nearer_to_libjpeg_where_the_height_is_even():
    file = encoded(photo("china", 64, 96), subsampling="4:2:0")
    reference = PillowDecoder().decode(file).image.astype(int)
    rough, accurate = (
        np.abs(PyAVDecoder(accurate=value).decode(file).image - reference).mean()
        for value in (False, True)
    )
    assert 0 < accurate < rough / 2


@pytest.mark.parametrize(("height", "width"), [(64, 96), (24, 32), (60, 98)])
def test_even_sizes_have_nearest_chroma_and_smooth_chroma_where_accurate(height, width):
    """The doctor's 4:2:0 file, of coloured noise, shows it as a mean difference of 17 levels."""
    file = encoded(photo("china", height, width), subsampling="4:2:0")
    for accurate, chroma in ((False, "nearest"), (True, "smooth")):
        same, other = (
            np.abs(
                PyAVDecoder(accurate=accurate).decode(file).image.astype(int)
                - SimpleJPEGDecoder(chroma=each).decode(file).image
            )
            for each in (chroma, {"nearest": "smooth", "smooth": "nearest"}[chroma])
        )
        assert same.max() <= 4, chroma
        assert other.mean() > 1.5 * same.mean()


def test_at_an_odd_size_chroma_is_stretched_and_not_doubled():
    """swscale's own U plane, upsampled here either way, against the blue that it gives."""
    with av.open(io.BytesIO(encoded(photo("china", 60, 97), subsampling="4:2:2"))) as container:
        frame = next(container.decode(video=0))
        flags = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
        blue = frame.to_ndarray(format="rgb24", interpolation=flags)[..., 2].astype(float)
        luma, chroma = (plane_of(frame, index) for index in (0, 1))
    assert (luma.shape, chroma.shape) == ((60, 97), (60, 49))
    inside = (blue > 0) & (blue < 255)
    centres = np.arange(97) + 0.5
    doubled, stretched = (
        np.abs(
            luma
            + 1.772 * (np.stack([np.interp(x, np.arange(49), row) for row in chroma]) - 128)
            - blue
        )[inside].mean()
        for x in (centres / 2 - 0.5, centres * 49 / 97 - 0.5)
    )
    assert stretched < 0.5 < doubled


def plane_of(frame, index):
    plane = frame.planes[index]
    rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
    return rows[:, : plane.width].astype(float)


def test_a_truncated_file_is_corrupt_in_ffmpegs_words(jpegs):
    decoded = PyAVDecoder().decode(jpegs["420"][:-200])
    assert decoded.outcome == "corrupt"
    assert "EOI missing" in decoded.reason
