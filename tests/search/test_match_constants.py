"""Mean and std by the pixels, and the channel order where images show none.

The tensors are made by NumPy and Pillow alone; the right constants are those of its lines.
"""

import io
from functools import cache

import numpy as np
import pytest
from PIL import Image

from alignkit.preprocess.normalise import IMAGENET_MEAN, IMAGENET_STD, Normalise
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.match_result import Match
from alignkit.search.match_text import headline
from alignkit.search.normalisation_fit import constants, fit
from alignkit.search.recorded_target import recorded_target
from tests.photos import encoded, whole_photo
from tests.stacks import samples_of

SIDE = 48
PILLOW = {"decoders": ("pillow",), "resizers": ("pillow",)}
RGB_MEAN = 255 * np.array(IMAGENET_MEAN)
RGB_STD = 255 * np.array(IMAGENET_STD)
MADE = {
    "(x - 128) / 128": (128, 128, "(x - 128) / 128"),
    "(x - 127.5) / 128": (127.5, 128, "(x - 127.5) / 128"),
    "(x - 127) / 128": (127, 128, "(x - 127) / 128"),
    "(x - 127.5) / 127.5": (127.5, 127.5, "-1..1"),
    "(x - 128) / 127": (128, 127, ""),
    "(x - 127.4) / 127.5": (127.4, 127.5, ""),
    "x / 256": (0, 256, "x / 256"),
    "x / 254": (0, 254, ""),
    "x / 255": (0, 255, "0..1"),
    "x - 128": (128, 1, ""),
    "ImageNet": (RGB_MEAN, RGB_STD, "ImageNet mean and std"),
    "ImageNet, of BGR": (RGB_MEAN[::-1], RGB_STD[::-1], "ImageNet mean and std, channels reversed"),
    "of levels": ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375], "ImageNet mean and std"),
    "one std of 0.226": (RGB_MEAN, 0.226 * 255, ""),
    "std to 2 digits": (RGB_MEAN, 255 * np.array([0.23, 0.22, 0.23]), ""),
    "std a little off": (RGB_MEAN, 255 * np.array([0.2291, 0.2241, 0.2249]), ""),
    "mean to 2 digits": (255 * np.array([0.49, 0.46, 0.41]), RGB_STD, ""),
    "mean of 123.68": ([123.68, 116.779, 103.939], RGB_STD, ""),
    "caffe": ([103.939, 116.779, 123.68], 1,
              "ImageNet mean subtracted from grey levels, channels reversed"),
    "caffe, whole": ([123, 117, 104], 1, "123, 117, 104 subtracted from grey levels"),
    "caffe, 103.53": ([103.53, 116.28, 123.675], 1, ""),
}  # fmt: skip
"""Stack → mean and std in grey levels, and the name of exactly these."""


def squashed(data: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    return np.asarray(image.resize((SIDE, SIDE), Image.BILINEAR))


def normalised(levels: np.ndarray, mean, std) -> np.ndarray:
    return ((levels - np.float32(mean)) / np.float32(std)).astype(np.float32)


def photographs(count: int = 6):
    china, flower = whole_photo("china"), whole_photo("flower")
    cuts = [
        (china, flower)[n % 2][20 * n : 20 * n + 150, 40 * n : 40 * n + 170] for n in range(count)
    ]
    return samples_of([encoded(each, "PNG") for each in cuts])


@cache
def squashed_photographs() -> np.ndarray:
    samples = photographs()
    return np.concatenate([squashed(samples.read(row)).reshape(-1, 3) for row in range(6)])


def searched(folder, samples, tensor) -> Match:
    for row, name in enumerate(samples.ids):
        np.save(folder / name.replace(".jpg", ".npy"), tensor(samples.read(row)))
    target, rows = recorded_target(folder, samples, **PILLOW)
    return match(target, samples, rows, configurations(target.geometry, **PILLOW))


def in_levels(normalise: Normalise) -> np.ndarray:
    return 255 * np.array([normalise.mean, normalise.std])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name, (_, std, _) in MADE.items()
        for dtype in (np.float32, np.float64, np.float16)
        # float16 rounds numbers of hundreds to an eighth, and moves the mean by that
        if dtype != np.float16 or np.min(std) > 1
    ],
)
def test_a_known_name_is_given_to_its_own_constants_alone(name, dtype):
    mean, std, known = MADE[name]
    ours = squashed_photographs()
    tensors = normalised(ours, mean, std).astype(dtype).astype(np.float64)
    pixels = ours.astype(np.float64)
    shown = constants(pixels, tensors, fit(pixels, tensors))
    assert shown.name == known
    expected = np.stack([np.broadcast_to(np.float64(each), 3) for each in (mean, std)])
    near = 0.02 if dtype == np.float16 else 2e-4
    assert np.allclose(in_levels(shown.normalise), expected, atol=near, rtol=0)


