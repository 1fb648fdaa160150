"""Each stage against the library it takes its rule from, and the taps of a whole path."""

import json

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.preprocess import (
    STAGES,
    Colour,
    Crop,
    Orient,
    Preprocess,
    Quantise,
    Resize,
    stage_identity,
)
from alignkit.preprocess.normalise import IMAGENET_MEAN, IMAGENET_STD, Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from tests.photos import photo

SIDES = [(61, 97), (97, 61), (64, 64), (33, 500), (500, 33), (217, 224)]


def pillow_to_opencv(**stages: object) -> Preprocess:
    given = {"resize": Resize(OpenCVResizer(), (24, 32)), **stages}
    return Preprocess("path", PillowDecoder(), **given)


@pytest.mark.parametrize(("height", "width"), SIDES)
@pytest.mark.parametrize("short", [32, 57, 256])
def test_shorter_gives_the_size_torchvision_gives(height, width, short):
    expected = functional.resize(torch.zeros(3, height, width), [short]).shape[1:]
    stage = Resize(PillowResizer(), (short, short), fit="shorter")
    assert stage.target(height, width) == tuple(expected)


def test_squash_gives_the_size_whatever_the_image():
    assert Resize(OpenCVResizer(), (20, 30))(photo()).shape == (20, 30, 3)


@pytest.mark.parametrize(("height", "width"), SIDES)
def test_letterbox_equals_the_recipe_of_ultralytics(height, width):
    """Scale, round, resize, border: the order of ultralytics.data.augment.LetterBox."""
    image = photo(height=height, width=width)
    ratio = min(64 / height, 48 / width)
    inner = round(width * ratio), round(height * ratio)
    resized = cv2.resize(image, inner) if inner != (width, height) else image
    across, down = (48 - inner[0]) / 2, (64 - inner[1]) / 2
    expected = cv2.copyMakeBorder(
        resized,
        round(down - 0.1),
        round(down + 0.1),
        round(across - 0.1),
        round(across + 0.1),
        cv2.BORDER_CONSTANT,
        value=(114, 114, 114),
    )
    stage = Resize(OpenCVResizer(), (64, 48), fit="letterbox")
    assert np.array_equal(stage(image), expected)


@pytest.mark.parametrize(("height", "width"), [*SIDES, (1, 900), (480, 640)])
@pytest.mark.parametrize("stride", [32, 64])
def test_auto_pads_to_the_next_multiple_of_the_stride_as_ultralytics_does(height, width, stride):
    """The rest of the padding by the stride, halves as in the full letterbox."""
    image = photo(height=height, width=width)
    ratio = min(192 / height, 128 / width)
    inner = max(round(width * ratio), 1), max(round(height * ratio), 1)
    resized = cv2.resize(image, inner) if inner != (width, height) else image
    across, down = np.mod(128 - inner[0], stride) / 2, np.mod(192 - inner[1], stride) / 2
    expected = cv2.copyMakeBorder(
        resized,
        round(down - 0.1),
        round(down + 0.1),
        round(across - 0.1),
        round(across + 0.1),
        cv2.BORDER_CONSTANT,
        value=(114, 114, 114),
    )
    stage = Resize(OpenCVResizer(), (192, 128), "letterbox", auto=True, stride=stride)
    assert np.array_equal(stage(image), expected)
    assert not any(side % stride for side in expected.shape[:2])


def test_an_option_added_later_leaves_the_identity_of_a_path_without_it():
    before = {"stage", "resizer", "size", "fit", "pad", "rounding"}
    plain = stage_identity(Resize(OpenCVResizer(), (64, 64), "letterbox"))
    assert plain.keys() == before
    assert plain["rounding"] == "down"
    auto = stage_identity(Resize(OpenCVResizer(), (64, 64), "letterbox", auto=True, stride=64))
    assert {key: auto[key] for key in auto.keys() - before} == {"auto": True, "stride": 64}


