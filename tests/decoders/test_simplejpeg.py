"""`SimpleJPEGDecoder` against simplejpeg called directly, and what its switches mean."""

import numpy as np
import pytest
import simplejpeg

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from tests.photos import encoded, make_jpegs, photo


@pytest.mark.parametrize("kind", make_jpegs())
@pytest.mark.parametrize("chroma", ["smooth", "nearest"])
@pytest.mark.parametrize("dct", ["islow", "ifast"])
def test_equals_decode_jpeg_with_the_same_switches(jpegs, kind, chroma, dct):
    direct = simplejpeg.decode_jpeg(
        jpegs[kind], "RGB", fastdct=dct == "ifast", fastupsample=chroma == "nearest"
    )
    assert np.array_equal(SimpleJPEGDecoder(chroma, dct).decode(jpegs[kind]).image, direct)


@pytest.mark.parametrize("chroma", ["smooth", "nearest"])
def test_nearest_chroma_repeats_samples_and_smooth_blends_them(chroma):
    """Planes of constant 8x8 blocks survive the coding exactly, so the expected image is known."""
    rng = np.random.default_rng(0)
    blue, red = (np.kron(rng.integers(100, 157, (2, 3)), np.ones((8, 8), int)) for _ in "bs")
    luma = np.full((32, 48), 128)
    file = simplejpeg.encode_jpeg_yuv_planes(
        *(plane.astype(np.uint8) for plane in (luma, blue, red)), quality=100
    )
    blue, red = (np.kron(plane, np.ones((2, 2), int)) - 128 for plane in (blue, red))
    jfif = [luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue]
    decoded = SimpleJPEGDecoder(chroma).decode(file).image
    difference = np.abs(decoded - np.rint(np.stack(jfif, axis=-1))).max()
    assert difference <= 1 if chroma == "nearest" else difference > 5


def test_switches_change_nothing_they_should_not():
    full_chroma = encoded(photo(), subsampling="4:4:4")
    smooth, nearest = (
        SimpleJPEGDecoder(chroma).decode(full_chroma) for chroma in ("smooth", "nearest")
    )
    assert np.array_equal(smooth.image, nearest.image)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "WEBP"])
def test_says_that_other_formats_are_unsupported(kind):
    assert SimpleJPEGDecoder().decode(encoded(photo(), kind)).outcome == "unsupported"


def test_gives_the_pixels_and_the_warning_of_a_truncated_file(jpegs):
    whole = SimpleJPEGDecoder().decode(jpegs["420"])
    cut = SimpleJPEGDecoder().decode(jpegs["420"][:-200])
    assert cut.outcome == "corrupt"
    assert "Premature end" in cut.reason
    assert np.array_equal(cut.image[:16], whole.image[:16])
