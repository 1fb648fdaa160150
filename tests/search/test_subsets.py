"""Stacks that are another one on a few images, or on all by a little: never found, and so said.

They are written with Pillow and NumPy alone; the counts are those of a comparison with Pillow's own
resize of the same files.
"""

import io

import numpy as np
import pytest
from PIL import Image, ImageFilter

from alignkit.compare.image_groups import ImageGroups, image_groups
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.match_result import Match
from alignkit.search.match_text import as_json, headline, paste
from alignkit.search.recorded_target import recorded_target
from tests.search.serving_stacks import SIDE, opened, whole
from tests.search.test_serving_stacks import upright

ONLY = {"decoders": ("opencv", "simplejpeg"), "resizers": ("opencv", "pillow")}


def resized(image: Image.Image) -> np.ndarray:
    return np.asarray(image.resize((SIDE, SIDE), Image.BILINEAR))


def plain(data: bytes) -> np.ndarray:
    return resized(opened(data))


def drafted(data: bytes) -> np.ndarray:
    """JPEG's own halves, quarters or eighths: of images of twice the size or more."""
    image = Image.open(io.BytesIO(data))
    image.draft("RGB", (SIDE, SIDE))
    return resized(image.convert("RGB"))


def reduced(data: bytes) -> np.ndarray:
    image = opened(data)
    return resized(image.reduce(2) if min(image.size) > 210 else image)


def again(data: bytes, kind: str, quality: int) -> np.ndarray:
    file = io.BytesIO()
    opened(data).save(file, kind, quality=quality)
    return plain(file.getvalue())


def two_steps(data: bytes) -> np.ndarray:
    return resized(opened(data).resize((128, 128), Image.BILINEAR))


def of_some(change):
    """Apply a change to two of the images."""
    some = [upright().read(row) for row in (3, 9)]
    return lambda data: change(plain(data)) if data in some else plain(data)


SUBSETS = {
    "draft": drafted,
    "reduce": reduced,
    "two of them BGR": of_some(lambda image: image[..., ::-1]),
    "two of them mirrored": of_some(lambda image: image[:, ::-1]),
    "two of them grey": of_some(lambda image: np.repeat(image[..., 1:2], 3, axis=2)),
    "two of them shifted by a pixel": of_some(lambda image: np.roll(image, 1, axis=1)),
}
OTHERS = {
    "JPEG again, quality 90": lambda data: again(data, "JPEG", 90),
    "JPEG again, quality 95": lambda data: again(data, "JPEG", 95),
    "JPEG again, quality 100": lambda data: again(data, "JPEG", 100),
    "WebP, quality 95": lambda data: again(data, "WEBP", 95),
    "resized twice": two_steps,
    "gamma 1.02": lambda data: whole(255 * (plain(data) / 255) ** (1 / 1.02)),
    "a little sharper": lambda data: np.asarray(
        Image.fromarray(plain(data)).filter(ImageFilter.UnsharpMask(1, 10, 0))
    ),
    "noise of one level": lambda data: whole(
        plain(data) + np.random.default_rng(len(data)).normal(0, 1, (SIDE, SIDE, 3))
    ),
}
QUICK = ("draft", "two of them BGR", "JPEG again, quality 90", "gamma 1.02")


def cases(stacks):
    return [
        each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in stacks
    ]


def searched(folder, stack, samples) -> Match:
    for row, name in enumerate(samples.ids):
        array = np.ascontiguousarray(stack(samples.read(row)), np.uint8)
        np.save(folder / name.replace(".jpg", ".npy"), array)
    target, rows = recorded_target(folder, samples, **ONLY)
    found = match(target, samples, rows, configurations(target.geometry, **ONLY))
    print(headline(found, {}))
    return found


@pytest.mark.parametrize("name", cases(SUBSETS))
def test_images_that_differ_are_counted_and_one_is_named(tmp_path, name):
    samples = upright()
    stack = SUBSETS[name]
    apart = {
        image: float(np.abs(stack(data).astype(float) - plain(data)).mean())
        for image, data in ((each, samples.read(row)) for row, each in enumerate(samples.ids))
    }
    far = [each for each in apart.values() if each]
    found = searched(tmp_path, stack, samples)
    assert found.state != "found"
    groups = found.named.groups
    assert (groups.near, groups.near_most, groups.far) == (len(apart) - len(far), 0.0, len(far))
    assert groups.far_most == pytest.approx(max(far))
    assert groups.far_least == pytest.approx(min(far))
    assert found.named.worst == max(apart, key=apart.__getitem__)
    said = f"of {len(apart)}\xa0images, {groups.near} are equal, {groups.far} differ by "
    assert said in headline(found, {})
    assert found.named.worst in headline(found, {})
    if block := paste(found, "matched"):
        assert block.startswith(f"# near, not the same: {found.remains:.3f}")
        assert said in block
    assert as_json(found, {})["groups"]["far"] == len(far)


@pytest.mark.parametrize("name", cases(OTHERS))
def test_a_stack_that_equals_no_image_is_not_found_and_names_no_decoder(tmp_path, name):
    found = searched(tmp_path, OTHERS[name], upright())
    assert found.state in ("near", "not found")
    assert found.winner.identical == 0
    assert "of 13\xa0images, none is equal" in headline(found, {})
    if block := paste(found, "matched"):
        # the file's own decoder, which every other one of the block would have to explain
        assert "decode: {name: opencv}" in block
        assert "no decoder explains most of it" in block


@pytest.mark.parametrize(
    ("images", "groups"),
    [
        ({0.0: 149, 13.0: 1}, ImageGroups(149, 0.0, 1, 13.0, 13.0)),
        ({0.0: 7, 1.5: 1, 2.2: 1, 3.1: 1}, ImageGroups(7, 0.0, 3, 1.5, 3.1)),
        ({0.01: 30, 0.06: 25, 8.0: 3, 26.0: 3}, ImageGroups(55, 0.06, 6, 8.0, 26.0)),
        (
            {0.4: 5, 0.7: 5, 9.0: 2},
            ImageGroups(10, 0.7, 2, 9.0, 9.0),
        ),  # decoders, and one thing more
        ({0.0: 5, 2.0: 5}, ImageGroups(5, 0.0, 5, 2.0, 2.0)),
        ({0.0: 3, 1.1: 9}, ImageGroups(3, 0.0, 9, 1.1, 1.1)),
        ({0.0: 12}, None),
        ({1.0: 3, 1.9: 4, 3.0: 3, 6.0: 1}, None),  # one distribution
        ({0.0: 8, 0.2: 4}, None),  # rounding
        ({0.1: 1, 3.0: 9}, None),  # one flat image: the mean is that of the others
        ({}, None),
    ],
)
def test_few_images_far_beyond_all_others_are_a_group(images, groups):
    assert image_groups(images) == groups
