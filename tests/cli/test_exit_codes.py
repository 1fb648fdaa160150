"""Every exit code of the README's table, each reached by a gate on files on disk."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignkit.errors import ExitCode
from alignkit.record import LatencyFacts
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
        return alignkit("gate", file, "--reports", case.reports, "-q", "--no-report", *more)

    return call


def test_the_readme_lists_the_codes_there_are():
    table = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
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


def test_7_is_a_measurement_too_noisy_to_decide_where_the_file_says_that_fails(
    gate, case, monkeypatch
):
    quiet, noisy = (10.0,) * 9, (9.0, 14.0, 11.0, 16.0, 10.0, 15.0, 12.0, 9.5, 13.0)
    timed = [
        LatencyFacts(
            part="preprocess",
            path=path,
            reference=path == "pillow",
            images=5,
            p50=rounds,
            p95=rounds,
        )
        for path, rounds in (("pillow", quiet), ("opencv", noisy))
    ]
    monkeypatch.setattr("alignkit.gate.gate_check.measure_latency", lambda *_: tuple(timed))
    file = case.write("{metric: latency.preprocess.p50, fail: 2}", also="on_inconclusive: fail")
    assert gate(file).code == ExitCode.INCONCLUSIVE
    assert gate(file, "--exit-zero").code == ExitCode.PASS
    assert gate(file, "--set", "gate.on_inconclusive=warn").code == ExitCode.PASS


def test_130_is_an_interrupt_while_an_image_is_read(case):
    pipe = case.images / "endless.jpg"
    os.mkfifo(pipe)
    file = case.write("{preset: strict}")
    file.write_text(file.read_text().replace(str(case.images), str(pipe)))
    command = [sys.executable, "-m", "alignkit", "gate", file, "-q", "--reports", case.reports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as job:
        try:
            end = opened(pipe, job)
            job.send_signal(signal.SIGINT)
            os.close(end)
            told, _ = job.communicate(timeout=60)
        finally:
            job.kill()
    assert job.returncode == ExitCode.INTERRUPTED
    assert "interrupted" in told


def opened(pipe, job):
    """The writing end, once the gate reads; a gate that ends before is an error and no wait."""
    while job.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
        time.sleep(0.02)
    raise AssertionError(f"the gate ended with {job.returncode} before it read an image")
