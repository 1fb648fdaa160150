"""`PyAVDecoder` against PyAV called directly."""

import io

import numpy as np
import pytest

pytest.importorskip("av", reason="needs the extra pyav")

import av

from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.pyav import PyAVDecoder
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


def test_a_truncated_file_is_corrupt_in_ffmpegs_words(jpegs):
    decoded = PyAVDecoder().decode(jpegs["420"][:-200])
    assert decoded.outcome == "corrupt"
    assert "EOI missing" in decoded.reason
