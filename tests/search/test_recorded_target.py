"""From tensors alone: what they are, and which configuration made them."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.decoders import Decoded
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import DataError
from alignkit.findings.stage_yaml import stage_block
from alignkit.preprocess import Colour, Crop, Preprocess, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.resizers.torchpipe import TorchpipeResizer
from alignkit.search import match
from alignkit.search.configurations import configurations
from alignkit.search.first_images import first_images
from alignkit.search.match_result import Match
from alignkit.search.recolouring import MISREADINGS, recoloured
from alignkit.search.recorded_target import _read_recorded, recorded_target
from alignkit.search.stored_tensors import stored_tensors
from tests.photos import encoded
from tests.search.test_search import BASE, RESIZERS, photographs
from tests.stacks import samples_of

ONLY = {"decoders": BASE, "resizers": RESIZERS}
LEVELS = Normalise((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255))
TORCHPIPE = Preprocess(
    "torchpipe tensors",
    SimpleJPEGDecoder(chroma="nearest"),
    Resize(TorchpipeResizer("tensor"), (96, 96)),
)


def record(folder, path: Preprocess, arrange=lambda tensor: tensor) -> None:
    """What the stack would have stored: a tensor for each image, named as it."""
    samples = photographs()
    for row, name in enumerate(samples.ids):
        tensor = path.normalise(path.taps(samples.read(row)).last)
        np.save(folder / name.replace(".jpg", ".npy"), arrange(tensor))


def found_from(folder) -> Match:
    samples = photographs()
    target, rows = recorded_target(folder, samples, **ONLY)
    return match(target, samples, rows, configurations(target.geometry, **ONLY))


def fact(found: Match, kind: str) -> str:
    (line,) = [each for each in found.facts if each.startswith(f"{kind}: ")]
    return line


def test_torchpipe_s_tensor_path_is_found_with_its_chroma_switch(tmp_path):
    record(tmp_path, TORCHPIPE)
    found = found_from(tmp_path)
    winner = found.winner.configurations[0]
    assert winner.decode == SimpleJPEGDecoder(chroma="nearest")
    assert winner.resizer == TorchResizer(align_corners=True)
    assert winner.rounding == "none"
    assert TorchpipeResizer("tensor") in {each.resizer for each in found.winner.configurations}
    assert found.winner.identical == found.images
    assert found.winner.unseen_identical == found.unseen
    assert "float32 (3, 96, 96), read as CHW" in fact(found, "tensors")
    assert "ImageNet mean and std" in fact(found, "normalisation")


@pytest.mark.parametrize(
    ("arrange", "normalise", "named"),
    [
        (lambda t: t.astype(np.float16), Normalise(), "ImageNet mean and std"),
        (lambda t: np.moveaxis(t, 0, -1), Normalise((0.5,) * 3, (0.5,) * 3), "-1..1"),
        (lambda t: t[None].astype(np.float64), Normalise((0.0,) * 3, (1.0,) * 3), "0..1"),
        (lambda t: np.moveaxis(np.rint(t), 0, -1).astype(np.uint8), LEVELS, "none, grey levels"),
        (lambda t: t, Normalise((0.4, 0.5, 0.3), (0.3, 0.25, 0.2)), "none that is known"),
    ],
)
def test_layout_range_and_normalisation_are_found(tmp_path, arrange, normalise, named):
    path = Preprocess("cv", OpenCVDecoder(), Resize(OpenCVResizer(), (96, 96)), normalise=normalise)
    record(tmp_path, path, arrange)
    found = found_from(tmp_path)
    assert named in fact(found, "normalisation")
    assert found.winner.configurations[0].resizer == OpenCVResizer()
    assert found.winner.identical == found.images
    assert np.allclose(found.preprocesses[0].normalise.mean, normalise.mean, atol=2e-3)
    assert np.allclose(found.preprocesses[0].normalise.std, normalise.std, atol=2e-3)


def test_swapped_channels_are_said_to_be_swapped_and_stand_in_the_yaml(tmp_path):
    swapped = Preprocess(
        "bgr", OpenCVDecoder(), Resize(OpenCVResizer(), (96, 96)), colour=Colour("bgr")
    )
    record(tmp_path, swapped)
    found = found_from(tmp_path)
    assert fact(found, "channel order").startswith(
        "channel order: BGR (residual <0.001 levels; explains "
    )
    assert found.winner.identical == found.images
    assert stage_block(found.preprocesses[0])["colour"] == "bgr"


class ReadAsBT709:
    """By ITU-R BT.709's own equations from Pillow's YCbCr, and not by alignkit's matrices."""

    orients = False

    def decode(self, encoded: bytes) -> Decoded:
        image = OpenCVDecoder().decode(encoded).image
        luma, blue, red = np.moveaxis(
            np.asarray(Image.fromarray(image).convert("YCbCr"), np.float64), -1, 0
        )
        blue, red = blue - 128, red - 128
        green = luma - (0.2126 * 1.5748 * red + 0.0722 * 1.8556 * blue) / 0.7152
        colours = np.stack([luma + 1.5748 * red, green, luma + 1.8556 * blue], axis=-1)
        return Decoded("ok", np.clip(np.rint(colours), 0, 255).astype(np.uint8))


