"""The recorder: one file that works anywhere, and files that NumPy and `match --taps` read."""

import array
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import alignkit
from alignkit import tap_recorder
from alignkit.samples import Samples
from alignkit.search.stored_taps import stored_taps

SOURCE = Path(tap_recorder.__file__)


@pytest.fixture
def tap():
    return tap_recorder.Tap()


def lines(folder: Path) -> list[dict]:
    return [
        json.loads(line)
        for log in sorted(folder.glob("taps-*.jsonl"))
        for line in log.read_text().splitlines()
    ]


def test_alignkit_tap_is_the_recorder_and_records_nothing_by_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = np.zeros((2, 3, 3), np.uint8)
    assert alignkit.tap("after_resize", given, "a.jpg") is given
    assert alignkit.tap is tap_recorder.tap
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "given",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
        np.arange(24, dtype=np.float16).reshape(2, 4, 3),
        np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 3, 2, 4),
        np.arange(24, dtype=">f8").reshape(2, 4, 3),
        np.arange(24, dtype=np.int64).reshape(2, 4, 3)[::-1, ::2, ::-1],
        np.asfortranarray(np.arange(24, dtype=np.uint16).reshape(2, 4, 3)),
        np.array([[True, False]]),
    ],
    ids=lambda each: f"{each.dtype.str}{each.shape}",
)
def test_numpy_reads_every_array_as_it_was(tap, tmp_path, given):
    tap.to(tmp_path)
    assert tap("stage", given, "a.jpg") is given
    stored = np.load(tmp_path / "stage" / "a.jpg.npy")
    assert stored.dtype == given.dtype
    assert np.array_equal(stored, given)
    (line,) = lines(tmp_path)
    assert line["shape"] == [*given.shape]
    assert line["dtype"] == given.dtype.name
    assert (line["min"], line["max"]) == (given.min(), given.max())


def test_tensors_of_torch_are_recorded_also_with_gradients_and_in_bfloat16(tap, tmp_path):
    torch = pytest.importorskip("torch")
    tap.to(tmp_path)
    values = torch.linspace(-1, 1, 12).reshape(3, 2, 2)
    tap("grad", values.clone().requires_grad_(), "a.jpg")
    tap("bf16", values.bfloat16(), "a.jpg")
    assert np.array_equal(np.load(tmp_path / "grad/a.jpg.npy"), values.numpy())
    stored = np.load(tmp_path / "bf16/a.jpg.npy")
    assert np.array_equal(stored, values.bfloat16().float().numpy())
    assert [line["dtype"] for line in lines(tmp_path)] == ["float32", "bfloat16"]


@pytest.mark.parametrize("given", [[1, 2], (1, 2), b"\xff\xd8", "text", 3, None, {"a": 1}])
def test_what_is_no_array_is_refused(tap, tmp_path, given):
    tap.to(tmp_path)
    with pytest.raises(TypeError, match=r"tap 'resize': a \w+ is no array"):
        tap("resize", given, "a.jpg")
    assert not lines(tmp_path)


def test_numbers_that_are_not_real_are_refused(tap, tmp_path):
    tap.to(tmp_path)
    with pytest.raises(TypeError, match="complex64 holds no real numbers"):
        tap("fft", np.zeros((2, 2), np.complex64), "a.jpg")


def test_numbers_that_are_not_finite_have_no_extremes(tap, tmp_path):
    tap.to(tmp_path)
    tap("x", np.array([1.0, np.nan]), "a.jpg")
    (line,) = lines(tmp_path)
    assert (line["min"], line["max"]) == (None, None)


def test_a_batch_takes_one_name_for_each_image(tap, tmp_path):
    tap.to(tmp_path)
    batch = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    tap("input", batch, ["a.jpg", "b.jpg"])
    assert np.array_equal(np.load(tmp_path / "input/b.jpg.npy"), batch[1])
    with pytest.raises(ValueError, match="3 images for a batch of 2"):
        tap("other", batch, ["a", "b", "c"])


def test_only_the_first_images_and_the_first_array_of_each_are_kept(tap, tmp_path):
    tap.to(tmp_path, images=2)
    for value in range(4):
        for stage in ("one", "two"):
            tap(stage, np.full((1, 1, 3), value, np.uint8), f"{value}.jpg")
    tap("one", np.full((1, 1, 3), 99, np.uint8), "0.jpg")
    assert sorted(line["image"] for line in lines(tmp_path)) == ["0.jpg", "0.jpg", "1.jpg", "1.jpg"]
    assert np.load(tmp_path / "one/0.jpg.npy").max() == 0
    tap.off()
    tap("three", np.zeros((1, 1, 3)), "0.jpg")
    assert len(lines(tmp_path)) == 4


@pytest.mark.parametrize(
    "image", ["../../up.jpg", "/etc/passwd", "a/../b.jpg", "...", "a:b*?.jpg", "ä ö/€.jpg", "a\\b"]
)
def test_no_name_leaves_the_folder_and_each_has_a_file_of_its_own(tap, tmp_path, image):
    folder = tmp_path / "deep" / "taps"
    tap.to(folder)
    tap("st/age", np.zeros((1, 1, 3), np.uint8), image)
    tap("st/age", np.ones((1, 1, 3), np.uint8), image.replace(".", "%2E") + "%2E")
    written = set(tmp_path.rglob("*.npy"))
    assert len(written) == 2
    assert all(each.resolve().is_relative_to(folder.resolve()) for each in written)
    assert lines(folder)[0]["image"] == image


def test_names_that_say_nothing_are_refused(tap, tmp_path):
    tap.to(tmp_path)
    for stage, image in (("", "a"), ("s", ""), ("s", "//")):
        with pytest.raises(ValueError, match="give a stage and the image's file name"):
            tap(stage, np.zeros(3), image)