def test_letterbox_keeps_floats_and_pads_with_the_level_asked_for():
    padded = Resize(TorchResizer(), (40, 40), fit="letterbox", pad=7)(photo())
    assert padded.dtype == np.float32
    assert (padded[0] == 7).all()


@pytest.mark.parametrize("size", [(20, 30), (21, 30), (20, 31), (61, 97)])
def test_crop_equals_torchvisions_centre_crop(size):
    expected = np.asarray(v2.CenterCrop(size)(Image.fromarray(photo())))
    assert np.array_equal(Crop(size)(photo()), expected)


def test_crop_without_a_size_changes_nothing():
    assert Crop()(photo()) is photo()


def test_crop_refuses_a_smaller_image():
    with pytest.raises(ValueError, match="cannot crop 62x97 out of 61x97"):
        Crop((62, 97))(photo())


def test_quantise_rounds_or_truncates_as_torch_does():
    pixels = np.linspace(0, 255, 3000, dtype=np.float32).reshape(-1, 10, 3)
    tensor = torch.from_numpy(pixels)
    assert np.array_equal(Quantise("round")(pixels), tensor.round().to(torch.uint8).numpy())
    assert np.array_equal(Quantise("truncate")(pixels), tensor.to(torch.uint8).numpy())
    assert Quantise()(pixels) is pixels


@pytest.mark.parametrize("rule", ["round", "truncate"])
def test_quantise_clips_what_a_cubic_overshoots(rule):
    pixels = np.array([[[-3.7, 260.0, 12.0]]], np.float32)
    assert Quantise(rule)(pixels).tolist() == [[[0, 255, 12]]]


def test_quantise_leaves_bytes_alone():
    assert Quantise("round")(photo()) is photo()


def test_colour_swaps_red_and_blue():
    assert np.array_equal(Colour("bgr")(photo()), cv2.cvtColor(photo(), cv2.COLOR_RGB2BGR))


