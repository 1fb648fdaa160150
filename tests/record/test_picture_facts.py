import json

import numpy as np
import pytest
from PIL import Image

from alignkit.record.picture_facts import choose_amplification, pack, script, write_worst
from alignkit.stored_file import file_sha256
from tests.packed import unpack

NAMES = {"reference": "opencv", "candidate": "torchpipe-gpu", "id": "7.jpg", "label": "7"}


def picture(folder, artifact):
    return np.asarray(Image.open(folder / artifact.path))


@pytest.fixture
def pair():
    draw = np.random.default_rng(0)
    a = draw.integers(0, 256, (24, 32, 3), dtype=np.uint8)
    b = np.clip(a.astype(int) + draw.integers(-6, 7, a.shape), 0, 255).astype(np.uint8)
    return a, b


def test_pictures_hold_the_arrays_in_rgb(tmp_path, pair):
    a, b = pair
    worst = write_worst(tmp_path, a, b, stage="resize", **NAMES)
    assert np.array_equal(picture(tmp_path, worst.a), a)
    assert np.array_equal(picture(tmp_path, worst.b), b)


def test_difference_is_amplified_and_clipped(tmp_path, pair):
    a, b = pair
    worst = write_worst(tmp_path, a, b, stage="resize", **NAMES)
    distance = np.abs(a.astype(int) - b.astype(int))
    assert worst.amplification == 32
    assert np.array_equal(
        picture(tmp_path, worst.difference), np.minimum(distance * 32, 255).astype(np.uint8)
    )
    assert worst.max_abs == distance.max()
    assert worst.mean_abs == pytest.approx(distance.mean())


def test_distances_of_floats_are_taken_before_rounding(tmp_path):
    a = np.full((4, 4, 3), 10.0, np.float32)
    worst = write_worst(tmp_path, a, a + np.float32(0.25), stage="resize", **NAMES)
    assert worst.max_abs == 0.25
    assert np.array_equal(picture(tmp_path, worst.a), picture(tmp_path, worst.b))
    assert picture(tmp_path, worst.difference).max() == 16


def test_exact_values_are_written_for_the_viewer(tmp_path, pair):
    a, b = pair
    shifted = b.astype(np.float32) + np.float32(0.125)
    worst = write_worst(tmp_path, a, shifted, stage="resize", **NAMES)
    text = (tmp_path / worst.pixels.path).read_text()
    head = f'(self.alignkitPixels??={{}})["{worst.pixels.path}"]='
    content = json.loads(text.removeprefix(head).rstrip(";\n"))
    assert (content["height"], content["width"]) == a.shape[:2]
    assert np.array_equal(unpack(content["a"]).reshape(a.shape), a)
    assert np.array_equal(unpack(content["b"]).reshape(a.shape), shifted)


def test_equal_pictures_are_stored_once_under_their_hash(tmp_path, pair):
    a, _ = pair
    worst = write_worst(tmp_path, a, a, stage="decode", **NAMES)
    assert worst.a == worst.b
    assert worst.a.sha256 == file_sha256(tmp_path / worst.a.path)
    assert len(list((tmp_path / "img").iterdir())) == 2


def test_shapes_that_differ_are_refused(tmp_path, pair):
    a, b = pair
    with pytest.raises(ValueError, match="shapes differ"):
        write_worst(tmp_path, a, b[:-1], stage="decode", **NAMES)


@pytest.mark.parametrize(
    ("level", "factor"), [(0, 1), (1, 64), (3, 64), (4, 32), (60, 4), (200, 1)]
)
def test_amplification_shows_the_greatest_difference_without_saturating(level, factor):
    assert choose_amplification(np.full((8, 8, 3), float(level))) == factor


def test_a_single_outlier_does_not_lower_the_amplification():
    distance = np.full((32, 32, 3), 2.0)
    distance[0, 0, 0] = 250.0
    assert choose_amplification(distance) == 64


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_arrays_come_back_bit_for_bit(dtype):
    values = np.random.default_rng(0).integers(0, 255, (7, 5, 3)).astype(dtype)
    if dtype is np.float32:
        values.flat[:3] = np.nan, -0.0, 1e-30
    found = unpack(pack(values))
    assert found.dtype == dtype
    assert found.tobytes() == values.tobytes()


def test_an_empty_array_comes_back_empty():
    assert unpack(pack(np.zeros(0, np.float32))).size == 0


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="float64"):
        pack(np.zeros(2))


def test_a_script_is_one_assignment_of_json():
    text = script("self.x", {"name": "</script>", "n": 1})
    assert text.startswith("self.x=")
    assert json.loads(text[len("self.x=") : -2]) == {"name": "</script>", "n": 1}