def test_colours_read_by_another_matrix_are_said_to_be(tmp_path):
    path = Preprocess("video", ReadAsBT709(), Resize(OpenCVResizer(), (96, 96)))
    record(tmp_path, path)
    found = found_from(tmp_path)
    assert "BT.709 in place of the BT.601 that JPEG files are written with" in fact(found, "colour")
    assert (
        found.winner.mean_abs.value < 0.8
    )  # Pillow's YCbCr is rounded, ours is not, and the normalisation is a known one


def test_a_round_trip_through_nv12_is_found(tmp_path):
    path = Preprocess(
        "video",
        OpenCVDecoder(),
        Resize(PillowResizer(), (96, 96)),
        colour=Colour("nv12-bt709-limited"),
    )
    record(tmp_path, path)
    found = found_from(tmp_path)
    assert "round trip through nv12-bt709-limited" in fact(found, "colour")
    assert found.winner.identical == found.images


@pytest.mark.parametrize(
    ("rounding", "half", "said"),
    [
        ("floor", "even", "shorter side to 110, centre crop 96x96"),
        ("nearest", "down", "shorter side to 110, the longer by nearest, centre crop 96x96"),
    ],
)
def test_a_centre_crop_of_the_shorter_side_is_found(tmp_path, rounding, half, said):
    path = Preprocess(
        "eval",
        OpenCVDecoder(),
        Resize(PillowResizer(), (110, 110), "shorter", rounding=rounding),
        crop=Crop((96, 96), half),
    )
    record(tmp_path, path)
    found = found_from(tmp_path)
    assert said in fact(found, "geometry")
    assert found.winner.identical == found.images


def test_a_letterbox_is_found_with_its_border(tmp_path):
    path = Preprocess("yolo", OpenCVDecoder(), Resize(OpenCVResizer(), (96, 96), "letterbox", 0))
    record(tmp_path, path)
    found = found_from(tmp_path)
    assert "letterbox to 96x96, border 0" in fact(found, "geometry")
    assert found.winner.identical == found.images


def test_one_archive_of_all_tensors_is_as_good_as_a_file_for_each(tmp_path):
    record(tmp_path, TORCHPIPE)
    files = sorted(tmp_path.glob("*.npy"))
    np.savez(tmp_path / "all.npz", **{file.stem: np.load(file) for file in files})
    for file in files:
        file.unlink()
    target, rows = recorded_target(tmp_path, photographs(), **ONLY)
    assert len(rows) == len(files)
    assert target.geometry.size == (96, 96)


def test_an_entry_that_changed_is_refused(tmp_path):
    file = tmp_path / "all.npz"
    np.savez(file, a=np.ones((3, 4, 4)), b=np.ones((3, 4, 4)))
    tensors, content = stored_tensors(tmp_path), bytearray(file.read_bytes())
    content[tensors["b.npy"].entry.header_offset] ^= 1
    content[200] ^= 1  # within the numbers of a
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"all.npz, a.npy holds no tensor: Bad CRC-32"):
        tensors["a.npy"].read()
    with pytest.raises(DataError, match=r"all.npz, b.npy holds no tensor: the archive changed"):
        tensors["b.npy"].read()


