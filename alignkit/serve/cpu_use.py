"""CPUs and memory of a bench: which it may use, who else computes on them, what a process took.

The system tells all of it on Linux alone; elsewhere the answer is ``None``, and a figure says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from alignkit.errors import ConfigError

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
BUSY_SHARE = 0.05
"""Share of the bench's CPU time from which on other programs, or the host, contend for it."""
_BUSY = (0, 1, 2, 5, 6)
"""Columns of /proc/stat that count computing: user, nice, system, irq, softirq (proc_stat(5))."""
_STEAL = 7
_HELD = re.compile(r"^(Pss_Anon|Pss_Shmem|SwapPss): +(\d+) kB$", re.MULTILINE)
_SHARED = ("/dev/shm/", "/memfd:")  # noqa: S108 - read, not written


def chosen_cpus(wanted: int | None) -> tuple[int, ...]:
    """Choose the first CPUs that this process may use, all without a number.

    Empty where a process cannot be held to CPUs. Raises `ConfigError` for more than
    there are, and for any number where none can be kept.
    """
    if not hasattr(os, "sched_setaffinity"):
        if wanted is not None:
            raise ConfigError("--cpus: this system cannot hold a process to CPUs; leave it out")
        return ()
    allowed = sorted(os.sched_getaffinity(0))
    if wanted is None:
        return tuple(allowed)
    if wanted > len(allowed):
        raise ConfigError(f"--cpus {wanted}: this process may use {len(allowed)}")
    return tuple(allowed[:wanted])


def cpu_quota(proc: Path = _PROC, groups: Path = _GROUPS) -> float | None:
    """Return how many CPUs the control groups of this process allow; ``None`` without a limit.

    ``proc`` and ``groups`` are /proc and the mounted control groups, of version 1 or 2. The least
    limit of the group and of those above it holds.
    """
    limits = map(_limit, _groups_of_this_process(proc, groups))
    return min((each for each in limits if each is not None), default=None)


def _groups_of_this_process(proc: Path, groups: Path) -> Iterator[Path]:
    """Yield the folders of its groups for CPUs; each group precedes those above it."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / "cpu" if controllers else groups
        own = root / path.lstrip("/")
        yield from (own, *(each for each in own.parents if each.is_relative_to(root)))


def _limit(group: Path) -> float | None:
    """Read cpu.max, or the quota and period of version 1."""
    if found := _lines(group / "cpu.max"):
        quota, period = found[0].split()
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        both = [_lines(group / each) for each in names]
        if not all(both):
            return None
        quota, period = both[0][0], both[1][0]
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since the start of the machine that some CPUs spent in total."""

    busy: float
    """Computing, for any process."""
    stolen: float
    """Ready to compute, while the host ran something else."""
    throttled: float
    """Seconds that the control group, or one above it, was held back, added up over the CPUs; 0
    where none tells it."""

    def since(self, earlier: CpuTimes) -> CpuTimes:
        """Return what came in between."""
        return CpuTimes(
            self.busy - earlier.busy,
            self.stolen - earlier.stolen,
            self.throttled - earlier.throttled,
        )


def cpu_times(cpus: Sequence[int], proc: Path = _PROC, groups: Path = _GROUPS) -> CpuTimes | None:
    """Read the times of these CPUs; ``None`` where the system does not tell them."""
    wanted = {f"cpu{each}" for each in cpus}
    rows = [words[1:] for line in _lines(proc / "stat") if (words := line.split())[0] in wanted]
    if not wanted or len(rows) < len(wanted):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    busy = sum(int(row[column]) for row in rows for column in _BUSY)
    stolen = sum(int(row[_STEAL]) for row in rows)
    return CpuTimes(busy / ticks, stolen / ticks, _throttled(proc, groups))


def _throttled(proc: Path, groups: Path) -> float:
    # a container may see its own group as the one on top; each group counts its own limit alone
    return sum(
        (
            int(number) * _THROTTLED[name]
            for group in _groups_of_this_process(proc, groups)
            for name, _, number in (line.partition(" ") for line in _lines(group / "cpu.stat"))
            if name in _THROTTLED
        ),
        0.0,
    )


_THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""Name in cpu.stat, of version 2 and 1 → its unit in seconds."""


def load_average() -> tuple[float, ...]:
    """Return the machine's load over 1, 5 and 15 minutes; empty where it is not known."""
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


