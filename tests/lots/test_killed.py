"""Drivers and workers killed at random moments, and heads: the same command gives the same record."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignkit.lots import IMAGES_A_LOT
from tests.photos import encoded, photo

TIMES = int(os.environ.get("ALIGNKIT_TEST_KILLS", "2"))
ENGINES = {
    "local": [],
    "dask": ["--engine", "dask", "--workers", "2"],
    "ray": ["--engine", "ray", "--workers", "2"],
}
LIBRARIES = {"local": "numpy", "dask": "distributed", "ray": "ray"}
WORKERS = {"local": b"alignkit.isolation.zygote", "dask": b"spawn_main", "ray": b"ray::Worker"}
"""What the command lines of workers hold; without an engine, they are forked by a zygote."""


def children(of: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, parent = int(file.parent.name), int(file.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == of:
            found += [pid, *children(pid)]
    return found


def named(of: int, name: bytes) -> list[int]:
    """The processes below another one whose command line holds a name."""
    found = []
    for pid in children(of):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [pid] * (name in line)
    return found


def workers(driver: int, engine: str) -> list[int]:
    found = named(driver, WORKERS[engine])
    # the first is the zygote, which is not killed: it is no worker, and its end is that of all
    return found[1:] if engine == "local" else found


def first_workers(driver: subprocess.Popen, engine: str) -> list[int]:
    """Wait for the workers of a command that has begun."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and driver.poll() is None:
        if found := workers(driver.pid, engine):
            return found
        time.sleep(0.02)
    return []


def diff_of(folder: Path) -> list[str]:
    """Make images of five lots and a part; return the command that compares them."""
    folder.mkdir()
    for place in range(5 * IMAGES_A_LOT + 100):
        image = photo(height=20 + place % 9, width=24 + place % 7)
        (folder / f"{place:05}.jpg").write_bytes(encoded(image, quality=60 + place % 40))
    return [sys.executable, "-m", "alignkit", "diff", str(folder), "--size", "24", "-q",
            "-p", "opencv-train,tensorflow-surrogate"]  # fmt: skip


def facts(file: Path) -> dict:
    content = json.loads(file.read_text())
    # the seal is of the text, times included
    return {
        key: value
        for key, value in content.items()
        if key not in ("command", "started", "seconds", "sha256", "environment")
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_driver_and_killed_workers_change_no_number(engine, tmp_path):
    pytest.importorskip(LIBRARIES[engine])
    command = diff_of(tmp_path / "images")
    expected = tmp_path / "expected.json"
    subprocess.run([*command, "--out", f"json={expected}"], check=True, stdout=subprocess.DEVNULL)
    draw = random.Random(22)
    killed = {"drivers": 0, "workers": 0}
    for time_of in range(TIMES):
        reports, out = tmp_path / f"reports-{time_of}", tmp_path / f"{time_of}.json"
        again = [*command, *ENGINES[engine], "--reports", str(reports), "--out", f"json={out}"]
        driver = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first_workers(driver, engine)
        patience = 0.5 if engine == "local" else 3
        for _ in range(2):
            time.sleep(draw.uniform(0, patience))
            for victim in workers(driver.pid, engine)[:1]:
                os.kill(victim, signal.SIGKILL)
                killed["workers"] += 1
        time.sleep(draw.uniform(0, patience))
        killed["drivers"] += driver.poll() is None
        driver.kill()
        driver.wait()
        subprocess.run(again, check=True, stdout=subprocess.DEVNULL, timeout=600)
        assert facts(out) == facts(expected)
    print(f"{engine}: {TIMES} commands, killed {killed}")
    assert killed["workers"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda sent: sent.name)
def test_a_head_of_ray_that_ends_or_stands_still_never_hangs_the_command(sent, tmp_path):
    pytest.importorskip("ray")
    command = diff_of(tmp_path / "images")
    expected, out = tmp_path / "expected.json", tmp_path / "out.json"
    subprocess.run([*command, "--out", f"json={expected}"], check=True, stdout=subprocess.DEVNULL)
    again = [*command, *ENGINES["ray"], "--reports", str(tmp_path / "reports"),
             "--out", f"json={out}"]  # fmt: skip
    driver = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert first_workers(driver, "ray")
    (head,) = named(driver.pid, b"gcs_server")
    os.kill(head, sent)
    try:
        _, said = driver.communicate(timeout=240)
    finally:
        driver.kill()
    assert "Traceback" not in said
    if driver.returncode:  # lots were left that no worker had
        assert driver.returncode == 3
        assert "ray: the head does not answer" in said
        subprocess.run(again, check=True, stdout=subprocess.DEVNULL, timeout=600)
    assert facts(out) == facts(expected)
