"""Backends that need a GPU, on a machine that has none: shown, skipped, counted as missing."""

import json

import pytest

from alignkit.errors import ExitCode
from alignkit.plugins import UNPROVEN, gpu_present

pytestmark = pytest.mark.skipif(gpu_present(), reason="of a machine without an NVIDIA GPU")
EXPERIMENT = """
name: engines
data: {name: digits-on-photos, train: 40, eval: 20}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: opencv, resize: {name: opencv, size: 32}}
train: {epochs: 1}
evaluate:
  backends:
    - torch
    - {name: tensorrt, precision: [fp32, fp16], batch: [1, 50, 50]}
    - {name: onnxruntime, provider: cuda}
  batch_size: 50
"""


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engines.yaml").write_text(EXPERIMENT)
    return tmp_path / "engines.yaml"


def test_a_plan_shows_them_skipped_and_that_no_gpu_has_run_them(alignkit, experiment):
    text = " ".join(alignkit("plan", str(experiment)).out.split())
    assert "NVIDIA GPU" in text
    assert f"tensorrt is {UNPROVEN}" in text


def test_options_are_checked_without_the_library(alignkit, experiment):
    experiment.write_text(EXPERIMENT.replace("[1, 50, 50]", "[50, 1, 50]"))
    refused = alignkit("plan", str(experiment))
    assert refused.code == ExitCode.USAGE
    assert "smallest, usual, greatest" in refused.err


@pytest.mark.slow
def test_what_cannot_run_is_skipped_and_what_would_fall_back_fails(
    alignkit, experiment, monkeypatch
):
    """As on a machine that has a driver, and not the libraries of CUDA."""
    monkeypatch.setattr("alignkit.backends.onnxruntime.gpu_present", lambda: True)
    told = alignkit("run", str(experiment), "--no-open")
    assert told.code == ExitCode.CRASHED
    (record,) = experiment.parent.glob("reports/**/record.json")
    cells = json.loads(record.read_text())["cells"]
    by_backend = {
        name: [each for each in cells if each["backend"].startswith(name)]
        for name in ("torch", "tensorrt", "onnxruntime provider=cuda")
    }
    states = {name: {each["state"] for each in held} for name, held in by_backend.items()}
    assert [*states.values()] == [{"measured"}, {"skipped"}, {"failed"}]
    assert all(UNPROVEN in each["reason"] for each in by_backend["tensorrt"])
    for cell in by_backend["onnxruntime provider=cuda"]:
        assert "would compute on the CPU" in cell["reason"]


def test_the_list_marks_what_no_gpu_has_run(alignkit):
    listed = json.loads(alignkit("list", "backends", "--json").out)["backends"]
    notes = {each["name"]: each["note"] for each in listed}
    assert notes["tensorrt fp16"] == UNPROVEN
    assert notes["tensorrt-rtx"] == UNPROVEN
    # not even with its library, whose engines can be built here
    assert not any(each["usable"] for each in listed if each["name"].startswith("tensorrt"))
    assert notes["onnxruntime"] == ""
    lines = alignkit("list", "backends").out.splitlines()
    place = next(n for n, line in enumerate(lines) if line.split()[:1] == ["tensorrt"])
    heading = next(line for line in reversed(lines[:place]) if not line.startswith("    "))
    assert heading.endswith(UNPROVEN)
