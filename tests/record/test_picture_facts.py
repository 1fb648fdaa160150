import json

import numpy as np
import pytest
from PIL import Image

from alignkit.record.picture_facts import (
    choose_amplification,
    is_pixel_script,
    pack,
    pixel_script,
    script,
    write_shown,
)
from alignkit.stored_file import file_sha256
from tests.packed import unpack, unpack_pair
from tests.photos import photo

NAMES = {
    "why": "pixels",
    "reference": "opencv",
    "candidate": "torchpipe-gpu",
    "id": "7.jpg",
    "label": "7",
}


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
    shown = write_shown(tmp_path, a, b, stage="resize", **NAMES)
    assert np.array_equal(picture(tmp_path, shown.a), a)
    assert np.array_equal(picture(tmp_path, shown.b), b)


def test_difference_is_amplified_and_clipped(tmp_path, pair):
    a, b = pair
    shown = write_shown(tmp_path, a, b, stage="resize", **NAMES)
    distance = np.abs(a.astype(int) - b.astype(int))
    assert shown.amplification == 32
    assert np.array_equal(
        picture(tmp_path, shown.difference), np.minimum(distance * 32, 255).astype(np.uint8)
    )
    assert shown.max_abs == distance.max()
    assert shown.mean_abs == pytest.approx(distance.mean())


def test_distances_of_floats_are_taken_before_rounding(tmp_path):
    a = np.full((4, 4, 3), 10.0, np.float32)
    shown = write_shown(tmp_path, a, a + np.float32(0.25), stage="resize", **NAMES)
    assert shown.max_abs == 0.25
    assert np.array_equal(picture(tmp_path, shown.a), picture(tmp_path, shown.b))
    assert picture(tmp_path, shown.difference).max() == 16


def test_exact_values_are_written_for_the_viewer(tmp_path, pair):
    a, b = pair
    shifted = b.astype(np.float32) + np.float32(0.125)
    shown = write_shown(tmp_path, a, shifted, stage="resize", **NAMES)
    text = (tmp_path / shown.pixels.path).read_text()
    head = f'(self.alignkitPixels??={{}})["{shown.pixels.path}"]='
    content = json.loads(text.removeprefix(head).rstrip(";\n"))
    found = unpack_pair(content)
    assert np.array_equal(found[0], a)
    assert np.array_equal(found[1], shifted)


def read_back(a, b):
    path, text = pixel_script(a, b)
    assert is_pixel_script(path, text)
    return unpack_pair(json.loads(text[text.index(b"]=") + 2 : -2]))


@pytest.mark.parametrize("types", ["uint8 uint8", "uint8 float32", "float32 uint8"])
@pytest.mark.parametrize("size", [(24, 32, 3), (1, 1, 3), (7, 40, 3)])
def test_any_two_images_come_back_bit_for_bit(types, size):
    draw = np.random.default_rng(1)
    both = [
        draw.integers(0, 256, shape).astype(kind)
        for shape, kind in zip([(24, 32, 3), size], types.split(), strict=True)
    ]
    for found, given in zip(read_back(*both), both, strict=True):
        assert found.dtype == given.dtype
        assert np.array_equal(found, given)


def test_a_photograph_takes_less_than_its_own_bytes():
    a = photo("flower", 120, 160)
    b = a.copy()
    b[::9] ^= 1
    assert len(pixel_script(a, b)[1]) < 0.9 * a.nbytes


def test_equal_pictures_are_stored_once_under_their_hash(tmp_path, pair):
    a, _ = pair
    shown = write_shown(tmp_path, a, a, stage="decode", **NAMES)
    assert shown.a == shown.b
    assert shown.a.sha256 == file_sha256(tmp_path / shown.a.path)
    assert len(list((tmp_path / "img").iterdir())) == 2


def test_sides_of_two_sizes_are_shown_without_a_difference(tmp_path, pair):
    a, b = pair
    shown = write_shown(tmp_path, a, b[:-1], stage="colour", **NAMES)
    assert shown.sizes == ((32, 24), (32, 23))
    assert (shown.difference, shown.max_abs, shown.mean_abs, shown.amplification) == (None,) * 4
    assert shown.pictures == (shown.a, shown.b)
    assert np.array_equal(picture(tmp_path, shown.b), b[:-1])


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
