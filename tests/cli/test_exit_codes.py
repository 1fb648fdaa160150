"""Every exit code of the documented table, each reached by a gate on files on disk."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignkit.errors import ExitCode
from tests.gate_case import ONE_PATH, PATHS, make_case

ROOT = Path(__file__).parents[2]
CHROMA = ("--set", "preprocess.opencv.decode={name: simplejpeg, chroma: nearest}")
NEEDS_GPU = PATHS + "  cuda: {decode: torchvision-cuda, resize: {name: opencv, size: 32}}\n"


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


@pytest.fixture
def gate(alignkit, case):
    def call(file, *more):
        return alignkit("gate", file, "--reports", case.reports, "-q", "--no-html", *more)

    return call


def test_the_readme_lists_the_codes_there_are():
    table = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE)
    assert [int(code) for code in table] == list(ExitCode)


def test_0_and_1_tell_what_agrees_from_what_drifted(gate, case):
    assert gate(case.write("{preset: strict}")).code == ExitCode.PASS
    assert gate(case.write("{preset: strict}"), *CHROMA).code == ExitCode.DRIFT


def test_2_is_a_mistake_in_the_file_or_on_the_command_line(gate, case):
    assert gate(case.write("{preset: strikt}")).code == ExitCode.USAGE
    assert gate(case.write(), "--out", "junit").code == ExitCode.USAGE
    assert gate(case.folder / "absent.yaml").code == ExitCode.USAGE


def test_3_is_a_report_that_cannot_be_written(gate, case):
    case.reports.write_text("a file where the folder should be")
    told = gate(case.write("{preset: strict}"), "--exit-zero")
    assert told.code == ExitCode.CRASHED
    assert str(case.reports) in told.out


def test_4_is_a_gpu_that_is_not_here(gate, case, monkeypatch):
    monkeypatch.setattr("alignkit.plugins.gpu_present", lambda: False)
    told = gate(case.write("{preset: strict}", paths=NEEDS_GPU), "--exit-zero")
    assert told.code == ExitCode.MISSING
    assert "cuda" in told.out


def test_5_is_a_folder_without_an_image(gate, case):
    for file in case.images.iterdir():
        file.unlink()
    told = gate(case.write("{preset: strict}"), "--exit-zero")
    assert told.code == ExitCode.NOTHING_COMPARED
    assert f"no images in {case.images}" in told.out


def test_6_is_a_baseline_that_was_never_recorded(gate, case):
    file = case.write("{preset: strict, against: baseline}", paths=ONE_PATH)
    assert gate(file, "--exit-zero").code == ExitCode.BASELINE


@pytest.mark.slow
def test_7_is_a_sample_too_small_to_decide_where_the_file_says_that_fails(gate, file):
    rules = "gate={on_inconclusive: fail, rules: [{metric: recall.macro, margin: 0.01}]}"
    learns = ("--set", "data.train=800", "--set", "train.epochs=6", "--set", rules)
    assert gate(file, *learns).code == ExitCode.INCONCLUSIVE
    assert gate(file, *learns, "--exit-zero").code == ExitCode.PASS
    assert gate(file, *learns, "--set", "gate.on_inconclusive=warn").code == ExitCode.PASS


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
def test_130_and_143_are_signals_while_images_are_compared(case, sent, code):
    job = signalled(case, sent, "gate", case.write("{preset: strict}"), "--reports", case.reports)
    assert job.returncode == code
    assert "interrupted" in job.stdout
    assert not list(case.reports.rglob(".filling-*"))


DIFF = ("--preprocess=opencv-train", "--preprocess=pillow-train")


def test_143_ends_a_diff_with_its_command_line(case):
    job = signalled(case, signal.SIGTERM, "diff", case.images, *DIFF, "--reports=kept")
    assert job.returncode == ExitCode.TERMINATED
    said = "interrupted; finished work is kept. Continue with:"
    assert f"{said}\n  alignkit diff " in job.stderr
    assert "Traceback" not in job.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("engine", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_an_interrupted_engine_leaves_no_process_and_no_trace(case, sent, engine, library):
    pytest.importorskip(library)
    job = signalled(case, sent, "diff", case.images, *DIFF, f"--engine={engine}", "--workers=2")
    # Ray turns SIGTERM into Ctrl-C while it waits; its own handler would exit with 1, a drift
    ends = [ExitCode.INTERRUPTED, ExitCode.TERMINATED]
    assert job.returncode in (ends if engine == "ray" else [128 + sent])
    assert job.stderr.endswith(
        f"interrupted. Begin again with:\n  alignkit {' '.join(job.args[3:])}\n"
    )


def signalled(case, sent, *command):
    """Send a signal to a command and its processes, once they work; return how it ended."""
    first = next(case.images.iterdir())
    for number in range(300):
        os.link(first, case.images / f"more-{number}{first.suffix}")
    words = [sys.executable, "-m", "alignkit", *map(str, command), "--progress", "plain"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True,
    ) as job:  # fmt: skip
        try:
            begun = ""
            while ": 0 of " not in begun:
                begun = job.stderr.readline()
                assert begun, "it ended before it compared an image"
            os.killpg(job.pid, sent)
            out, err = job.communicate(timeout=300)
            until = time.monotonic() + 300  # a process that the signal ended may take a moment
            while (left := running(job.pid)) and time.monotonic() < until:
                time.sleep(0.05)
            assert not left
        finally:
            job.kill()
    return subprocess.CompletedProcess(words, job.returncode, out, err)


def running(group):
    """List the processes of a group that still run.

    A process that ended but whose parent has not read its exit code (a zombie) does not run: the
    machine's first process reads it when it comes to it.
    """
    listed = subprocess.run(
        ["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [line.split(maxsplit=2) for line in listed]
    return [row for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


def test_a_library_that_never_returns_changes_no_exit_code():
    # as Ray's shutdown while its head stands still: Python's end would crash such a process
    lines = """
import atexit, sys, threading, time
from alignkit.cli import main
from alignkit.errors import STUCK
atexit.register(print, "an orderly end")
threading.Thread(target=time.sleep, args=(600,), name=STUCK, daemon=True).start()
sys.argv = ["alignkit", *sys.argv[1:]]
main()
"""
    for command, code in ((["--version"], 0), (["check", "no-such-file.yaml"], 2)):
        line = [sys.executable, "-c", lines, *command]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=300)
        assert (done.returncode, "an orderly end" in done.stdout) == (code, False)
        # nothing said is lost
        assert "alignkit " in done.stdout if not code else "no-such-file.yaml" in done.stderr
