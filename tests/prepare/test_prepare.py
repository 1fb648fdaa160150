from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
import pytest
import torch

from alignkit.decoders import Decoded, digest_of
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.errors import (
    ConfigError,
    DataError,
    MissingDependency,
    NothingCompared,
    WorkspaceError,
)
from alignkit.prepare import Preparation, prepare, prepare_one
from alignkit.prepare.pixel_file import PixelFile
from alignkit.preprocess import Crop, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.workspace import Workspace
from tests.stacks import REFERENCE, changed, opencv, samples_of, turned_photos


def ended(prepared):
    return Counter(each.outcome for each in prepared.outcomes)


PATHS = {
    "uint8": opencv(),
    "float32": REFERENCE,
    "bgr-cropped": replace(changed("colour", "resize"), name="bgr-cropped"),
}
PATH_SOURCE = (
    "from alignkit.preprocess import Preprocess, Resize;"
    "from alignkit.decoders.opencv import OpenCVDecoder;"
    "from alignkit.resizers.opencv import OpenCVResizer;"
    "path = Preprocess('opencv', OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))"
)


def hash_of(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()


@dataclass(frozen=True, slots=True)
class CountingDecoder:
    """OpenCV's, writing down every call, as it is called in other processes."""

    log: str = os.devnull
    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        with Path(self.log).open("a") as file:
            file.write(f"{hash_of(encoded)}\n")
        return OpenCVDecoder().decode(encoded)

    def version(self) -> str:
        return "counting"


@dataclass(frozen=True, slots=True)
class ScriptedDecoder:
    """Does what the bytes say, after a while that differs from image to image."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        word, _, number = encoded.decode().partition(" ")
        time.sleep(int(number) * 7 % 5 / 1000)
        if word in ("failed", "unsupported"):
            return Decoded(word, reason=f"it is {word}")
        if word == "raises":
            raise RuntimeError("the library broke")
        image = np.full((64, 64, 3), int(number) % 256, np.uint8)
        return Decoded(word, image, "a warning" if word == "corrupt" else "")

    def version(self) -> str:
        return "scripted"


@dataclass(frozen=True, slots=True)
class FirstRefusingDecoder(ScriptedDecoder):
    """Refuses the first image until a file is there, as a library does until it is upgraded."""

    file: str = ""

    def decode(self, encoded: bytes) -> Decoded:
        if encoded == b"ok 0" and not Path(self.file).exists():
            return Decoded("failed", reason="not yet")
        return ScriptedDecoder().decode(encoded)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "reports")


def calls(path, samples) -> int:
    """How often the images were decoded; what else is, as a worker warms up, does not count."""
    ours = {hash_of(samples.read(index)) for index in range(len(samples))}
    return sum(each in ours for each in Path(path.decode.log).read_text().split())


@pytest.fixture
def counting(tmp_path):
    return opencv(decode=CountingDecoder(str(tmp_path / "calls")))


def scripted(*words: str):
    return samples_of([f"{word} {index}".encode() for index, word in enumerate(words)])


def parts_of(images: str, preprocess) -> dict:
    return Preparation(preprocess, "train", images).parts


def artefact(samples, preprocess, workspace) -> Path:
    return workspace.stored("prepared", Preparation(preprocess, "train", samples.fingerprint).key)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_pixels_are_those_of_the_stages_one_image_at_a_time(path, workspace):
    samples = turned_photos()
    prepared = prepare(samples, path, workspace, split="train")
    expected = [path.taps(samples.read(index)).last for index in range(len(samples))]
    np.testing.assert_array_equal(prepared.pixels, np.stack(expected))
    assert prepared.pixels.dtype == expected[0].dtype
    assert prepared.pixels.shape == (12, 32, 32, 3)
    assert prepared.rows.tolist() == list(range(12))
    assert prepared.decoded_ids == samples.ids


def test_an_opencv_path_equals_opencv_called_directly(workspace):
    samples = turned_photos()
    prepared = prepare(samples, opencv(), workspace, split="train")
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    for index in range(len(samples)):
        image = cv2.imdecode(np.frombuffer(samples.read(index), np.uint8), flags)
        resized = cv2.resize(image, (32, 32))[..., ::-1]
        np.testing.assert_array_equal(prepared.pixels[index], resized)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_many_threads_give_the_same_files_as_one(path, tmp_path):
    samples = samples_of([turned_photos().read(index % 12) for index in range(100)])
    written = []
    for threads in (1, 2, 7):
        workspace = Workspace(tmp_path / str(threads))
        prepare(samples, path, workspace, split="train", threads=threads)
        folder = artefact(samples, path, workspace)
        written.append(
            ((folder / "pixels.npy").read_bytes(), (folder / "outcomes.json").read_bytes())
        )
    assert written[0] == written[1] == written[2]


def test_rows_stay_in_order_when_images_take_different_times(workspace):
    samples = scripted(*["ok"] * 90)
    path = opencv(decode=ScriptedDecoder())
    prepared = prepare(samples, path, workspace, split="train", threads=8)
    assert prepared.pixels[:, 0, 0, 0].tolist() == list(range(90))


def test_every_outcome_is_kept_with_its_reason(workspace):
    samples = scripted("failed", "ok", "corrupt", "unsupported", "raises", "ok")
    prepared = prepare(samples, opencv(decode=ScriptedDecoder()), workspace, split="eval")
    assert [(each.outcome, each.reason) for each in prepared.outcomes] == [
        ("failed", "it is failed"),
        ("ok", ""),
        ("corrupt", "a warning"),
        ("unsupported", "it is unsupported"),
        ("failed", "RuntimeError: the library broke"),
        ("ok", ""),
    ]
    assert prepared.rows.tolist() == [-1, 0, 1, -1, -1, 2]
    assert prepared.pixels[:, 0, 0, 0].tolist() == [1, 2, 5]
    assert prepared.decoded_ids == ("1.jpg", "2.jpg", "5.jpg")
    assert ended(prepared) == {"ok": 2, "corrupt": 1, "failed": 2, "unsupported": 1}


def test_an_image_too_small_for_the_crop_fails_with_the_reason(workspace):
    path = opencv(
        decode=ScriptedDecoder(),
        resize=Resize(OpenCVResizer(), (30, 30), fit="shorter"),
        crop=Crop((32, 32)),
    )
    with pytest.raises(NothingCompared, match="cannot crop 32x32 out of 30x30"):
        prepare(scripted("ok"), path, workspace, split="train")


def test_a_second_call_decodes_nothing(workspace, counting):
    samples = turned_photos()
    first = prepare(samples, counting, workspace, split="train")
    assert calls(counting, samples) == 12
    second = prepare(samples, counting, workspace, split="train")
    assert calls(counting, samples) == 12
    np.testing.assert_array_equal(first.pixels, second.pixels)
    assert first.outcomes == second.outcomes


def test_paths_that_differ_in_name_or_normalise_share_the_pixels(workspace, counting):
    samples = turned_photos()
    prepare(samples, counting, workspace, split="train")
    other = replace(counting, name="other", normalise=Normalise((0, 0, 0), (1, 1, 1)))
    prepare(samples, other, workspace, split="train")
    assert calls(counting, samples) == 12


@pytest.mark.parametrize("stage", ["decode", "orient", "resize", "quantise", "colour"])
def test_a_changed_stage_is_other_work(stage):
    assert parts_of("x", changed(stage)) != parts_of("x", changed())


def test_parts_name_samples_versions_and_code_and_need_no_library():
    parts = parts_of("x", opencv())
    assert parts["samples"] == "x"
    assert parts["versions"]["decode"].startswith("opencv-python")
    assert len(parts["code"]) == 64
    assert parts_of("y", opencv()) != parts
    program = (
        f"{PATH_SOURCE}; import sys; from alignkit.prepare import Preparation;"
        "Preparation(path, 'train', 'x').key; print({'numpy', 'cv2', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_pixels_that_nobody_uses_are_not_read(workspace, counting):
    samples = turned_photos()
    before = prepare(samples, counting, workspace, split="train")
    flip_a_pixel(artefact(samples, counting, workspace))
    again = prepare(samples, counting, Workspace(workspace.root), split="train")
    assert (again.rows == before.rows).all()
    assert again.outcomes == before.outcomes
    assert calls(counting, samples) == 12


def flip_a_pixel(folder):
    file = folder / "pixels.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def truncate_pixels(folder):
    file = folder / "pixels.npy"
    file.write_bytes(file.read_bytes()[:-1])


def remove_pixels(folder):
    (folder / "pixels.npy").unlink()


def spoil_outcomes(folder):
    (folder / "outcomes.json").write_text('{"format": 1')


def name_other_samples(folder):
    file = folder / "outcomes.json"
    file.write_text(file.read_text().replace("3.jpg", "33.jpg"))


@pytest.mark.parametrize(
    "damage",
    [flip_a_pixel, truncate_pixels, remove_pixels, spoil_outcomes, name_other_samples],
)
def test_a_damaged_artefact_is_noticed_and_made_again(damage, workspace, counting, caplog):
    samples = turned_photos()
    before = np.array(prepare(samples, counting, workspace, split="train").pixels)
    damage(artefact(samples, counting, workspace))
    again = prepare(samples, counting, Workspace(workspace.root), split="train")
    np.testing.assert_array_equal(again.pixels, before)
    assert calls(counting, samples) == 2 * 12
    (message,) = caplog.messages
    assert message.startswith("prepare train on opencv: ")
    assert "is damaged and is made again" in message
    assert not list((workspace.root / ".cache" / "prepared").glob(".*"))


def test_pixels_made_again_with_other_outcomes_end_the_work_and_say_why(workspace, tmp_path):
    samples = scripted("ok", "ok")
    path = opencv(decode=FirstRefusingDecoder(file=str(tmp_path / "began")))
    prepared = prepare(samples, path, workspace, split="train")
    assert [each.outcome for each in prepared.outcomes] == ["failed", "ok"]
    remove_pixels(artefact(samples, path, workspace))
    (tmp_path / "began").touch()
    with pytest.raises(WorkspaceError, match=r"other outcomes than before; run the same command"):
        _ = prepared.pixels
    again = prepare(samples, path, workspace, split="train")
    assert len(again.pixels) == 2


def test_a_killed_run_leaves_nothing_that_counts_as_finished(tmp_path):
    program = (
        "import hashlib, sys, time\n"
        "from pathlib import Path\n"
        "from alignkit.prepare import prepare\n"
        "from alignkit.samples import Samples\n"
        "from alignkit.workspace import Workspace\n"
        f"{PATH_SOURCE}\n"
        "encoded = Path(sys.argv[1]).read_bytes()\n"
        "def read(index):\n"
        "    time.sleep(0.02)\n"
        "    return encoded\n"
        "ids = tuple(map(str, range(20_000)))\n"
        "samples = Samples(ids, (), (), read, 'f')\n"
        "prepare(samples, path, Workspace(Path(sys.argv[2])), split='train',\n"
        "        progress=lambda done, total: print(done, flush=True))\n"
    )
    (tmp_path / "image.jpg").write_bytes(turned_photos().read(0))
    worker = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "image.jpg"), str(tmp_path / "reports")],
        stdout=subprocess.PIPE,
    )
    with worker:
        for _ in range(3):
            assert worker.stdout.readline()
        os.kill(worker.pid, signal.SIGKILL)
    workspace = Workspace(tmp_path / "reports")
    assert list((workspace.root / ".cache" / "prepared").iterdir())
    assert workspace.stored("prepared", Preparation(opencv(), "train", "f").key) is None


def test_several_processes_may_prepare_the_same_at_once(workspace):
    samples = turned_photos()
    with ThreadPoolExecutor(4) as pool:
        results = list(
            pool.map(lambda _: prepare(samples, opencv(), workspace, split="train"), range(4))
        )
    for result in results:
        np.testing.assert_array_equal(result.pixels, results[0].pixels)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_batch_is_the_normalised_pixels_of_the_samples_asked_for(path, workspace):
    samples = turned_photos()
    prepared = prepare(samples, path, workspace, split="train")
    batch = prepared.batch([3, 0], path.normalise)
    assert batch.shape == (2, 3, 32, 32)
    assert batch.dtype == np.float32
    pixels = torch.from_numpy(np.stack([prepared.pixels[3], prepared.pixels[0]])).double()
    mean, std = torch.tensor(path.normalise.mean), torch.tensor(path.normalise.std)
    expected = ((pixels / 255 - mean) / std).permute(0, 3, 1, 2)
    np.testing.assert_allclose(batch, expected, atol=2e-6)


def test_a_batch_refuses_samples_without_pixels(workspace):
    samples = scripted("ok", "failed", "ok")
    prepared = prepare(samples, opencv(decode=ScriptedDecoder()), workspace, split="train")
    assert prepared.batch([0, 2], Normalise()).shape == (2, 3, 32, 32)
    with pytest.raises(IndexError, match=r"1\.jpg was not decoded"):
        prepared.batch([0, 1], Normalise())


def test_pixels_are_mapped_and_cannot_be_written(workspace):
    prepared = prepare(turned_photos(), opencv(), workspace, split="train")
    assert isinstance(prepared.pixels, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        prepared.pixels[0, 0, 0, 0] = 1


def test_no_decodable_image_is_nothing_compared_and_is_not_kept(workspace):
    samples = scripted("failed", "unsupported")
    path = opencv(decode=ScriptedDecoder())
    with pytest.raises(
        NothingCompared, match=r"none of 2 images; the first, 0\.jpg, failed: it is"
    ):
        prepare(samples, path, workspace, split="train")
    assert artefact(samples, path, workspace) is None
    with pytest.raises(NothingCompared, match="no images"):
        prepare(scripted(), path, workspace, split="train")


def test_a_path_that_cannot_run_here_is_refused(workspace, monkeypatch):
    monkeypatch.setattr("alignkit.extras._importable", lambda module: module != "torchpipe")
    path = opencv(decode=TorchpipeDecoder())
    with pytest.raises(MissingDependency, match=r"preprocess.opencv: torchpipe is not installed"):
        prepare(turned_photos(), path, workspace, split="train")


def test_images_of_different_sizes_are_refused_with_the_fix(workspace):
    path = opencv(resize=Resize(OpenCVResizer(), (32, 32), fit="shorter"))
    with pytest.raises(ConfigError, match="add 'crop'"):
        prepare(turned_photos(), path, workspace, split="train")


def test_a_file_that_cannot_be_read_is_the_users_error_not_an_outcome(workspace):
    def read(index):
        raise DataError("cannot read it")

    with pytest.raises(DataError, match="cannot read it"):
        prepare(replace(turned_photos(), read=read), opencv(), workspace, split="train")


def test_a_missing_library_is_no_outcome_of_an_image():
    class Broken(CountingDecoder):
        def decode(self, encoded):
            raise ModuleNotFoundError("no such library")

    with pytest.raises(ModuleNotFoundError):
        prepare_one("x", b"", opencv(decode=Broken()))


def test_memory_does_not_grow_with_the_number_of_images(workspace):
    path = opencv(decode=ScriptedDecoder(), resize=Resize(OpenCVResizer(), (200, 200)))
    peaks = []
    for count in (100, 400):
        samples = scripted(*["ok"] * count)
        tracemalloc.start()
        prepare(samples, path, workspace, split="train", threads=2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    image = 200 * 200 * 3
    assert peaks[1] - peaks[0] < 50 * image


def test_hostile_files_end_as_outcomes_beside_good_ones(workspace):
    good = turned_photos().read(1)
    files = [good, good[: len(good) // 2], b"", b"not an image", good[:20] + b"\0" * 500, good]
    prepared = prepare(samples_of(files), opencv(), workspace, split="train")
    outcomes = [each.outcome for each in prepared.outcomes]
    assert outcomes == ["ok", "corrupt", *["failed"] * 3, "ok"]
    assert all(each.reason for each in prepared.outcomes if each.outcome == "failed")
    np.testing.assert_array_equal(prepared.pixels[0], prepared.pixels[2])


def test_a_fuzzing_corpus_cannot_take_the_run_down(shared_data, workspace):
    files = sorted((shared_data / "hostile-jpegs").iterdir())
    samples = samples_of([file.read_bytes() for file in files])
    prepared = prepare(samples, opencv(), workspace, split="train")
    counts = ended(prepared)
    assert sum(counts.values()) == len(files)
    assert counts["failed"] > 0
    assert counts["ok"] + counts["corrupt"] == len(prepared.pixels)


def test_a_real_data_set_is_prepared_whole(shared_data, workspace, monkeypatch, tmp_path):
    from alignkit.datasets.folder import Folder

    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "cache"))
    samples = Folder(shared_data / "flowers12", limit=60).evaluation()
    prepared = prepare(samples, opencv(), workspace, split="eval")
    assert ended(prepared) == {"ok": 60}


@pytest.mark.parametrize("rows", [1, 9, 10, 99_999])
def test_a_pixel_file_is_what_numpy_reads(tmp_path, rows):
    pixels = np.arange(rows, dtype=np.float32)[:, None, None, None] * np.ones(
        (1, 2, 1, 3), np.float32
    )
    with PixelFile(tmp_path / "p.npy", (2, 1), rows) as file:
        assert [file.append(each) for each in pixels] == list(range(rows))
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), pixels)
    assert file.sha256 == hashlib.sha256((tmp_path / "p.npy").read_bytes()).hexdigest()


def test_a_pixel_file_with_fewer_images_than_expected_is_whole_and_has_no_hash_yet(tmp_path):
    with PixelFile(tmp_path / "p.npy", (1, 1), 1000) as file:
        file.append(np.full((1, 1, 3), 7, np.uint8))
    assert np.load(tmp_path / "p.npy").tolist() == [[[[7, 7, 7]]]]
    assert file.sha256 == ""


@pytest.mark.parametrize("broken", [(), (0,), (1, 2)])
def test_the_stored_hashes_are_those_of_the_files(workspace, broken):
    files = [b"no image" if index in broken else turned_photos().read(0) for index in range(4)]
    prepare(samples_of(files), opencv(), workspace, split="eval")
    (finished,) = workspace.finished("prepared")
    assert finished.files == {
        name: hashlib.sha256((finished.folder / name).read_bytes()).hexdigest()
        for name in ("outcomes.json", "pixels.npy")
    }


def test_a_pixel_file_refuses_a_second_dtype(tmp_path):
    with PixelFile(tmp_path / "p.npy", (1, 1), 2) as file:
        file.append(np.zeros((1, 1, 3), np.uint8))
        with pytest.raises(TypeError, match="float32 after uint8"):
            file.append(np.zeros((1, 1, 3), np.float32))


def test_outcomes_lie_beside_the_pixels_as_json(workspace):
    samples = scripted("ok", "failed")
    path = opencv(decode=ScriptedDecoder())
    prepare(samples, path, workspace, split="train")
    stored = json.loads((artefact(samples, path, workspace) / "outcomes.json").read_text())
    decoded = ScriptedDecoder().decode(samples.read(0)).image
    assert stored == [
        ["0.jpg", "ok", "", 0, [64, 64, 1], digest_of(decoded), [32, 32]],
        ["1.jpg", "failed", "it is failed", -1, [-1, -1, -1], "", [-1, -1]],
    ]