def test_a_few_pixels_that_are_far_off_hide_no_known_constants():
    rng, pixels = np.random.default_rng(0), np.random.default_rng(1).uniform(0, 255, (9000, 3))
    off = pixels + 3.0 * (rng.uniform(size=pixels.shape) < 0.02)
    for mean, std, name in ((127.5, 128, "(x - 127.5) / 128"), (128, 128, "(x - 128) / 128")):
        tensors = (off - mean) / std
        assert constants(pixels, tensors, fit(pixels, tensors)).name == name


def test_pixels_that_are_off_by_more_give_the_nearest_known_as_undecided():
    rng, pixels = np.random.default_rng(0), np.random.default_rng(1).uniform(0, 255, (9000, 3))
    tensors = (pixels + rng.normal(0.4, 1.0, pixels.shape) - 127.5) / 127.5
    shown = constants(pixels, tensors, fit(pixels, tensors))
    assert (shown.name, shown.decided) == ("-1..1", False)


@pytest.mark.parametrize("name", ["(x - 128) / 128", "std a little off", "caffe"])
def test_the_search_finds_the_constants_of_the_code(tmp_path, name):
    mean, std, known = MADE[name]
    order = -1 if name == "caffe" else 1
    tensor = lambda data: normalised(squashed(data)[..., ::order], mean, std)  # noqa: E731
    found = searched(tmp_path, photographs(), tensor)
    assert found.state == "found", headline(found, {})
    assert found.named.identical == found.images
    assert any(f"normalisation: {known or 'none that is known'} (" in each for each in found.facts)
    # what it would paste gives the tensors
    for row in range(2):
        data = photographs().read(row)
        ours = found.block.normalise(found.block.taps(data).last)
        assert np.allclose(ours, tensor(data).transpose(2, 0, 1), atol=2e-5 * 255 / np.max(std))


@pytest.mark.parametrize("reverse", [False, True])
def test_grey_images_cannot_tell_an_order_and_nothing_says_not_found(tmp_path, reverse):
    grey = [np.repeat(whole_photo("china")[9 * n : 9 * n + 90, :110, 1:2], 3, 2) for n in range(5)]
    samples = samples_of([encoded(each, "PNG") for each in grey])
    tensor = lambda data: normalised(  # noqa: E731
        squashed(data)[..., :: -1 if reverse else 1], RGB_MEAN, RGB_STD
    )
    found = searched(tmp_path, samples, tensor)
    assert found.state == "found", headline(found, {})
    assert "channel order: cannot be told, taken as RGB: all images are grey" in found.facts
    assert not any("not found" in each for each in found.facts)


@pytest.mark.parametrize("at", [0, 11, 19])
@pytest.mark.parametrize("order", [1, -1])
def test_one_image_with_colours_among_grey_ones_tells_the_order(tmp_path, at, order):
    china = whole_photo("china")
    files = [np.repeat(china[5 * n : 5 * n + 90, :110, 1:2], 3, 2) for n in range(20)]
    files[at] = china[100:220, 60:200]
    samples = samples_of([encoded(each, "PNG") for each in files])
    tensor = lambda data: normalised(squashed(data)[..., ::order], RGB_MEAN, RGB_STD)  # noqa: E731
    found = searched(tmp_path, samples, tensor)
    assert found.state == "found", headline(found, {})
    (said,) = [each for each in found.facts if each.startswith("channel order: ")]
    assert said.startswith(f"channel order: {'RGB' if order == 1 else 'BGR'} (residual ")
