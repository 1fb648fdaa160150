"""Predictions held against results, with decoders and runtimes of a CPU in place of a GPU's."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import ExitCode
from alignkit.preprocess.presets import PRESETS
from alignkit.progress import NoProgress
from alignkit.search.configurations import variants
from alignkit.studies.calibrate.pair_record import write_pairs
from alignkit.studies.calibrate.pair_rules import DecodeRule, compare_pairs
from alignkit.studies.calibrate.recorder_file import recorder_jpegs
from alignkit.studies.calibrate.stored_pairs import stored_pairs
from alignkit.studies.compare_runs.compared_runs import stored_run

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_predictions.py"
EXPERIMENT = """\
# Does the simulation hold where both run?
name: gpu
data: {name: digits-on-photos, train: 200, eval: 100}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  pillow: {preset: pillow-train, size: 48}
train: {epochs: 1, seeds: [0]}
evaluate:
  backends:
    - {name: torch, precision: [fp32, bf16]}
    - {name: simulated, boundaries: nodes, precision: bf16}
    - {name: tensorrt, precision: fp16}
"""


@pytest.fixture(scope="module")
def gpu():
    spec = importlib.util.spec_from_file_location("gpu_predictions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """What a GPU machine would send: one way as predicted, one by another rule, one that failed."""
    folder = tmp_path_factory.mktemp("evidence")
    unknown = {
        "nvjpeg-default": NvjpegModelDecoder(),
        "nvjpeg-hardware": SimpleJPEGDecoder(dct="ifast"),
        "torchvision-one": SimpleJPEGDecoder(chroma="nearest"),
        "nvjpeg-default-interpolation": NvjpegModelDecoder(upsampling="interpolate"),
    }
    for way, decoder in unknown.items():
        place = folder / "pairs" / way
        place.mkdir(parents=True)
        (place / "facts.json").write_text(json.dumps({"way": way, "machine": {"engine_status": 0}}))
        for name, data in recorder_jpegs().items():
            (place / name).write_bytes(data)
            np.save((place / name).with_suffix(".npy"), decoder.decode(data).image)
    (folder / "pairs" / "dali-mixed").mkdir()
    (folder / "pairs" / "dali-mixed" / "facts.json").write_text('{"failed": "it ended with -11"}')
    rules = [DecodeRule(each, "nvjpeg-model") for each in variants(NvjpegModelDecoder)]
    rules += [DecodeRule(each, "simplejpeg") for each in variants(SimpleJPEGDecoder)]
    stored = stored_pairs(folder / "pairs", {})
    outcomes = compare_pairs(stored, rules, NoProgress())
    write_pairs(stored, outcomes, rules, folder)
    return folder


def test_each_way_and_kind_is_held_refuted_or_listed_with_its_reason(gpu, out):
    found = {each.about: each for each in gpu.predictions(out)}
    as_predicted = [each for name, each in found.items() if name.startswith("nvjpeg-default (")]
    assert len(as_predicted) == len(gpu.KINDS) == 10
    assert {each.state for each in as_predicted} == {"held"}
    checked = {each.about for each in found.values() if each.basis == "checked before"}
    assert checked == {f"nvjpeg-default (CUDA cores), {kind}" for kind in gpu.CHECKED}
    refuted = found["nvjpeg-hardware (hardware JPEG engine), 4:2:0 baseline"]
    assert refuted.state == "refuted"
    assert "nearer: simplejpeg (smooth, ifast)" in refuted.evidence
    # of a GPU with an engine: it takes baseline files and leaves progressive ones to CUDA cores
    one = {name: each.state for name, each in found.items() if name.startswith("torchvision-one")}
    assert one["torchvision-one (hardware JPEG engine), 4:2:0 baseline"] == "held"
    assert one["torchvision-one (CUDA cores), 4:2:0 progressive"] == "refuted"
    smooth = found["nvjpeg-default-interpolation (CUDA cores), 4:2:2 progressive"]
    assert (smooth.state, smooth.what) == ("held", gpu.RULES[gpu.CORES, 32])
    absent = found["dali-mixed, every kind"]
    assert (absent.state, absent.evidence) == ("not measured", "it ended with -11")
    assert found["nvjpeg-hybrid, every kind"].evidence == "no pair was recorded"


def test_the_command_prints_them_and_its_exit_code_says_whether_all_held(out, tmp_path):
    def run(folder):
        command = [sys.executable, str(SCRIPT), str(folder)]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    ran = run(out)
    assert ran.returncode == ExitCode.DRIFT, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[1].startswith("refuted")
    assert lines[-1] == "47 predictions: 14 refuted, 26 held, 7 not measured"
    assert run(tmp_path).returncode == ExitCode.NOTHING_COMPARED
    changed = (out / "pairs.json").read_text().replace('"wrong": 0', '"wrong": 1', 1)
    (tmp_path / "pairs.json").write_text(changed)
    ran = run(tmp_path)
    assert ran.returncode == ExitCode.USAGE
    assert "pairs.json cannot be read (it is not as alignkit wrote it)" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_engines_rule_is_that_of_its_surrogate(gpu):
    options = PRESETS["torchvision-cuda-engine-surrogate"].decode
    decoder = NvjpegModelDecoder(**{key: options[key] for key in options if key != "name"})
    assert DecodeRule(decoder, "nvjpeg-model").name == gpu.RULES[gpu.JPEG_ENGINE, 0]


@pytest.mark.slow
def test_a_simulated_precision_is_held_against_the_runtime_that_has_it(gpu, tmp_path):
    (tmp_path / "gpu.yaml").write_text(EXPERIMENT)
    command = [sys.executable, "-m", "alignkit", "run", "gpu.yaml", "--no-open", "-q"]
    subprocess.run(command, check=False, capture_output=True, cwd=tmp_path)
    (folder,) = (each.parent for each in (tmp_path / "reports" / "gpu").glob("*/record.json"))
    run = stored_run(folder)
    pairs = (
        ("simulated boundaries=nodes", "bf16", ("torch",)),
        ("simulated boundaries=nodes", "fp16", ("tensorrt",)),
    )
    found = list(gpu.precision_predictions(run, pairs))
    assert [each.what for each in found] == 2 * [gpu.SIZE, gpu.CLASSES]
    assert found[0].state == "held", found[0]
    assert "between the two" in found[0].evidence
    # two models on two paths
    assert found[1].evidence.startswith("of 400 predictions ")
    if not shutil.which("nvidia-smi"):
        assert {each.state for each in found[2:]} == {"not measured"}
        assert "GPU" in found[2].evidence
