"""Images whose size in the model's input follows from their own: Ultralytics' minimal rectangle."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.prepare import Preparation, prepare
from alignkit.preprocess import Crop, Orient, Preprocess, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.workspace import Workspace
from tests.photos import encoded, exif, photo
from tests.stacks import opencv, samples_of

RECT = Resize(OpenCVResizer(), (128, 128), "letterbox", auto=True)
UINT8 = Preprocess("rect", OpenCVDecoder(), RECT)
PATHS = {
    "uint8": UINT8,
    "float32": replace(UINT8, resize=replace(RECT, resizer=TorchResizer())),
    "oblong": replace(UINT8, resize=replace(RECT, size=(96, 192), stride=64)),
}
SHAPES = [(61, 97), (61, 97), (97, 61), (100, 100), (61, 97), (33, 500), (33, 510)]


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "reports")


def photos(*, broken: tuple[int, ...] = ()):
    files = [encoded(photo("china", *shape), quality=90) for shape in SHAPES]
    return samples_of([b"no image" if i in broken else each for i, each in enumerate(files)])


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_each_image_is_that_of_the_stages_in_its_own_size(path, workspace):
    samples = photos(broken=(2,))
    prepared = prepare(samples, path, workspace, split="eval")
    for index in prepared.decoded.tolist():
        expected = path.taps(samples.read(index)).last
        np.testing.assert_array_equal(prepared.image(index), expected)
        assert prepared.image(index).dtype == expected.dtype
        batch = prepared.batch([index], path.normalise)
        np.testing.assert_array_equal(batch, path.normalise(expected)[None])
        (place,) = prepared.places([index], path)
        assert (place.input_height, place.input_width) == batch.shape[2:]
    assert prepared.pixels.shape == (6, *path.size, 3)
    assert len({prepared.image(index).shape for index in prepared.decoded}) > 1
    assert prepared.sizes[2].tolist() == [-1, -1]


def test_batches_are_neighbours_of_one_size_in_order(workspace):
    prepared = prepare(photos(), UINT8, workspace, split="eval")
    sizes = [prepared.image(index).shape[:2] for index in range(7)]
    assert sizes == [(96, 128)] * 2 + [(128, 96), (128, 128), (96, 128)] + [(32, 128)] * 2
    everything = range(7)
    assert prepared.spans(everything, 8) == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 7)]
    assert prepared.spans(everything, 1) == [(index, index + 1) for index in range(7)]
    assert prepared.spans([0, 1, 4], 2) == [(0, 2), (2, 3)]
    assert prepared.spans([], 2) == []
    for start, stop in prepared.spans(everything, 8):
        together = prepared.batch(range(start, stop), Normalise())
        alone = [prepared.batch([index], Normalise()) for index in range(start, stop)]
        assert together.tobytes() == np.concatenate(alone).tobytes()


def test_images_of_one_size_are_cut_at_the_batch_size_only(workspace):
    prepared = prepare(photos(), opencv(), workspace, split="eval")
    assert prepared.sizes is None
    assert prepared.spans(range(7), 3) == [(0, 3), (3, 6), (6, 7)]


def test_images_of_several_sizes_are_no_batch(workspace):
    prepared = prepare(photos(), UINT8, workspace, split="eval")
    with pytest.raises(ValueError, match="images of 2 sizes are not one batch"):
        prepared.batch([0, 2], Normalise())


def test_the_files_are_the_same_for_any_number_of_workers(tmp_path):
    samples = photos(broken=(2,))
    hashes = set()
    for threads in (1, 3):
        workspace = Workspace(tmp_path / str(threads))
        prepare(samples, UINT8, workspace, split="eval", threads=threads)
        (finished,) = workspace.finished("prepared")
        hashes.add(tuple(sorted(finished.files.items())))
        for name, stored in finished.files.items():
            assert stored == hashlib.sha256((finished.folder / name).read_bytes()).hexdigest()
    assert len(hashes) == 1


@pytest.mark.parametrize("file", ["pixels.npy", "outcomes.json"])
def test_damaged_pixels_and_sizes_are_noticed_and_made_again(file, workspace, caplog):
    samples = photos()
    before = np.array(prepare(samples, UINT8, workspace, split="eval").pixels)
    folder = workspace.stored("prepared", Preparation(UINT8, "eval", samples.fingerprint).key)
    content = (folder / file).read_bytes()
    # a size that is another size, which no parser notices
    damaged = content[:-1] + bytes([content[-1] ^ 1])
    if file == "outcomes.json":
        damaged = content.replace(b"[96, 128]", b"[96, 127]", 1)
    assert damaged != content
    (folder / file).write_bytes(damaged)
    again = prepare(samples, UINT8, Workspace(workspace.root), split="eval")
    np.testing.assert_array_equal(again.pixels, before)
    assert again.image(0).shape == (96, 128, 3)
    assert "is damaged and is made again" in caplog.text


@pytest.mark.parametrize("path", [UINT8, opencv()], ids=["rect", "squash"])
def test_a_mapping_to_another_path_of_equal_pixels_shares_the_files(path, workspace):
    samples = photos()
    prepare(samples, path, workspace, split="eval")
    prepare(samples, replace(path, name="other", normalise=Normalise()), workspace, split="eval")
    assert len(list(workspace.finished("prepared"))) == 1


def test_auto_is_other_work_and_its_stride_too():
    keys = {
        Preparation(replace(UINT8, resize=resize), "eval", "x").key
        for resize in (replace(RECT, auto=False), RECT, replace(RECT, stride=64))
    }
    assert len(keys) == 3


@pytest.mark.parametrize("decoder", [PillowDecoder(), TorchpipeDecoder()])
@pytest.mark.parametrize("policy", ["none", "exif"])
def test_places_are_those_of_the_upright_images(decoder, policy, workspace):
    upright = photo("flower", 61, 97)
    # a quarter turn to the right undoes orientation 8, one to the left undoes 6
    files = [
        encoded(upright, quality=90),
        encoded(np.rot90(upright), quality=90, exif=exif(6)),
        encoded(np.rot90(upright, -1), quality=90, exif=exif(8)),
    ]
    path = Preprocess(
        "path", decoder, Resize(OpenCVResizer(), (40, 40), "shorter"),
        orient=Orient(policy), crop=Crop((32, 32)),
    )  # fmt: skip
    prepared = prepare(samples_of(files), path, workspace, split="eval")
    assert prepared.sources.tolist() == [[97, 61, 1], [97, 61, 6], [97, 61, 8]]
    places = prepared.places([2, 0, 1], path)
    assert places == [path.geometry(97, 61, orientation) for orientation in (8, 1, 6)]


def test_a_sample_without_pixels_has_no_place(workspace):
    prepared = prepare(photos(broken=(1,)), UINT8, workspace, split="eval")
    with pytest.raises(IndexError, match="no place"):
        prepared.places([0, 1], UINT8)
