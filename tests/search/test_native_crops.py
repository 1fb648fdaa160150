"""Crops and borders of images at their own resolution: found by their pixels, and by no other.

The stacks are slices of arrays that Pillow decodes; the right offsets are those of the code.
"""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image, ImageOps
from pydantic import ValidationError

from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.findings.stage_yaml import stage_block
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.match_result import Match
from alignkit.search.match_text import headline, label, paste
from alignkit.search.recorded_target import recorded_target
from tests.photos import encoded, exif, whole_photo
from tests.stacks import samples_of

SIDE = 60
PILLOW = {"decoders": ("pillow",), "resizers": ("pillow",)}


def photographs(least: int = 90, most: int = 200):
    """Sides of all remainders, so that roundings of half a margin differ."""
    rng = np.random.default_rng(3)
    files = []
    for index in range(6):
        height, width = rng.integers(least, most, 2)
        top, left = rng.integers(0, 160), rng.integers(0, 360)
        image = whole_photo(("china", "flower")[index % 2])
        files.append(encoded(image[top : top + height, left : left + width], "PNG"))
    return samples_of(files)


def opened(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@dataclass(frozen=True)
class Centre:
    half: Callable[[float], int]

    def __call__(self, data: bytes) -> np.ndarray:
        image = opened(data)
        top, left = (self.half((side - SIDE) / 2) for side in image.shape[:2])
        return image[top : top + SIDE, left : left + SIDE]


@dataclass(frozen=True)
class At:
    top: int
    left: int

    def __call__(self, data: bytes) -> np.ndarray:
        return opened(data)[self.top : self.top + SIDE, self.left : self.left + SIDE]


@dataclass(frozen=True)
class Padded:
    """A border around smaller images, and a centre crop of larger ones, as torchvision's."""

    pad: int
    half: Callable[[float], int] | None

    def __call__(self, data: bytes) -> np.ndarray:
        image = opened(data)
        short = [max(0, SIDE - side) for side in image.shape[:2]]
        before = [self.half(each / 2) if self.half else 0 for each in short]
        margins = [(one, each - one) for one, each in zip(before, short, strict=True)]
        image = np.pad(image, (*margins, (0, 0)), constant_values=self.pad)
        top, left = (round((side - SIDE) / 2) if self.half else 0 for side in image.shape[:2])
        return image[top : top + SIDE, left : left + SIDE]


LARGE, SMALL, MIXED = (90, 200), (20, 58), (30, 100)
STACKS = {
    "centre, even": (Centre(round), LARGE, {"crop": "even"}),
    "centre, floor": (Centre(math.floor), LARGE, {"crop": "down"}),
    "centre, ceil": (Centre(math.ceil), LARGE, {"crop": "up"}),
    "top left": (At(0, 0), LARGE, {"at": (0, 0)}),
    "a fixed place": (At(7, 13), LARGE, {"at": (7, 13)}),
    "another fixed place": (At(29, 0), LARGE, {"at": (29, 0)}),
    "border 0, floor": (Padded(0, math.floor), SMALL, {"pad": 0, "half": "down"}),
    "border 114, ceil": (Padded(114, math.ceil), SMALL, {"pad": 114, "half": "up"}),
    "border 255, even": (Padded(255, round), SMALL, {"pad": 255, "half": "even"}),
    "border on the right and below": (Padded(0, None), SMALL, {"pad": 0, "at": (0, 0)}),
    "CenterCrop of torchvision": (Padded(0, math.floor), MIXED, {"pad": 0, "half": "down"}),
}  # fmt: skip
"""Stack → its code, the sides of its images, and the options that describe it."""


def searched(folder, samples, tensor, **only) -> Match:
    for row, name in enumerate(samples.ids):
        np.save(folder / name.replace(".jpg", ".npy"), tensor(samples.read(row)))
    only = only or PILLOW
    target, rows = recorded_target(folder, samples, **only)
    return match(target, samples, rows, configurations(target.geometry, **only))


@pytest.mark.parametrize("name", STACKS)
def test_a_crop_or_border_without_a_resize_is_found_and_its_block_gives_the_pixels(tmp_path, name):
    stack, sides, options = STACKS[name]
    samples = photographs(*sides)
    found = searched(tmp_path, samples, stack)
    assert found.state == "found", (headline(found, {}), found.facts)
    assert found.named.identical + found.named.unseen_identical == len(samples)
    assert [label(each) for each in found.named.configurations] == ["pillow ▸ no resize"]
    resize, crop = found.block.resize, found.block.crop
    if "crop" in options:
        assert crop.half == options["crop"]
    assert crop.at == options.get("at")
    if "pad" in options:
        assert (resize.pad, resize.at) == (options["pad"], options.get("at"))
    if "half" in options:
        assert resize.half == options["half"]
    # what is printed to paste is the same path
    path = PreprocessOption.model_validate(stage_block(found.block)).build("matched")
    for row in range(len(samples)):
        assert np.array_equal(path.taps(samples.read(row)).last, stack(samples.read(row)))
    bordered = any("where an image is smaller" in each for each in found.facts)
    assert bordered == ("pad" in options)
    assert "no resize" in headline(found, {})


def test_a_crop_at_another_place_of_each_image_is_not_found(tmp_path):
    def drawn(data: bytes) -> np.ndarray:
        rng, image = np.random.default_rng(len(data)), opened(data)
        return At(*(int(rng.integers(0, side - SIDE)) for side in image.shape[:2]))(data)

    found = searched(tmp_path, photographs(), drawn)
    assert found.state == "not found"
    assert paste(found, "matched") == ""


def test_images_that_are_turned_are_cropped_after_the_turn(tmp_path):
    image = whole_photo("china")
    files = [
        encoded(image[40 * n : 40 * n + 111, :150], "JPEG", exif=exif(6), subsampling=0)
        for n in range(5)
    ]
    samples = samples_of(files)

    def upright(data: bytes) -> np.ndarray:
        turned = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
        top, left = (math.floor((side - SIDE) / 2) for side in turned.shape[:2])
        return turned[top : top + SIDE, left : left + SIDE]

    found = searched(tmp_path, samples, upright)
    assert found.state == "found", (headline(found, {}), found.facts)
    assert (found.block.orient.policy, found.block.crop.half) == ("exif", "down")


def built(resize, **more):
    option = {"decode": "pillow", "resize": {"name": "pillow", "size": SIDE, **resize}, **more}
    return PreprocessOption.model_validate(option).build("path")


def test_a_path_without_a_resize_needs_a_crop_and_a_place_a_border():
    with pytest.raises(ValidationError, match="every image keeps its size; add 'crop'"):
        built({"fit": "none"})
    with pytest.raises(ValidationError, match="belongs to 'fit: letterbox'"):
        built({"fit": "shorter", "at": [0, 0]}, crop=SIDE)
    path = built({"fit": "none"}, crop={"size": SIDE, "at": [300, 0]})
    with pytest.raises(ValueError, match="cannot crop 60x60 at 300, 0 out of"):
        path.taps(photographs().read(0))


def test_a_letterbox_may_lie_in_the_corner():
    path = built({"fit": "letterbox", "at": [0, 0], "pad": 7})
    data = photographs().read(0)
    pixels, image = path.taps(data).last, Image.open(io.BytesIO(data))
    wide, tall = (min(SIDE, round(side * SIDE / max(image.size))) for side in image.size)
    resized = np.asarray(image.convert("RGB").resize((wide, tall), Image.BILINEAR))
    assert np.array_equal(pixels[:tall, :wide], resized)
    assert (pixels[tall:] == 7).all()
    assert (pixels[:, wide:] == 7).all()
