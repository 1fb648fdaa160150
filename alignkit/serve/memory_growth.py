"""Growth of memory over epochs, such as the passes of a loader or rounds of requests.

Read the memory of a process with its workers at the end of every epoch, then ask for the growth.
One series shows a *leak* if it rises by more than the noise, and goes on rising:

- the interval of its slope lies above 0;
- it lies above the slopes that a control may have: a process that does the same and keeps nothing
  (A/A), whose memory moves as the allocator likes;
- in all it is at least 1 MB: allocators take memory in steps (glibc 132 KB, for each arena). A
  smaller rise may be a few of them, and a smaller leak needs more epochs to be seen;
- each half of the epochs shows the same by itself, and the second at least 9/10 of the first: an
  allocator that fills its pools, or a buffer that is made late, rises for a while or once.

The interval takes the noise of epochs as independent. Memory is not: what an epoch left is there
in the next one. So the interval alone finds leaks where none is: for 12 epochs of a random walk in
27 of 100 cases. The other conditions are for that, and leave fewer than 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from alignkit.compare.trend import LEAST_FOR_A_SLOPE, theil_sen
from alignkit.record import Estimate
from alignkit.record.memory_facts import MemoryGrowth

_PROC = Path("/proc")
_COUNTED = re.compile(r"^(Pss_Anon|Pss_Shmem|SwapPss): +(\d+) kB$", re.MULTILINE)
_SHARED = ("/dev/shm/", "/memfd:")  # noqa: S108 - read, not written
LEAST_EPOCHS = 2 * LEAST_FOR_A_SLOPE
"""Epochs from which on each half has an interval too."""
_FADED = 0.9
"""Share of the first half's growth below which the second fades. Without noise the intervals are so
narrow that any less would do, and a leak is seldom equal to a thousandth."""
LEAST_RISE = 1_000_000
"""Bytes of a rise over all epochs that no few steps of an allocator make."""


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
            sizes = dict(_COUNTED.findall((proc / str(each) / "smaps_rollup").read_text()))
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


def memory_growth(held: Sequence[int], control: Sequence[int]) -> MemoryGrowth:
    """Judge the memory at the end of each epoch after the warm-up, in bytes.

    ``control`` is that of the A/A, with as many epochs or more. Raises `ValueError` without any
    epoch.
    """
    if not held:
        raise ValueError("there is no epoch")
    slope = theil_sen(held)
    part = (len(held) + 1) // 2
    halves = theil_sen(held[:part]), theil_sen(held[-part:])
    high = theil_sen(control).high
    floor = None if high is None else max(high, LEAST_RISE / max(1, len(held) - 1))
    leak, reason = _shown(slope, halves, floor, len(held))
    return MemoryGrowth(
        held=tuple(held), slope=slope, halves=halves, floor=floor, leak=leak, reason=reason
    )


def _shown(
    slope: Estimate, halves: tuple[Estimate, Estimate], floor: float | None, epochs: int
) -> tuple[bool | None, str]:
    if epochs < LEAST_EPOCHS or slope.low is None:
        return None, f"{epochs} epochs are too few, {LEAST_EPOCHS} tell growth from a step"
    if floor is None:
        return None, f"the control has fewer than {LEAST_FOR_A_SLOPE} epochs"
    reason = _against(slope.low, halves, floor)
    return (
        not reason,
        reason or "steady, and more than the control's; more epochs tell whether it ends",
    )


def _against(low: float, halves: tuple[Estimate, Estimate], floor: float) -> str:
    """Say why a slope, with this low end, shows no leak; empty if it shows one."""
    if low <= 0:
        return "the interval holds 0"
    if low <= floor:
        return "the control, or steps of an allocator, may grow as much"
    for name, half in zip(("first", "second"), halves, strict=True):
        if half.low is None or half.low <= floor:
            return f"the {name} half alone does not show it"
    first, second = halves
    if first.low is not None and second.high is not None and second.high < _FADED * first.low:
        return "it fades: the second half grows less than the first"
    return ""
