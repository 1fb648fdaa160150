"""The pixels of a stage that a page shows are those that the path itself gives."""

import json
from dataclasses import replace

import numpy as np
import pytest

from alignkit.compare.shown_stages import CROP, ImageTaker
from alignkit.decoders.exif import turn
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.preprocess import Crop, Orient, Resize
from alignkit.resizers.torch import TorchResizer
from tests.packed import unpack_pair
from tests.photos import encoded, exif, photo
from tests.stacks import REFERENCE, changed, opencv, samples_of

FILES = [encoded(photo("flower", 150, 260), quality=85, subsampling="4:2:0")]
NEAREST = changed("decode")
SMALL = Resize(TorchResizer("bilinear"), (32, 32))


def shown(folder, candidate=NEAREST, reference=REFERENCE, files=FILES, **options):
    samples = samples_of(files)
    return ImageTaker(reference, candidate, samples, folder, **options).show(samples.ids)


def stages_of(image):
    return {each.stage: each for each in image.stages}


def pixels(folder, artifact):
    text = (folder / artifact.path).read_text()
    return unpack_pair(json.loads(text[text.index("]=") + 2 : -2]))


def test_every_stage_holds_both_paths_own_pixels(tmp_path):
    (image,) = shown(tmp_path)
    taps = [path.taps(FILES[0]).pixels for path in (REFERENCE, NEAREST)]
    for name in ("decode", "resize"):
        stage = stages_of(image)[name]
        assert stage.state == "whole"
        for found, path in zip(pixels(tmp_path, stage.pixels), taps, strict=True):
            assert found.dtype == path[name].dtype
            assert np.array_equal(found, path[name])
    for found, path in zip(pixels(tmp_path, image.pixels), taps, strict=True):
        assert np.array_equal(found, path["colour"])


def test_equal_pixels_cost_no_bytes_and_are_said_to_be_equal(tmp_path):
    (image,) = shown(tmp_path, changed("resize"))
    decode = stages_of(image)["decode"]
    assert (decode.state, decode.pixels, decode.a, decode.b) == (
        "identical", None, (260, 150), (260, 150),
    )  # fmt: skip


def test_a_resize_that_nothing_follows_is_the_file_of_the_last_pixels(tmp_path):
    path = opencv()
    (image,) = shown(tmp_path, replace(path, name="b", decode=NEAREST.decode), path, most=1)
    assert stages_of(image)["resize"].pixels == image.pixels


def test_a_crop_holds_the_worst_block_on_the_grid_of_the_file(tmp_path):
    (image,) = shown(tmp_path, most=60_000)
    stage = stages_of(image)["decode"]
    assert stage.state == "crop"
    assert (stage.x % 32, stage.y % 32) == (0, 0)
    a, b = (path.taps(FILES[0]).pixels["decode"] for path in (REFERENCE, NEAREST))
    window = np.s_[stage.y : stage.y + CROP, stage.x : stage.x + CROP]
    for found, whole in zip(pixels(tmp_path, stage.pixels), (a, b), strict=True):
        assert np.array_equal(found, whole[window])
    blocks = {
        (y, x): np.abs(b[y : y + 8, x : x + 8].astype(float) - a[y : y + 8, x : x + 8]).mean()
        for y in range(0, 150, 8)
        for x in range(0, 260, 8)
    }
    y, x = max(blocks, key=blocks.__getitem__)
    assert stage.y <= y < y + 8 <= stage.y + CROP or y + 8 > 150
    assert stage.x <= x < x + 8 <= stage.x + CROP or x + 8 > 260


def test_the_stages_of_all_images_keep_within_the_limit(tmp_path):
    files = [encoded(photo("flower", 150, 260 + n), quality=85) for n in range(6)]
    images = shown(tmp_path, files=files, most=300_000)
    kept = {each.pixels.path for image in images for each in image.stages if each.pixels} - {
        image.pixels.path for image in images
    }
    assert sum((tmp_path / path).stat().st_size for path in kept) <= 300_000
    states = [stages_of(image)["decode"].state for image in images]
    assert states[0] == "whole"
    assert states[-1] == "left out"
    assert "crop" in states


def test_stages_of_two_sizes_are_kept_as_they_are(tmp_path):
    larger = replace(
        REFERENCE,
        name="larger",
        resize=Resize(TorchResizer("bilinear"), (48, 48)),
        crop=Crop((32, 32)),
    )
    (image,) = shown(tmp_path, larger)
    stage = stages_of(image)["resize"]
    assert (stage.a, stage.b, stage.state) == ((40, 40), (48, 48), "whole")
    a, b = pixels(tmp_path, stage.pixels)
    assert (a.shape, b.shape) == ((40, 40, 3), (48, 48, 3))


@pytest.mark.parametrize(
    ("subsampling", "mcu"), [("4:2:0", (16, 16)), ("4:2:2", (16, 8)), ("4:4:4", (8, 8))]
)
def test_the_mcu_is_that_of_the_file(tmp_path, subsampling, mcu):
    file = encoded(photo(), subsampling=subsampling)
    (image,) = shown(tmp_path, changed("resize"), files=[file])
    assert stages_of(image)["decode"].mcu == mcu
    assert stages_of(image)["resize"].mcu is None


def test_a_file_without_blocks_has_no_grid(tmp_path):
    smooth = opencv(name="smooth", resize=SMALL)
    (image,) = shown(tmp_path, smooth, opencv(), [encoded(photo(), "PNG")])
    assert stages_of(image)["decode"].mcu is None


def test_a_decoder_s_own_turn_is_undone_so_that_blocks_lie_as_in_the_file(tmp_path):
    pytest.importorskip("torchpipe", reason="torchpipe is not installed")
    file = encoded(photo(), subsampling="4:2:0", exif=exif(6))
    turning = opencv(name="turning", decode=TorchpipeDecoder())
    (image,) = shown(
        tmp_path, turning, opencv(decode=NEAREST.decode, orient=Orient("exif")), [file]
    )
    stage = stages_of(image)["decode"]
    assert (stage.a, stage.b, stage.mcu) == ((97, 61), (97, 61), (16, 16))
    found = pixels(tmp_path, stage.pixels)[1]
    assert np.array_equal(turn(found, 6), turning.taps(file).decoded.image)


def test_an_image_that_is_shown_for_two_reasons_has_its_stages_twice(tmp_path):
    samples = samples_of(FILES)
    taker = ImageTaker(REFERENCE, NEAREST, samples, tmp_path)
    (image,) = taker.show(samples.ids)
    bare = image.model_copy(update={"stages": ()})
    assert taker.with_stages([bare, bare]) == (image, image)
