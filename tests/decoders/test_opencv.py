"""`OpenCVDecoder` against cv2 called directly."""

import cv2
import numpy as np
import pytest

from alignkit.decoders.exif import turn
from alignkit.decoders.opencv import OpenCVDecoder
from tests.made_images import KINDS, NOTED
from tests.photos import make_jpegs, make_pngs


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_imread_without_orientation(jpegs, kind, tmp_path):
    file = tmp_path / "image.jpg"
    file.write_bytes(jpegs[kind])
    direct = cv2.imread(str(file), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    assert np.array_equal(OpenCVDecoder().decode(jpegs[kind]).image, direct[..., ::-1])


TURNED_TIFF = NOTED["TIFF"]["tag"](KINDS["TIFF", "RGB"](), 6)
TURNED_APNG = NOTED["PNG"]["EXIF"](KINDS["PNG", "animated"](), 6)


@pytest.mark.parametrize("flag", [cv2.IMREAD_IGNORE_ORIENTATION, 0])
@pytest.mark.parametrize(
    "file",
    [TURNED_TIFF, TURNED_APNG, KINDS["AVIF", "alpha"](), KINDS["TIFF", "16-bit RGB"](),
     NOTED["AVIF"]["EXIF"](KINDS["AVIF", "4:2:0"](), 8)],
)  # fmt: skip
def test_each_function_is_that_of_cv2(file, flag, tmp_path):
    path = tmp_path / "image"
    path.write_bytes(file)
    direct = {
        "imread": cv2.imread(str(path), cv2.IMREAD_COLOR | flag),
        "imdecode": cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR | flag),
    }
    for function, bgr in direct.items():
        decoder = OpenCVDecoder(function)
        found = decoder.decode(file).image
        assert (found is None) == (bgr is None)
        if bgr is not None:
            turned = found if flag else turn(found, decoder.orientation(file))
            assert np.array_equal(turned, bgr[..., ::-1])


def test_the_functions_differ_where_opencv_s_do():
    """OpenCV 5.0.0: imread asserts that a TIFF keeps its sides; imdecode looks at no APNG's EXIF."""
    both = OpenCVDecoder("imread"), OpenCVDecoder("imdecode")
    assert [each.decode(TURNED_TIFF).outcome for each in both] == ["failed", "ok"]
    assert [each.orientation(TURNED_APNG) for each in both] == [6, 1]


def test_a_file_of_the_default_function_is_gone_afterwards(monkeypatch, tmp_path):
    monkeypatch.delattr("os.memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert OpenCVDecoder().decode(KINDS["PNG", "RGB"]()).outcome == "ok"
    assert list(tmp_path.iterdir()) == []


def test_takes_the_high_byte_of_16_bits():
    pngs = make_pngs()
    grey = cv2.imdecode(np.frombuffer(pngs["grey-16"], np.uint8), cv2.IMREAD_UNCHANGED)
    decoded = OpenCVDecoder().decode(pngs["grey-16"]).image
    assert np.array_equal(decoded[..., 0], grey >> 8)


def test_drops_alpha():
    pngs = make_pngs()
    rgb, rgba = OpenCVDecoder().decode(pngs["rgb"]), OpenCVDecoder().decode(pngs["rgba"])
    assert np.array_equal(rgb.image, rgba.image)


@pytest.mark.parametrize("cut", [700, -200, -2])
def test_a_truncated_file_is_what_each_function_makes_of_it(jpegs, cut, tmp_path):
    file = tmp_path / "image.jpg"
    file.write_bytes(jpegs["420"][:cut])
    decoded = OpenCVDecoder().decode(file.read_bytes())
    assert decoded.outcome == "corrupt"
    assert np.array_equal(decoded.image, cv2.imread(str(file))[..., ::-1])
    assert OpenCVDecoder("imdecode").decode(file.read_bytes()).outcome == "failed"


def test_bytes_behind_the_end_are_no_damage(jpegs):
    assert OpenCVDecoder().decode(jpegs["420"] + bytes(9)).outcome == "ok"
