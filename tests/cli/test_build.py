"""Engines that this machine can build and cannot run: `alignkit run --engines-only`, and the cells of a run."""

import hashlib
import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from alignkit import cli
from alignkit.backends.tensorrt import TensorRTRTXBackend
from alignkit.cli.run_command import _engines_text
from alignkit.errors import BackendError, ExitCode
from alignkit.plugins import NO_GPU, gpu_present
from alignkit.record import PathFacts
from alignkit.record.study_documents import BuiltEngine

pytest.importorskip("tensorrt_rtx_bindings", reason="tensorrt-rtx is not installed")
pytestmark = pytest.mark.skipif(gpu_present(), reason="of a machine without an NVIDIA GPU")
EXPERIMENT = """
name: built
data: {name: digits-on-photos, train: 40, eval: 20}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: opencv, resize: {name: opencv, size: 32}}
train: {epochs: 1, seeds: [0]}
evaluate:
  backends:
    - torch
    - {name: tensorrt-rtx, precision: [fp16, int8], batch: [1, 20, 20]}
  batch_size: 20
gate: {rules: [{metric: churn, fail: 0.99}]}
"""
COLUMN = "tensorrt-rtx batch=[1, 20, 20]"


def called(*arguments):
    """Exit code and stdout of a command."""
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr("sys.argv", ["alignkit", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
    return end.value.code, printed.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder of the experiment; what `run`, and then it with `--engines-only`, printed; the run's folder."""
    folder = tmp_path_factory.mktemp("built")
    file = folder / "built.yaml"
    file.write_text(EXPERIMENT)
    reports = ("--reports", folder / "reports", "--quiet")
    run = called("run", file, *reports, "--no-open")
    build = called("run", file, *reports, "--engines-only")
    (record,) = folder.glob("reports/built/*/record.json")
    return folder, run, build, record.parent


@pytest.fixture(scope="module")
def engines(made):
    line = ("run", made[0] / "built.yaml", "--reports", made[0] / "reports", "--quiet")
    code, text = called(*line, "--engines-only", "--json")
    assert code == ExitCode.PASS
    (document,) = json.loads(text)
    assert document["name"] == "built"
    return document["engines"]


def test_a_cell_of_such_an_engine_is_built_and_has_no_number(made):
    record = json.loads((made[3] / "record.json").read_text())
    built = [each for each in record["cells"] if each["backend"] == COLUMN]
    assert len(built) == 8
    for each in built:
        assert (each["state"], each["metrics"], each["counts"]) == ("built", {}, [])
        assert each["predictions"] is each["drift"] is each["numeric"] is None
        assert NO_GPU in each["reason"]
        wide = "float16" if each["precision"] == "fp16" else "int8"
        assert wide in each["engine"]["layers"]
    for entry in record["matrix"]:
        assert (entry["state"] == "built") == (entry["backend"] == COLUMN)
        assert len(entry["engines"]) == (entry["backend"] == COLUMN)
    results = json.loads((made[3] / "results.json").read_text())
    assert results["matrix"] == record["matrix"]


def test_no_rule_passes_on_it_and_the_exit_code_says_that_a_gpu_is_missing(made):
    record = json.loads((made[3] / "record.json").read_text())
    assert made[1][0] == ExitCode.MISSING
    rules = [each for each in record["verdict"]["rules"] if each["backend"] == COLUMN]
    assert rules
    assert {each["state"] for each in rules} == {"error"}
    assert all(NO_GPU in each["value"]["reason"] for each in rules)


def test_every_output_says_built_not_run_and_names_types_size_and_hash(made, engines):
    terminal = " ".join(made[1][1].split())  # numbers are followed by hard spaces
    page = (made[3] / "index.html").read_text()
    summary = (made[3] / "summary.md").read_text()
    assert f"built, not run: 8 entries of a and b; running an engine {NO_GPU}" in terminal
    assert len(re.findall('<td[^>]* class="built[ "]', page)) == 3 * 8  # of three matrices
    assert "layers in float16" in page
    assert "8 built, not run" in page
    assert summary.count(5 * "| – (b) " + "|\n") == 8
    assert f"b: built, not run: running an engine {NO_GPU}" in summary
    assert "Engines built here and not run" in summary
    for each in engines:
        assert each["engine"]["sha256"] in page
        assert each["engine"]["sha256"] in summary


def test_it_names_each_engine_once_with_the_hash_of_its_stored_file(made, engines):
    folder, _, (code, text), _ = made
    assert code == ExitCode.PASS
    assert [(e["trained_with"], e["precision"]) for e in engines] == [
        ("a", "fp16"), ("a", "int8"), ("b", "fp16"), ("b", "int8")
    ]  # fmt: skip
    for each in engines:
        stored = folder / "reports" / each["folder"] / "model.engine"
        assert each["engine"]["sha256"] == hashlib.sha256(stored.read_bytes()).hexdigest()
        assert each["engine"]["size"] == stored.stat().st_size
        (line,) = [line for line in text.splitlines() if each["engine"]["sha256"] in line]
        assert f"{each['trained_with']} seed 0" in line
    assert "built here, not run: no prediction of these engines is known" in text


def test_the_runs_record_names_the_engines_that_were_built_alone(made, engines):
    record = json.loads((made[3] / "record.json").read_text())
    named = {each["engine"]["sha256"] for each in record["cells"] if each["engine"]}
    assert named == {each["engine"]["sha256"] for each in engines}


def test_a_plan_says_that_they_will_be_built(made):
    code, text = called("plan", made[0] / "built.yaml", "--reports", made[0] / "elsewhere")
    assert code == ExitCode.PASS
    assert "8 to build" in text
    assert f"running an engine {NO_GPU} (tensorrt-rtx is not yet run on hardware)" in text


def test_an_experiment_without_such_a_backend_is_told_which_to_add(alignkit, tmp_path):
    (tmp_path / "none.yaml").write_text(EXPERIMENT.replace("tensorrt-rtx", "onnxruntime").replace(
        ", batch: [1, 20, 20]", ""
    ))  # fmt: skip
    told = alignkit("run", tmp_path / "none.yaml", "--reports", tmp_path, "--engines-only")
    assert told.code == ExitCode.USAGE
    assert "none builds an engine; add {name: tensorrt-rtx, precision: [fp16]}" in told.err


def test_each_engine_is_built_by_the_path_that_can_and_the_others_are_listed(alignkit, tmp_path):
    (tmp_path / "mixed.yaml").write_text(
        EXPERIMENT.replace("  a: {decode: pillow,", "  a: {decode: torchvision-cuda,").replace(
            "precision: [fp16, int8], batch: [1, 20, 20]}",
            "precision: fp16}\n    - {name: tensorrt, precision: fp16}",
        )
    )
    line = ("run", tmp_path / "mixed.yaml", "--reports", tmp_path, "-q", "--engines-only")
    told = alignkit(*line)
    assert told.code == ExitCode.MISSING
    (document,) = json.loads(alignkit(*line, "--json").out)
    engines = document["engines"]
    assert [(e["trained_with"], e["backend"], bool(e["engine"]), e["missing"]) for e in engines] == [
        ("b", "tensorrt-rtx", True, False),
        ("a", "tensorrt-rtx", False, True),
        ("a", "tensorrt", False, True),
        ("b", "tensorrt", False, True),
    ]  # fmt: skip
    assert all(NO_GPU in each["reason"] for each in engines[1:])
    assert told.out.count("CANNOT BE BUILT HERE: ") == 3


def test_a_build_that_fails_is_told_and_nothing_was_built(alignkit, tmp_path, monkeypatch):
    def refuse(*_):
        raise BackendError("the parser refuses the graph")

    monkeypatch.setattr(TensorRTRTXBackend, "build", refuse)
    (tmp_path / "wrong.yaml").write_text(
        EXPERIMENT.replace(
            "    - {name: tensorrt-rtx", "    - {name: tensorrt}\n    - {name: tensorrt-rtx"
        )
    )
    told = alignkit("run", tmp_path / "wrong.yaml", "--reports", tmp_path, "-q", "--engines-only")
    assert told.code == ExitCode.CRASHED
    assert told.out.count("FAILED: the parser refuses the graph") == 4
    assert told.out.count("CANNOT BE BUILT HERE: ") == 2
    assert "built here, not run" not in told.out


def test_an_engine_that_needs_a_gpu_to_be_built_is_missing(alignkit, tmp_path):
    (tmp_path / "gpu.yaml").write_text(EXPERIMENT.replace("tensorrt-rtx", "tensorrt"))
    told = alignkit("run", tmp_path / "gpu.yaml", "--reports", tmp_path, "--engines-only")
    assert told.code == ExitCode.MISSING
    assert NO_GPU in told.err


def test_engines_of_a_surrogates_models_are_called_so():
    made = BuiltEngine(trained_with="gpu", seed=0, backend="x", precision="fp16", reason="broken")
    facts = (PathFacts(name="gpu", stages=(), surrogate_of="torchpipe-gpu"),)
    text = _engines_text((made,), facts)
    assert text.startswith("gpu: surrogate of torchpipe-gpu, not yet calibrated\n")
    assert "\ngpu (surrogate) seed 0 " in text


def test_it_is_refused_with_options_of_the_report(alignkit, tmp_path):
    told = alignkit("run", tmp_path / "x.yaml", "--engines-only", "--single-file")
    assert told.code == ExitCode.USAGE
    assert "--engines-only writes no report" in told.err
