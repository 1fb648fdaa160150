"""A driver and workers killed at random moments: the same command ends with the same record."""

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

TIMES = int(os.environ.get("ALIGNKIT_TEST_KILLS", "10"))


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


def is_worker(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


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
def test_a_killed_driver_and_killed_workers_change_no_number(tmp_path):
    pytest.importorskip("distributed")
    folder = tmp_path / "images"
    folder.mkdir()
    for place in range(5 * IMAGES_A_LOT + 100):
        image = photo(height=20 + place % 9, width=24 + place % 7)
        (folder / f"{place:05}.jpg").write_bytes(encoded(image, quality=60 + place % 40))
    command = [sys.executable, "-m", "alignkit", "diff", str(folder), "--size", "24", "-q",
               "-p", "opencv-train,tensorflow-surrogate"]  # fmt: skip
    expected = tmp_path / "expected.json"
    subprocess.run([*command, "--out", f"json={expected}"], check=True, stdout=subprocess.DEVNULL)
    draw = random.Random(22)
    for time_of in range(TIMES):
        reports, out = tmp_path / f"reports-{time_of}", tmp_path / f"{time_of}.json"
        again = [*command, "--engine", "dask", "--workers", "2", "--reports", str(reports),
                 "--out", f"json={out}"]  # fmt: skip
        driver = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(map(is_worker, children(driver.pid))):
            time.sleep(0.1)
        for _ in range(2):
            time.sleep(draw.uniform(0, 4))
            for victim in [each for each in children(driver.pid) if is_worker(each)][:1]:
                os.kill(victim, signal.SIGKILL)
        time.sleep(draw.uniform(0, 4))
        driver.kill()
        driver.wait()
        subprocess.run(again, check=True, stdout=subprocess.DEVNULL, timeout=600)
        assert facts(out) == facts(expected)
