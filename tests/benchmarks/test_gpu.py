"""The command that takes evidence on a GPU, as far as a machine without one can tell."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from alignkit.errors import ExitCode
from alignkit.plugins import gpu_present

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
without_gpu = pytest.mark.skipif(gpu_present(), reason="of a machine without an NVIDIA GPU")


@pytest.fixture(scope="module")
def evidence():
    spec = importlib.util.spec_from_file_location("gpu_evidence", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@without_gpu
def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path):
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "out")],
        check=False, capture_output=True, text=True, cwd=SCRIPT.parents[1],
        env={"PYTHONPATH": str(SCRIPT.parents[1]), "PATH": ""},
    )  # fmt: skip
    assert ran.returncode == ExitCode.MISSING
    assert "NVIDIA GPU" in ran.stderr
    assert not (tmp_path / "out").exists()


def test_a_step_that_fails_is_told_with_what_it_said(evidence, tmp_path):
    step = evidence.Step("bad", (sys.executable, "-c", "print('words'); raise SystemExit(3)"))
    ended = evidence.outcome(step, tmp_path)
    assert (ended.exit_code, ended.done) == (3, False)
    assert (tmp_path / ended.log).read_text() == "words\n"


def test_results_of_an_earlier_run_are_no_evidence(evidence, tmp_path):
    run = tmp_path / "reports" / "gpu" / "12345678" / "record.json"
    cells = tmp_path / "reports" / "cells" / "kept"
    for each in (run, cells, tmp_path / "pairs" / "way" / "facts.json", tmp_path / "pairs.json"):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("{}")
    evidence.clear(tmp_path)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [cells]
    evidence.clear(tmp_path / "absent")


def test_decoders_are_timed_or_their_reason_is_told(evidence):
    files = evidence.files_to_decode(None)[:2]
    pillow = evidence.decoding("pillow", files)
    assert (pillow.decoded, pillow.failed) == (2, 0)
    assert pillow.images_per_second > 0
    if not gpu_present():
        absent = evidence.decoding("torchvision-cuda", files)
        assert absent.images_per_second is None
        assert "NVIDIA GPU" in absent.missing


def test_every_commands_options_exist(evidence, tmp_path, monkeypatch, capsys):
    """Each is asked for its help, which typer prints after it has read what stands before."""
    from alignkit import cli

    for step in evidence.steps(tmp_path, tmp_path, tmp_path):
        if step.command[1:3] != ("-m", "alignkit"):
            continue
        monkeypatch.setattr("sys.argv", ["alignkit", *step.command[3:], "--help"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, step.command
        told = capsys.readouterr().out
        options = [each for each in step.command[4:] if each.startswith("--")]
        assert all(option.replace("no-open", "open") in told for option in options)