def test_normalise_equals_torchvisions():
    tensor = functional.to_dtype(torch.tensor(photo()).permute(2, 0, 1), torch.float32, scale=True)
    expected = functional.normalize(tensor, list(IMAGENET_MEAN), list(IMAGENET_STD)).numpy()
    batch = Normalise()(np.stack([photo(), photo()]))
    assert batch.dtype == np.float32
    assert batch.flags.c_contiguous
    assert np.allclose(batch, expected, atol=1e-6)
    assert np.array_equal(Normalise()(photo()), batch[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("samples", [(), (0,), (3,)])
def test_normalise_is_its_formula_in_float32_bit_for_bit(dtype, samples):
    pixels = np.random.default_rng(0).integers(0, 256, (*samples, 9, 8, 3)).astype(dtype)
    mean, std = np.float32(IMAGENET_MEAN), np.float32(IMAGENET_STD)
    for view in (pixels, pixels[..., ::-1], pixels[..., 2:7, 1:5, :]):
        expected = (view.astype(np.float32) / np.float32(255) - mean) / std
        found = Normalise()(view)
        assert found.flags.c_contiguous
        assert found.tobytes() == np.moveaxis(expected, -1, -3).tobytes()


def test_taps_hold_what_each_stage_gave(jpegs):
    path = pillow_to_opencv(
        resize=Resize(TorchResizer(), (40, 50)), crop=Crop((20, 30)), quantise=Quantise("round"),
        colour=Colour("bgr"),
    )  # fmt: skip
    taps = path.taps(jpegs["420"])
    assert tuple(taps.pixels) == STAGES[:-1]
    shapes = {stage: (pixels.shape[:2], pixels.dtype.name) for stage, pixels in taps.pixels.items()}
    assert shapes == {
        "decode": ((61, 97), "uint8"),
        "orient": ((61, 97), "uint8"),
        "resize": ((40, 50), "float32"),
        "crop": ((20, 30), "float32"),
        "quantise": ((20, 30), "uint8"),
        "colour": ((20, 30), "uint8"),
    }
    assert np.array_equal(taps.last[..., ::-1], taps.pixels["quantise"])
    assert path.size == (20, 30)


def test_a_file_that_cannot_be_decoded_has_no_taps():
    taps = pillow_to_opencv().taps(b"no image")
    assert taps.decoded.outcome == "failed"
    assert taps.pixels == {}
    assert taps.last is None


@pytest.mark.parametrize("orientation", range(2, 9))
def test_orient_turns_the_decoded_image(jpegs, orientation):
    taps = pillow_to_opencv(orient=Orient("exif")).taps(jpegs[f"exif-{orientation}"])
    turned = cv2.imdecode(np.frombuffer(jpegs[f"exif-{orientation}"], np.uint8), cv2.IMREAD_COLOR)
    assert np.array_equal(taps.pixels["orient"], turned[..., ::-1])
    assert taps.pixels["decode"].shape == (61, 97, 3)


def test_a_decoder_that_orients_by_itself_has_no_decode_tap_for_a_turned_image(jpegs):
    path = Preprocess("path", TorchpipeDecoder(), Resize(OpenCVResizer(), (24, 32)))
    assert "decode" in path.taps(jpegs["420"]).pixels
    taps = path.taps(jpegs["exif-6"])
    assert "decode" not in taps.pixels
    assert taps.pixels["orient"].shape == (97, 61, 3)


def test_the_identity_is_json_and_names_every_option():
    path = pillow_to_opencv(resize=Resize(OpenCVResizer("area"), (24, 32), fit="shorter"))
    identity = json.loads(json.dumps(path.identity()))
    assert tuple(identity) == (*STAGES, "max_pixels")
    assert identity["decode"] == {"stage": "PillowDecoder"}
    assert identity["resize"]["resizer"] == {
        "stage": "OpenCVResizer",
        "interpolation": "area",
        "floats": False,
    }
    assert identity["resize"]["size"] == [24, 32]
    assert identity["normalise"]["mean"] == list(IMAGENET_MEAN)


def test_two_paths_that_differ_in_one_option_differ_in_identity():
    assert pillow_to_opencv().identity() != pillow_to_opencv(crop=Crop((20, 20))).identity()
    assert pillow_to_opencv().identity() == pillow_to_opencv().identity()


def test_versions_are_read_without_running_the_path():
    versions = Preprocess("path", OpenCVDecoder(), Resize(PillowResizer(), (8, 8))).versions()
    assert versions["decode"].startswith("opencv-python")
    assert versions["resize"].startswith("pillow")


def test_nothing_is_missing_from_a_path_of_installed_libraries():
    assert pillow_to_opencv().missing() == ""


@pytest.mark.parametrize(("height", "width"), SIDES)
def test_the_crop_of_mlperf_begins_at_the_pixel_below(height, width):
    size = (20, 30)
    left, top = int((width - size[1]) / 2), int((height - size[0]) / 2)
    image = photo(height=height, width=width)
    expected = image[top : int((height + size[0]) / 2), left : int((width + size[1]) / 2)]
    assert np.array_equal(Crop(size, half="down")(image), expected)


def test_the_three_rules_part_only_on_an_odd_margin():
    columns = np.arange(11, dtype=np.uint8)[None, :, None].repeat(3, axis=2)
    begins = {
        width: [int(Crop((1, width), half)(columns)[0, 0, 0]) for half in ("even", "down", "up")]
        for width in (11, 10, 9, 8)
    }
    assert begins == {11: [0, 0, 0], 10: [0, 0, 1], 9: [1, 1, 1], 8: [2, 1, 2]}


def test_the_longer_side_is_cut_off_or_rounded():
    down = Resize(PillowResizer(), (256, 256), fit="shorter")
    nearest = Resize(PillowResizer(), (256, 256), fit="shorter", rounding="nearest")
    assert (down.target(416, 500), nearest.target(416, 500)) == ((256, 307), (256, 308))
    assert (down.target(500, 416), nearest.target(500, 416)) == ((307, 256), (308, 256))
    assert down.target(400, 600) == nearest.target(400, 600) == (256, 384)
