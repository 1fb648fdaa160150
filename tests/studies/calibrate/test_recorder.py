"""The recorder: a file of its own, run as a stranger runs it, with the CPU as the unknown."""

import ast
import ctypes
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.studies.calibrate import recorder
from alignkit.studies.calibrate.recorder_file import recorder_file, recorder_jpegs
from tests.photos import make_jpegs


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the printed file, without alignkit on its path."""
    file = folder / "record.py"
    file.write_text(recorder_file())
    command = [sys.executable, "-I", str(file), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    own = folder / "own photos" / "deep"
    own.mkdir(parents=True)
    (own / "mine.JPG").write_bytes(recorder_jpegs()["444-baseline-noise-35x21.jpg"])
    (own / "broken.jpg").write_bytes(b"\xff\xd8nothing")
    ran = run(folder, "own photos", "--device", "cpu", "--out", "pairs")
    assert ran.returncode == 0, ran.stderr
    return folder, ran.stdout


def test_it_carries_every_kind_of_jpeg_and_is_small():
    headers = [read_jpeg_header(data) for data in recorder_jpegs().values()]
    kinds = {(header.subsampling, header.coding) for header in headers}
    baseline = {
        (each, "baseline") for each in ("4:2:0", "4:4:4", "4:2:2", "4:4:0", "4:1:1", "grey")
    }
    assert kinds == baseline | {
        (each, "progressive") for each in ("4:2:0", "4:4:4", "4:2:2", "grey")
    }
    odd = {
        (header.subsampling, header.coding)
        for header in headers
        if header.width % 2 and header.height % 2
    }
    assert odd == kinds
    assert len(recorder_file()) < 110_000
    assert recorder_file() == recorder_file()


def test_it_imports_nothing_but_the_standard_library_torch_and_torchvision():
    names = set()
    for node in ast.walk(ast.parse(recorder_file())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    others = names - set(sys.stdlib_module_names)
    # numpy only where DALI, which needs it, is installed
    assert others == {"torch", "torchvision", "nvidia", "numpy"}


def test_its_pairs_hold_the_decoders_pixels_and_its_facts_name_the_failures(recorded):
    folder, said = recorded
    assert said.startswith("torchvision-cpu: 38 pairs, 1 failed\n")
    way = folder / "pairs" / "torchvision-cpu"
    facts = json.loads((way / "facts.json").read_text())
    assert facts["machine"]["gpu"] is None
    assert "no GPU took part" in facts["decoder"]
    assert list(facts["failures"]) == ["own/deep/broken.jpg"]
    assert facts["failures"]["own/deep/broken.jpg"].startswith("RuntimeError: ")
    own = {"own/deep/mine.JPG": recorder_jpegs()["444-baseline-noise-35x21.jpg"]}
    for name, data in {**recorder_jpegs(), **own}.items():
        pixels = (way / name).with_suffix(".ppm").read_bytes()
        expected = SimpleJPEGDecoder().decode(data).image
        assert (way / name).read_bytes() == data
        assert np.array_equal(np.frombuffer(pixels[-expected.size :], np.uint8), expected.ravel())


def test_the_zip_holds_all_of_the_folder(recorded):
    folder, said = recorded
    assert said.splitlines()[-1] == f"send back {folder / 'pairs.zip'}"
    with zipfile.ZipFile(folder / "pairs.zip") as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
    files = (each for each in (folder / "pairs").rglob("*") if each.is_file())
    assert packed == {each.relative_to(folder / "pairs").as_posix() for each in files}


@pytest.mark.parametrize("out", ["pairs", "deep/../pairs"])
def test_what_an_earlier_way_wrote_is_not_recorded_again(tmp_path, monkeypatch, out):
    (tmp_path / "pairs" / "first-way").mkdir(parents=True)
    (tmp_path / "deep").mkdir()
    for name in ("mine.jpg", "deep/pairs.jpg", "pairs/first-way/mine.jpg"):
        (tmp_path / name).write_bytes(b"\xff\xd8")
    monkeypatch.chdir(tmp_path)
    assert set(recorder.carried(Path(), Path(out))) == {"own/mine.jpg", "own/deep/pairs.jpg"}


@pytest.mark.slow
def test_without_a_gpu_and_over_an_earlier_folder_it_ends_with_a_reason(recorded):
    folder, _ = recorded
    import torch

    if not torch.cuda.is_available():
        ran = run(folder, "--out", "other")
        assert ran.returncode == 1
        assert "torch sees no CUDA GPU; --device cpu tries" in ran.stderr
        assert not (folder / "other").exists()
    ran = run(folder, "--device", "cpu", "--out", "pairs")
    assert (ran.returncode, "name another folder" in ran.stderr) == (1, True)


def test_a_way_whose_process_dies_is_a_failure_among_the_facts(tmp_path, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("of a machine without an NVIDIA GPU")
    # each of these ways needs a GPU, so that its process ends with an error here
    monkeypatch.setattr("sys.argv", ["record.py", "--out", str(tmp_path / "out")])
    said = recorder.in_process("nvjpeg-hardware", recorder.arguments())
    assert said.startswith("failed, the process ended with 1: no JPEG file")
    facts = json.loads((tmp_path / "out" / "nvjpeg-hardware" / "facts.json").read_text())
    assert (facts["decoder"], facts["engine"]) == (
        "nvJPEG, backend hardware",
        "hardware JPEG engine",
    )
    assert "the process ended with 1" in facts["failed"]


def test_a_batch_holds_one_kind_of_file():
    found = list(recorder.batches(recorder_jpegs(), 3))
    assert sorted(name for batch in found for name in batch) == sorted(recorder_jpegs())
    assert max(map(len, found)) == 3
    assert all(len({name.split("-")[0] for name in batch}) == 1 for batch in found)


def test_every_function_of_nvjpeg_that_it_calls_exists():
    try:
        library = recorder.nvjpeg_library()
    except OSError as error:
        pytest.skip(f"no nvJPEG here: {error}")
    source = Path(recorder.__file__).read_text()
    called = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        and node.value.startswith("nvjpeg") and node.value.isalpha()
    }  # fmt: skip
    called -= {"nvjpeg"}
    assert len(called) == 10, called
    assert all(hasattr(library, name) for name in called)
    facts = recorder.nvjpeg_facts()
    assert facts["nvjpeg"].count(".") == 2
    assert ctypes.sizeof(recorder.NvjpegImage) == 64


class NvjpegOfAnEngine:
    """nvJPEG on a GPU, as far as a decode by the JPEG engine asks it; its files are 2 x 2."""

    def __init__(self, unsupported):
        self.unsupported, self.called = unsupported, []

    def __getattr__(self, name):
        def function(*arguments):
            self.called.append(name)
            if name == "nvjpegGetImageInfo":
                arguments[5][0] = arguments[6][0] = 2
            if name == "nvjpegDecodeBatchedSupported":
                arguments[-1]._obj.value = self.unsupported
            return 0

        return function


@pytest.mark.parametrize("unsupported", [0, 2])
def test_a_file_that_is_not_for_the_engine_is_a_failure_and_no_pixels(monkeypatch, unsupported):
    """An engine may report success and write nothing; so it is asked before it decodes."""
    library = NvjpegOfAnEngine(unsupported)
    zeros = torch.zeros
    monkeypatch.setattr(recorder, "nvjpeg_library", lambda: library)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "zeros", lambda size, dtype, device: zeros(size, dtype=dtype))
    decode = recorder.nvjpeg_on("hardware")
    if unsupported:
        with pytest.raises(RuntimeError, match="not for the JPEG engine"):
            decode([b"a file"])
    else:
        assert decode([b"a file"])[0].shape == (2, 2, 3)
    asked = library.called.index("nvjpegDecodeBatchedSupported")
    assert ("nvjpegDecodeBatched" in library.called[asked:]) != bool(unsupported)


@pytest.mark.gpu
def test_nvimagecodec_turns_no_file_of_the_recorder():
    pytest.importorskip("nvidia.nvimgcodec", reason="needs the extra nvimgcodec")
    plain, turned = (make_jpegs()[each] for each in ("420", "exif-6"))
    decode = recorder.nvimgcodec_on("GPU_ONLY", "HYBRID_CPU_GPU")
    assert decode([turned])[0].shape == decode([plain])[0].shape