def test_threads_share_a_recorder(tap, tmp_path):
    tap.to(tmp_path)

    def work(first: int) -> None:
        for number in range(first, first + 10):
            for stage in ("one", "two"):
                tap(stage, np.full((8, 8, 3), number, np.uint8), f"{number}.jpg")

    threads = [threading.Thread(target=work, args=(5 * place,)) for place in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = lines(tmp_path)
    assert len(found) == len({(line["stage"], line["image"]) for line in found}) == 90
    for line in found:
        assert np.load(tmp_path / line["file"]).max() == int(line["image"].removesuffix(".jpg"))


def test_an_unfinished_file_is_never_seen(tap, tmp_path, monkeypatch):
    tap.to(tmp_path)

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        tap("one", np.zeros((2, 2, 3)), "a.jpg")
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


PROGRAM = """
import array, os, sys
from alignkit_tap import tap
if "fork" in sys.argv:
    os.fork()
tap("one", array.array("f", [1.5, -2.0]), f"{os.getpid()}.jpg")
print("numpy" in sys.modules)
"""


@pytest.mark.parametrize("way", ["alone", "fork"])
def test_a_copy_works_without_alignkit_and_numpy_and_in_forked_processes(tmp_path, way):
    if way == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    shutil.copy(SOURCE, tmp_path / "alignkit_tap.py")
    (tmp_path / "serve.py").write_text(PROGRAM)
    environment = {"ALIGNKIT_TAPS": str(tmp_path / "taps"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-S", "serve.py", way],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == {"False"}
    expected = 2 if way == "fork" else 1
    assert len([*(tmp_path / "taps").glob("taps-*.jsonl")]) == expected
    for line in lines(tmp_path / "taps"):
        assert (line["min"], line["max"]) == (-2.0, 1.5)
        stored = np.load(tmp_path / "taps" / line["file"])
        assert np.array_equal(stored, np.frombuffer(array.array("f", [1.5, -2.0]), np.float32))


CPP = r"""
#include "alignkit_tap.h"
struct Grouped : std::numpunct<char> {  // as in German: 1.234,5
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\\3"; }
};
struct Mat {  // a strided cv::Mat, as far as the recorder asks
  int rows = 1, cols = 1;
  static int clones;
  std::vector<float> values = {2.5f, 0, 0};
  std::size_t elemSize1() const { return 4; }
  bool isContinuous() const { return false; }
  Mat clone() const { ++clones; return *this; }
  int channels() const { return 3; }
  int depth() const { return 5; }
  template <class T> const T* ptr() const { return reinterpret_cast<const T*>(values.data()); }
};
int Mat::clones = 0;
int main() {
  std::locale::global(std::locale(std::locale::classic(), new Grouped));
  std::vector<unsigned char> levels(2 * 4 * 3);
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<unsigned char>(i * 10);
  std::vector<float> values = {-1.5f, 0.25f, 3.0f};
  alignkit::tap("after_resize", levels.data(), {2, 4, 3}, "cats/ä \"1\".jpg");
  alignkit::tap("after_resize", levels.data(), {1, 8, 3}, "cats/ä \"1\".jpg");  // not the first
  alignkit::tap("input", values.data(), {3, 1, 1}, "cats/ä \"1\".jpg");
  alignkit::tap("input", values.data(), {3, 1, 1}, "../../up.jpg");
  alignkit::tap("input", values.data(), {3, 1, 1}, "third.jpg");
  for (int i = 0; i < 3; ++i) alignkit::tap("mat", Mat(), "../../up.jpg");
  alignkit::tap("mat", Mat(), "third.jpg");
  return Mat::clones;
}
"""


def test_the_cpp_header_writes_the_same_files(tmp_path):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    header = SOURCE.with_suffix(".h")
    assert len(header.read_text().splitlines()) <= 140
    shutil.copy(header, tmp_path / "alignkit_tap.h")
    (tmp_path / "serve.cpp").write_text(CPP)
    subprocess.run(
        [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "serve.cpp", "-o", "serve"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    subprocess.run([tmp_path / "serve"], check=True, env={})
    assert not [*tmp_path.rglob("*.npy")]
    environment = {"ALIGNKIT_TAPS": str(tmp_path / "taps"), "ALIGNKIT_TAPS_IMAGES": "2"}
    assert subprocess.run([tmp_path / "serve"], check=False, env=environment).returncode == 1
    found = lines(tmp_path / "taps")
    assert [(line["stage"], line["image"]) for line in found] == [
        ("after_resize", 'cats/ä "1".jpg'), ("input", 'cats/ä "1".jpg'), ("input", "../../up.jpg"),
        ("mat", "../../up.jpg"),
    ]  # fmt: skip
    assert found[0]["shape"] == [2, 4, 3]
    assert (found[0]["dtype"], found[0]["min"], found[0]["max"]) == ("uint8", 0, 230)
    assert (found[1]["dtype"], found[1]["min"], found[1]["max"]) == ("float32", -1.5, 3.0)
    levels = np.load(tmp_path / "taps" / found[0]["file"])
    assert np.array_equal(levels, (np.arange(24) * 10).reshape(2, 4, 3))
    files = [*(tmp_path / "taps").rglob("*.npy")]
    assert len(files) == 4
    assert (found[3]["shape"], found[3]["max"]) == ([1, 1, 3], 2.5)
    assert abs(found[3]["time"] - time.time()) < 600
    name = 'cats/ä "1".jpg'
    samples = Samples((name,), (), (), lambda _: b"", "")
    assert [each.stage for each in stored_taps(tmp_path / "taps", samples, {"mat": "none"}).stages] == [
        "resize", "normalise", None
    ]  # fmt: skip
