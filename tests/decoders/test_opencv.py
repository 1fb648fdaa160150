"""`OpenCVDecoder` against cv2 called directly."""

import cv2
import numpy as np
import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from tests.photos import make_jpegs, make_pngs


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_imread_without_orientation(jpegs, kind, tmp_path):
    file = tmp_path / "image.jpg"
    file.write_bytes(jpegs[kind])
    direct = cv2.imread(str(file), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    assert np.array_equal(OpenCVDecoder().decode(jpegs[kind]).image, direct[..., ::-1])


@pytest.mark.parametrize("kind", [*make_jpegs(), *make_pngs()])
def test_an_opencv_without_rgb_gives_the_same_pixels(jpegs, kind, monkeypatch):
    file = jpegs.get(kind) or make_pngs()[kind]
    straight = OpenCVDecoder().decode(file)
    monkeypatch.delattr(cv2, "IMREAD_COLOR_RGB")
    older = OpenCVDecoder().decode(file)
    assert older.outcome == straight.outcome
    assert np.array_equal(older.image, straight.image)


def test_takes_the_high_byte_of_16_bits():
    pngs = make_pngs()
    grey = cv2.imdecode(np.frombuffer(pngs["grey-16"], np.uint8), cv2.IMREAD_UNCHANGED)
    decoded = OpenCVDecoder().decode(pngs["grey-16"]).image
    assert np.array_equal(decoded[..., 0], grey >> 8)


def test_drops_alpha():
    pngs = make_pngs()
    rgb, rgba = OpenCVDecoder().decode(pngs["rgb"]), OpenCVDecoder().decode(pngs["rgba"])
    assert np.array_equal(rgb.image, rgba.image)


def test_refuses_a_truncated_file(jpegs):
    assert OpenCVDecoder().decode(jpegs["420"][:-200]).outcome == "failed"
