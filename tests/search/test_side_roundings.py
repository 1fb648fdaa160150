"""Sides and margins rounded down, up, to the nearest and to the even pixel: as options, and found.

Every stack is written with OpenCV, Pillow and Python's own rounding; the right values are those of
its code.
"""

import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps
from pydantic import ValidationError

from alignkit.decoders.pillow import PillowDecoder
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.preprocess import Crop, Preprocess, Resize
from alignkit.preprocess.stages import stage_identity
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.match_text import paste
from alignkit.search.recorded_target import recorded_target
from tests.photos import encoded, whole_photo
from tests.stacks import samples_of

SIDE = 64
PILLOW = {"decoders": ("pillow",), "resizers": ("pillow",)}
OPENCV = {"decoders": ("opencv",), "resizers": ("opencv",)}


def photographs(count: int = 6):
    """Cut so that roundings differ: sides of all remainders, wide and tall."""
    rng = np.random.default_rng(7)
    files = []
    for index in range(count):
        image = whole_photo(("china", "flower")[index % 2])
        height, width = rng.integers(90, 230, 2)
        top, left = rng.integers(0, 160), rng.integers(0, 360)
        files.append(encoded(image[top : top + height, left : left + width], "PNG"))
    return samples_of(files)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def half_up(side: float) -> int:
    return math.floor(side + 0.5)


@dataclass(frozen=True)
class Boxed:
    """A letterbox: how the sides are rounded, and half an odd margin."""

    to_whole: Callable[[float], int]
    half: Callable[[float], int] = math.floor
    pad: int = 0

    def __call__(self, data: bytes) -> np.ndarray:
        image = opened(data)
        scale = min(SIDE / image.width, SIDE / image.height)
        # a side that rounds up may exceed the canvas by an error of the product
        wide, tall = (min(SIDE, self.to_whole(side * scale)) for side in image.size)
        canvas = Image.new("RGB", (SIDE, SIDE), (self.pad,) * 3)
        place = self.half((SIDE - wide) / 2), self.half((SIDE - tall) / 2)
        canvas.paste(image.resize((wide, tall), Image.BILINEAR), place)
        return np.asarray(canvas)


@dataclass(frozen=True)
class Cut:
    """The shorter side resized, and a centre crop."""

    short: int
    to_whole: Callable[[float], int] = math.floor
    half: Callable[[float], int] = round

    def __call__(self, data: bytes) -> np.ndarray:
        image = opened(data)
        least = min(image.size)
        size = [
            self.short if side == least else self.to_whole(Fraction(self.short * side, least))
            for side in image.size
        ]
        left, top = (self.half((side - SIDE) / 2) for side in size)
        resized = image.resize(size, Image.BICUBIC)
        return np.asarray(resized.crop((left, top, left + SIDE, top + SIDE)))


def ultralytics(data: bytes) -> np.ndarray:
    """LetterBox of ultralytics 8: round() of both sides, and round(margin - 0.1)."""
    image = np.asarray(opened(data))
    ratio = min(SIDE / image.shape[0], SIDE / image.shape[1])
    wide, tall = round(image.shape[1] * ratio), round(image.shape[0] * ratio)
    across, down = (SIDE - wide) / 2, (SIDE - tall) / 2
    image = cv2.resize(image, (wide, tall), interpolation=cv2.INTER_LINEAR)
    sides = (round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1))
    return cv2.copyMakeBorder(image, *sides, cv2.BORDER_CONSTANT, value=(114,) * 3)


def pad_of_pillow(data: bytes) -> np.ndarray:
    return np.asarray(ImageOps.pad(opened(data), (SIDE, SIDE), Image.BICUBIC, color=(0, 0, 0)))


LETTERBOX = {"size": SIDE, "fit": "letterbox"}
STACKS = {
    # D-FINE, DEIM, RT-DETR: int(side * ratio), (size - side) // 2
    "letterbox by int": (Boxed(int), PILLOW, LETTERBOX | {"pad": 0, "rounding": "floor"}, None),
    "letterbox by ceil": (
        Boxed(math.ceil, pad=114), PILLOW, LETTERBOX | {"rounding": "ceil"}, None,
    ),
    # the margin of (size - side + 1) // 2
    "letterbox, odd margins up": (
        Boxed(int, math.ceil), PILLOW, LETTERBOX | {"pad": 0, "rounding": "floor", "half": "up"},
        None,
    ),
    "letterbox of Ultralytics": (ultralytics, OPENCV, LETTERBOX, None),
    "ImageOps.pad": (pad_of_pillow, PILLOW, LETTERBOX | {"pad": 0, "half": "even"}, None),
    # timm: floor(64 / 0.95) is 67, and 67.4 rounds up to 68 elsewhere
    "crop share 0.95, floor": (Cut(67), PILLOW, {"size": 67, "fit": "shorter"}, SIDE),
    "crop share 0.95, ceil": (Cut(68), PILLOW, {"size": 68, "fit": "shorter"}, SIDE),
    "crop share 0.9, floor": (Cut(71), PILLOW, {"size": 71, "fit": "shorter"}, SIDE),
    "a shorter side of no known share": (Cut(76), PILLOW, {"size": 76, "fit": "shorter"}, SIDE),
    "longer side by ceil": (
        Cut(73, math.ceil), PILLOW, {"size": 73, "fit": "shorter", "rounding": "ceil"}, SIDE,
    ),
    "longer side to the nearest, odd margins up": (
        Cut(71, half_up, math.ceil), PILLOW,
        {"size": 71, "fit": "shorter", "rounding": "nearest"}, {"size": [SIDE] * 2, "half": "up"},
    ),
}  # fmt: skip
"""Stack → its code, the libraries to search, and the options that describe it."""


