"""Engines: kept under the hash of everything they depend on, and loaded only as they were stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from alignkit import machine as processor
from alignkit.backends import Builder, CalibrationSet
from alignkit.backends.onnx_graph import half_precision
from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.engines import build_engine, calibration_indices, calibration_of, engine_parts
from alignkit.errors import BackendError, NothingCompared
from alignkit.models.checkpoint import Calibration, EngineSource
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from alignkit.workspace import Workspace
from tests.backends.model import trained_model
from tests.photos import encoded, photo


@dataclass(frozen=True)
class HalfFile:
    """A backend that builds for real: a float16 graph in a file."""

    needs_onnx: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True
    gpu: str = "none"
    library: ClassVar[str] = "1"

    def build_parts(self, precision: str) -> dict[str, Any] | None:
        return {"library": self.library, "device": self.gpu} if precision != "fp32" else None

    def calibration(self, precision: str) -> CalibrationSet | None:
        return CalibrationSet(4) if precision == "int8" else None

    def build(self, source: EngineSource, precision: str, folder: Path) -> None:
        if precision == "bf16":
            raise BackendError("no bf16 here")
        (folder / "half.onnx").write_bytes(half_precision(source.onnx))

    def open(self, checkpoint, onnx, precision):
        return ONNXRuntimeBackend().open(checkpoint, onnx / "half.onnx", "fp32")


@pytest.fixture(scope="module")
def source() -> EngineSource:
    model = trained_model()
    return EngineSource(
        model.checkpoint, model.onnx, Calibration("images", lambda: model.batch[:4])
    )


def build(source, root, backend=None, precision="fp16") -> Path:
    return build_engine(backend or HalfFile(), source, precision, Workspace(root))


def test_a_backend_or_precision_that_builds_nothing_is_given_the_graph(source, tmp_path):
    assert not isinstance(ONNXRuntimeBackend(), Builder) or not ONNXRuntimeBackend().build_parts(
        "fp32"
    )
    assert build(source, tmp_path, ONNXRuntimeBackend(), "fp32") == source.onnx
    assert build(source, tmp_path, precision="fp32") == source.onnx
    assert not (tmp_path / ".cache").exists()


def test_an_engine_is_built_once_and_its_files_are_what_open_takes(source, tmp_path, monkeypatch):
    first = build(source, tmp_path)
    assert (first / "half.onnx").read_bytes() == half_precision(source.onnx)
    monkeypatch.setattr(HalfFile, "build", lambda *given: pytest.fail("built again"))
    assert build(source, tmp_path) == first


def test_a_file_that_merely_lies_there_is_not_loaded(source, tmp_path):
    first = build(source, tmp_path)
    written = (first / "half.onnx").read_bytes()
    (first / "half.onnx").write_bytes(written[:-7] + b"planted")
    assert (build(source, tmp_path) / "half.onnx").read_bytes() == written
    (first / "besides.onnx").write_bytes(b"another engine")
    assert [each.name for each in build(source, tmp_path).iterdir()] == ["half.onnx", "key.json"]


def test_a_truncated_engine_is_built_again_with_a_warning(source, tmp_path, caplog):
    first = build(source, tmp_path)
    whole = (first / "half.onnx").read_bytes()
    (first / "half.onnx").write_bytes(whole[: len(whole) // 2])
    assert (build(source, tmp_path) / "half.onnx").read_bytes() == whole
    assert "is damaged and is made again" in caplog.text


@pytest.mark.parametrize(
    "changed",
    [
        lambda source: (HalfFile(gpu="another"), source, "fp16"),
        lambda source: (HalfFile(), source, "int8"),
        lambda source: (HalfFile(), replace(source, onnx=other_graph(source)), "fp16"),
        lambda source: (
            HalfFile(),
            replace(source, checkpoint=replace(source.checkpoint, key="other weights")),
            "fp16",
        ),
        lambda source: (
            HalfFile(),
            replace(source, checkpoint=replace(source.checkpoint, height=64)),
            "fp16",
        ),
    ],
    ids=["device", "precision", "graph", "weights", "shape"],
)
def test_whatever_an_engine_depends_on_changes_its_key(source, changed):
    backend, other, precision = changed(source)
    assert engine_parts(HalfFile(), source, "fp16") != engine_parts(backend, other, precision)


def test_another_processor_is_another_engine(source, tmp_path, monkeypatch):
    before = engine_parts(HalfFile(), source, "fp16")
    (tmp_path / "cpuinfo").write_text("flags : avx2")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert engine_parts(HalfFile(), source, "fp16") != before


def other_graph(source: EngineSource) -> Path:
    other = source.onnx.with_name("other.onnx")
    other.write_bytes(half_precision(source.onnx))
    return other


def test_another_version_of_the_library_is_another_engine(source, tmp_path, monkeypatch):
    first = build(source, tmp_path)
    monkeypatch.setattr(HalfFile, "library", "2")
    assert build(source, tmp_path) != first


def test_only_a_precision_that_calibrates_depends_on_the_images(source):
    other = replace(source, calibration=Calibration("other images", source.calibration.images))
    assert engine_parts(HalfFile(), source, "int8") != engine_parts(HalfFile(), other, "int8")
    assert engine_parts(HalfFile(), source, "fp16") == engine_parts(HalfFile(), other, "fp16")


def test_a_build_that_fails_leaves_nothing(source, tmp_path):
    with pytest.raises(BackendError, match="no bf16 here"):
        build(source, tmp_path, precision="bf16")
    assert not list((tmp_path / ".cache" / "engines").iterdir())


def photographs(count: int) -> Samples:
    files = [encoded(photo("china", 40 + index, 40)) for index in range(count)]
    ids = tuple(f"{index}.jpg" for index in range(count))
    return Samples(ids, (), (), files.__getitem__, f"{count} photographs")


def labelled(labels: list[int]) -> Samples:
    ids = tuple(f"{index}.jpg" for index in range(len(labels)))
    return Samples(ids, tuple(labels), ("a", "b", "c"), lambda _: b"", "labelled")


def test_balanced_images_are_of_every_class_and_the_draw_repeats():
    samples = labelled([0] * 90 + [1] * 8 + [2] * 2)
    chosen = calibration_indices(CalibrationSet(12), samples)
    assert [sum(samples.labels[index] == each for index in chosen) for each in range(3)] == [
        5,
        5,
        2,
    ]
    assert chosen == calibration_indices(CalibrationSet(12), samples)
    assert chosen == sorted(set(chosen))
    assert calibration_indices(CalibrationSet(1000), samples) == list(range(100))


def test_random_and_first_images_are_what_they_say():
    samples = labelled([0] * 90 + [1] * 10)
    assert calibration_indices(CalibrationSet(3, "first"), samples) == [0, 1, 2]
    drawn = calibration_indices(CalibrationSet(30, "random"), samples)
    assert len(set(drawn)) == 30
    assert drawn != list(range(30))


def test_calibration_images_are_prepared_on_the_path_they_are_for(tmp_path):
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))
    samples = photographs(10)
    found = calibration_of(CalibrationSet(4, "first"), path, samples, Workspace(tmp_path)).images()
    expected = [path.normalise(path.taps(samples.read(row)).last[None])[0] for row in range(4)]
    assert found.dtype == np.float32
    assert np.array_equal(found, np.stack(expected))


def test_without_training_images_there_is_nothing_to_calibrate_with(tmp_path):
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))
    with pytest.raises(NothingCompared, match="no image to calibrate with"):
        calibration_of(CalibrationSet(4), path, photographs(0), Workspace(tmp_path)).images()
