"""CPUs, limits and contention, from files as Linux writes them."""

import os
import subprocess
import sys
import time

import pytest

from alignkit.errors import ConfigError
from alignkit.serve import cpu_use
from alignkit.serve.cpu_use import (
    CpuTimes,
    contention,
    cpu_quota,
    cpu_seconds,
    cpu_times,
    held_bytes,
    peak_bytes,
)

TICKS = os.sysconf("SC_CLK_TCK")
STAT = """\
cpu  0 0 0 0 0 0 0 0 0 0
cpu0 100 20 30 9000 50 6 4 7 90 9
cpu1 200 0 0 9000 0 0 0 1 0 0
cpu10 5000 0 0 0 0 0 0 0 0 0
intr 1 2
"""


@pytest.fixture
def system(tmp_path):
    """Write /proc and the control groups of a machine."""

    def write(groups: str, **files: str):
        (tmp_path / "proc" / "self").mkdir(parents=True)
        (tmp_path / "proc" / "stat").write_text(STAT)
        (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
        for name, text in files.items():
            path = tmp_path / "groups" / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "proc", tmp_path / "groups"

    return write


def test_the_least_limit_of_the_group_and_those_above_it_holds(system):
    limits = {"cpu_dot_max": "max 100000", "a__cpu_dot_max": "150000 100000",
              "a__b__cpu_dot_max": "400000 100000"}  # fmt: skip
    assert cpu_quota(*system("0::/a/b\n", **limits)) == 1.5


def test_the_first_version_has_a_quota_and_a_period(system):
    files = {"cpu__cpu_dot_cfs_quota_us": "300000\n", "cpu__cpu_dot_cfs_period_us": "100000\n"}
    assert cpu_quota(*system("2:cpuacct:/\n1:cpu:/\n0::/\n", **files)) == 3


@pytest.mark.parametrize("files", [{}, {"cpu_dot_max": "max 100000"}])
def test_no_limit_is_none(system, files):
    assert cpu_quota(*system("0::/\n", **files)) is None


def test_times_are_those_of_the_chosen_cpus(system):
    places = system("0::/\n", cpu_dot_stat="usage_usec 5\nthrottled_usec 2500000\n")
    assert cpu_times((0, 1), *places) == CpuTimes(360 / TICKS, 8 / TICKS, 2.5)
    assert cpu_times((0,), *places).busy == 160 / TICKS
    assert cpu_times((0, 7), *places) is None
    assert cpu_times((), *places) is None


def test_a_limit_above_the_group_holds_it_back_too(system):
    # a container may see its group as the one on top, and its path as that of the host
    files = {"cpu__cpu_dot_stat": "nr_throttled 3\nthrottled_time 1500000000\n"}
    places = system("4:memory:/host/name\n1:cpu:/host/name\n", **files)
    assert cpu_times((0,), *places).throttled == 1.5
    both = {"cpu_dot_stat": "throttled_usec 250000", "a__cpu_dot_stat": "throttled_usec 500000"}
    (places[0] / "self" / "cgroup").write_text("0::/a\n")
    for name, text in both.items():
        path = places[1] / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert cpu_times((0,), *places).throttled == 0.75


def windows(busy=0.0, stolen=0.0, throttled=0.0, seconds=9.0):
    return [(seconds / 9, CpuTimes(busy / 9, stolen / 9, throttled / 9))] * 9


@pytest.mark.parametrize(("times", "own", "said"), [
    (windows(busy=16), 16.0, ("", "")),
    (windows(busy=12), 9.0, ("other programs took 16\N{NO-BREAK SPACE}% of the CPU time", "")),
    (windows(busy=9.5), 9.0, ("", "")),
    (windows(busy=16, stolen=3), 16.0,
     ("the host took 16\N{NO-BREAK SPACE}% of the CPU time", "")),
    (windows(busy=16, throttled=4.5), 16.0,
     ("the control group's limit held it back for up to 50\N{NO-BREAK SPACE}% of the time", "")),
    (windows(busy=16), None, ("", "the endpoint may compute on the same CPUs")),
    # a sandbox whose times stand still
    (windows(), 9.0, ("", "this system does not count all work on its CPUs")),
    (windows(busy=0.2, seconds=0.9), 0.2, ("", "the rounds are too short to tell: give more requests")),
    ([(1.0, None)] * 9, 9.0, ("", "this system does not tell who computes on its CPUs")),
])  # fmt: skip
def test_a_busy_machine_is_said_to_be(monkeypatch, times, own, said):
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    assert contention(times, own=own, cpus=2) == said


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="of Linux")
def test_no_more_cpus_than_there_are():
    allowed = sorted(os.sched_getaffinity(0))
    assert cpu_use.chosen_cpus(None) == tuple(allowed)
    assert cpu_use.chosen_cpus(1) == (allowed[0],)
    with pytest.raises(ConfigError, match=f"this process may use {len(allowed)}"):
        cpu_use.chosen_cpus(len(allowed) + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_the_peak_is_the_processs_own(tmp_path):
    held = bytearray(os.urandom(1)) * (200 << 20)  # this process is large, and the child is not
    program = "import shutil, sys; shutil.copy('/proc/self/status', sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, tmp_path / "status"], check=True)
    assert 1 << 20 < peak_bytes(tmp_path / "status") < len(held)
    assert peak_bytes(tmp_path / "none") is None


MB = 1_000_000
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
PROGRAM = """
import sys
from multiprocessing import Process, Pipe
import mmap, os
def child(end):
    kept = bytearray(40_000_000); end.send(1); end.recv()
ours, theirs = Pipe()
worker = Process(target=child, args=[theirs]); worker.start(); ours.recv()
memory = os.memfd_create("batch"); os.write(memory, bytes(30_000_000))
print(flush=True); sys.stdin.readline()
kept = bytearray(20_000_000)
print(flush=True); sys.stdin.readline()
os.close(memory); ours.send(1); worker.join()
print(flush=True); sys.stdin.readline()
"""


@LINUX
def test_workers_and_shared_memory_count_once_and_the_ended_do_not():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        held = []
        for _ in range(3):
            process.stdout.readline()
            held.append(held_bytes(process.pid))
            process.stdin.write(b"\n")
            process.stdin.flush()
    first, second, third = held
    assert second - first == pytest.approx(20 * MB, abs=MB)
    # the worker's 40 MB, the file's 30, and little besides
    assert second - third == pytest.approx(70 * MB, abs=5 * MB)
    assert held_bytes(process.pid) is None


@LINUX
def test_a_system_that_does_not_tell_is_not_zero(tmp_path):
    own = tmp_path / str(os.getpid())
    (own / "fd").mkdir(parents=True)
    (own / "smaps_rollup").write_text("Rss: 100 kB\nPss: 90 kB\n")
    assert held_bytes(os.getpid(), tmp_path) is None


@LINUX
def test_the_time_of_a_worker_counts():
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    program = (
        "import multiprocessing, sys\n"
        f"def work(): exec({spin!r}); ready.set(); stop.wait()\n"
        "ready, stop = multiprocessing.Event(), multiprocessing.Event()\n"
        "worker = multiprocessing.Process(target=work); worker.start(); ready.wait()\n"
        "print(flush=True); sys.stdin.readline(); stop.set(); worker.join()\n"
    )
    before = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        used, passed = cpu_seconds(process.pid), time.monotonic() - before
        process.stdin.write(b"\n")
    assert 0.28 <= used <= passed * (os.cpu_count() or 1)
    assert cpu_seconds(process.pid) == 0