QUICK = ("letterbox by int", "crop share 0.95, floor", "longer side by ceil")


@pytest.mark.parametrize(
    "name",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in STACKS],
)
def test_the_rounding_of_a_stack_is_found(tmp_path, name):
    stack, only, resize, crop = STACKS[name]
    samples = photographs()
    for row, image in enumerate(samples.ids):
        np.save(tmp_path / f"{image.removesuffix('.jpg')}.npy", stack(samples.read(row)))
    target, rows = recorded_target(tmp_path, samples, **only)
    found = match(target, samples, rows, configurations(target.geometry, **only))
    assert found.state == "found", (found.facts, paste(found, "matched"))
    assert found.named.alike == len(samples)
    path = found.block
    options = {key: value for key, value in resize.items() if key != "size"}
    assert min(path.resize.size) == resize["size"]
    assert {key: getattr(path.resize, key) for key in options} == options
    assert path.resize.half == resize.get("half", "down")
    half = crop["half"] if isinstance(crop, dict) else "even"
    assert (path.crop.size, path.crop.half) == ((SIDE, SIDE) if crop else None, half)


@pytest.mark.parametrize("name", STACKS)
def test_a_rounding_is_an_option_that_gives_the_pixels_of_the_code(name):
    stack, only, resize, crop = STACKS[name]
    library = only["resizers"][0]
    cubic = library == "pillow" and (crop or name == "ImageOps.pad")
    option = {
        "decode": "pillow",
        "resize": {"name": library, **({"filter": "bicubic"} if cubic else {}), **resize},
        **({"crop": crop} if crop else {}),
    }
    path = PreprocessOption.model_validate(json.loads(json.dumps(option))).build(name)
    samples = photographs()
    for row in range(len(samples)):
        data = samples.read(row)
        assert np.array_equal(path.taps(data).last, stack(data))


@pytest.mark.parametrize("fit", ["shorter", "letterbox"])
@pytest.mark.parametrize(
    ("rounding", "to_whole"),
    [("floor", math.floor), ("nearest", half_up), ("even", round), ("ceil", math.ceil)],
)
def test_every_fit_has_every_rounding(fit, rounding, to_whole):
    for height, width in [(100, 150), (333, 500), (97, 61), (64, 64), (75, 200), (480, 641)]:
        stage = Resize(PillowResizer(), (SIDE, SIDE), fit, rounding=rounding)
        least, most = min(height, width), max(height, width)
        exact = Fraction(SIDE * most, least) if fit == "shorter" else Fraction(SIDE * least, most)
        longer, shorter = (to_whole(exact), SIDE) if fit == "shorter" else (SIDE, to_whole(exact))
        expected = (shorter, longer) if height <= width else (longer, shorter)
        assert stage.target(height, width) == expected, (height, width)


def test_a_default_by_name_is_the_same_stage_and_keeps_the_identity_of_before():
    for fit, rounding in (("squash", None), ("shorter", "floor"), ("letterbox", "even")):
        stage = Resize(OpenCVResizer(), (SIDE, SIDE), fit)
        assert stage == Resize(OpenCVResizer(), (SIDE, SIDE), fit, rounding=rounding)
        assert stage_identity(stage)["rounding"] == "down"
        assert "half" not in stage_identity(stage)
    cut = stage_identity(Resize(OpenCVResizer(), (SIDE, SIDE), "letterbox", rounding="floor"))
    assert cut["rounding"] == "floor"


def built(**resize) -> Preprocess:
    option = {"decode": "pillow", "resize": {"name": "pillow", "size": SIDE, **resize}}
    return PreprocessOption.model_validate(option).build("path")


def test_the_older_name_is_read_where_it_was_right_and_refused_where_it_was_not():
    assert built(fit="shorter", rounding="down").resize == built(fit="shorter").resize
    with pytest.raises(ValidationError, match="that meant even; write 'even'"):
        built(fit="letterbox", rounding="down")
    with pytest.raises(ValidationError, match="belongs to 'fit: letterbox'"):
        built(fit="shorter", half="up")


def test_what_images_cannot_show_is_said_and_the_plainest_taken(tmp_path):
    # squares have no side that follows
    china = whole_photo("china")
    samples = samples_of([encoded(china[:200, at : at + 200]) for at in (0, 99, 300)])
    resize = Resize(PillowResizer(), (70, 70), "shorter")
    path = Preprocess("path", PillowDecoder(), resize, crop=Crop((SIDE, SIDE)))
    for row, image in enumerate(samples.ids):
        np.save(tmp_path / image.replace(".jpg", ".npy"), path.taps(samples.read(row)).last)
    target, _ = recorded_target(tmp_path, samples, **PILLOW)
    (fact,) = [each for each in map(str, target.facts) if each.startswith("rounding: ")]
    assert fact.startswith("rounding: floor or nearest or even or ceil of the sides that follow")
    assert target.geometry.resize.rounding is None