def peak_bytes(status: Path) -> int | None:
    """Read the greatest resident memory from a process's ``status`` file; ``None`` without it.

    `resource.getrusage` would give that of the process that started this one, if it was greater.
    """
    for line in _lines(status):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def contention(
    windows: Sequence[tuple[float, CpuTimes | None]], *, own: float | None, cpus: int
) -> tuple[str, str]:
    """Say why timings may be those of a busy machine, or why that is not known; else both empty.

    ``windows`` are the rounds: seconds, and what came of the CPUs meanwhile. ``own`` are the CPU
    seconds of the timed process; ``None`` if another process computes for it.
    """
    known = [used for _, used in windows if used is not None]
    if len(known) < len(windows):
        return "", "this system does not tell who computes on its CPUs"
    wall = sum(seconds for seconds, _ in windows)
    room = wall * cpus
    # the system counts in ticks, and each reading may miss the last one of every CPU
    missed = len(windows) * cpus / os.sysconf("SC_CLK_TCK")
    busy = sum(each.busy for each in known)
    stolen = sum(each.stolen for each in known) - missed
    throttled = sum(each.throttled for each in known)
    others = 0.0 if own is None else busy - own - missed
    reasons = []
    if stolen > BUSY_SHARE * room:
        reasons.append(f"the host took {_share(stolen, room)} of the CPU time")
    if throttled > BUSY_SHARE * wall:
        most = _share(throttled, wall)
        reasons.append(f"the control group's limit held it back for up to {most} of the time")
    if others > BUSY_SHARE * room:
        reasons.append(f"other programs took {_share(others, room)} of the CPU time")
    if reasons:
        return "; ".join(reasons), ""
    if own is None:
        return "", "the endpoint may compute on the same CPUs"
    # a sandbox may show times that stand still
    if own > 2 * busy + missed:
        return "", "this system does not count all work on its CPUs"
    short = "the rounds are too short to tell: give more requests"
    return "", short if missed > BUSY_SHARE * room else ""


def _share(part: float, whole: float) -> str:
    from alignkit.text.numbers import percent

    return percent(min(1.0, part / whole), 0)


def held_bytes(pid: int, proc: Path = _PROC) -> int | None:
    """Return the memory that a process and those below it hold and the system cannot drop, bytes.

    It is what a container's limit counts against them: anonymous pages, swapped ones too, and
    shared memory; pages that several processes map count once. Files and libraries in the cache are
    left out, as the system drops them when memory is short. ``None`` where the system does not tell
    (Linux before 5.9 and others), and for a process that has ended.
    """
    anonymous = mapped = 0
    shared: dict[tuple[int, int], int] = {}
    known = False
    for each in process_tree(pid, proc):
        try:
            sizes = dict(_HELD.findall((proc / str(each) / "smaps_rollup").read_text()))
            opened = _opened(each, proc)
        except (FileNotFoundError, ProcessLookupError):
            continue  # a worker that has just ended
        if "Pss_Anon" not in sizes:
            return None
        known |= each == pid
        anonymous += int(sizes["Pss_Anon"]) + int(sizes["SwapPss"])
        mapped += int(sizes["Pss_Shmem"])
        shared |= opened
    if not known:
        return None
    # A batch on its way from a worker is open in a process and mapped by none; one that has arrived
    # is both.
    return anonymous * 1024 + max(mapped * 1024, sum(shared.values()))


def process_tree(pid: int, proc: Path = _PROC) -> Iterator[int]:
    """Yield the numbers of a process and of all below it."""
    yield pid
    for file in (proc / str(pid) / "task").glob("*/children"):
        try:
            children = file.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from process_tree(int(child), proc)


def _opened(pid: int, proc: Path) -> dict[tuple[int, int], int]:
    """Return the shared memory that a process has open: device and number of the file → bytes."""
    found = {}
    for entry in (proc / str(pid) / "fd").iterdir():
        try:
            if str(entry.readlink()).startswith(_SHARED):
                facts = entry.stat()
                found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
        except FileNotFoundError:
            continue
    return found


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time that a process and those below it have used, in the system's ticks.

    ``None`` where the system does not tell it.
    """
    if not (_PROC / "self/stat").exists():
        return None
    ticks = 0
    for each in process_tree(pid):
        try:
            # the name, in brackets, may hold spaces; then follow the fields from the third on
            fields = (_PROC / str(each) / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