@pytest.mark.parametrize("other", ["more.npz", "0.npy"])
def test_two_tensors_of_one_name_are_refused_with_both_files(tmp_path, other):
    np.savez(tmp_path / "all.npz", **{"0": np.ones((3, 4, 4))})
    if other == "0.npy":
        np.save(tmp_path / other, np.zeros((3, 4, 4)))
    else:
        np.savez(tmp_path / other, **{"0": np.zeros((3, 4, 4))})
    with pytest.raises(
        DataError, match=r"two tensors have the name 0.npy, in .*; keep one"
    ) as told:
        stored_tensors(tmp_path)
    assert "all.npz" in str(told.value)
    assert other in str(told.value)


def test_flat_images_leave_their_places_to_others(tmp_path):
    flat = encoded(np.full((40, 40, 3), 90, np.uint8))
    photos = {2: photographs().read(0), 5: photographs().read(2)}
    samples = samples_of([photos.get(row, flat) for row in range(12)])
    for row in range(12):
        np.save(tmp_path / f"{row}.npy", np.zeros((3, 16, 16), np.float32))
    first = first_images(_read_recorded(tmp_path, samples), samples)
    assert first.rows == (2, 5)
    assert not first.grey


def test_no_image_is_decoded_in_the_calling_process(tmp_path, monkeypatch):
    record(tmp_path, TORCHPIPE, lambda tensor: tensor[[0, 0, 0]])
    # its workers are forked before this
    monkeypatch.setattr(OpenCVDecoder, "decode", lambda *_: pytest.fail("decoded here"))
    target, _ = recorded_target(tmp_path, photographs(), **ONLY)
    assert any(str(each).startswith("channel order: none") for each in target.facts)


def test_a_decoder_that_turns_images_does_so_when_it_is_recoloured_too():
    class Turning(ReadAsBT709):
        orients = True

    assert recoloured(Turning(), MISREADINGS[0]).orients
    assert not recoloured(ReadAsBT709(), MISREADINGS[0]).orients


def test_tensors_of_other_images_are_counted_and_left_alone(tmp_path):
    record(tmp_path, TORCHPIPE)
    (tmp_path / "0.npy").rename(tmp_path / "stranger.npy")
    target, rows = recorded_target(tmp_path, photographs(), **ONLY)
    assert len(rows) == 14
    assert "other images: 1 tensors belong to none of ours" in target.facts
    assert "14 of 15 images have one" in target.facts[0]


def spoil(folder, change) -> None:
    for file in folder.glob("*.npy"):
        np.save(file, change(np.load(file), file.stem))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, name: t[:2], "are no RGB images; expected"),
        (lambda t, name: t if name != "3" else t[:, :50], "different shapes"),
        (lambda t, name: t * 0, "the tensors are constant"),
        (lambda t, name: t * np.nan, "its tensor holds NaN or infinity"),
    ],
)
def test_tensors_that_are_no_images_are_refused_with_what_was_found(tmp_path, change, message):
    record(tmp_path, TORCHPIPE)
    spoil(tmp_path, change)
    with pytest.raises(DataError, match=message):
        recorded_target(tmp_path, photographs(), **ONLY)


def test_a_folder_without_tensors_of_these_images_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"holds no \.npy"):
        recorded_target(tmp_path, photographs())
    np.save(tmp_path / "stranger.npy", np.zeros((3, 8, 8)))
    with pytest.raises(DataError, match="has the name of one of 15 images"):
        recorded_target(tmp_path, photographs())


@pytest.mark.slow
def test_on_real_photographs_torchpipe_s_tensor_path_is_found(tmp_path, shared_data):
    from alignkit.datasets.unlabelled_images import Images

    samples = Images(shared_data / "photos").evaluation()
    path = replace(TORCHPIPE, resize=replace(TORCHPIPE.resize, size=(224, 224)))
    for row, name in enumerate(samples.ids):
        tensor = path.normalise(path.taps(samples.read(row)).last)
        np.save(tmp_path / name.replace(".jpg", ".npy"), tensor)
    target, rows = recorded_target(tmp_path, samples, **ONLY)
    found = match(target, samples, rows, configurations(target.geometry, **ONLY))
    winner = found.winner.configurations[0]
    assert (winner.decode, winner.resizer, winner.rounding) == (
        SimpleJPEGDecoder(chroma="nearest"),
        TorchResizer(align_corners=True),
        "none",
    )
    assert found.holds
