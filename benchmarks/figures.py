"""Figures of a benchmark: ratios with their spread, and the machine, as text and one JSON line.

A benchmark runs its sides in turn (`alternate`), so that a slower minute slows all of them, and
ends with ``show([Figure("what / of what", ratios, at_least=0.85), …])``. `bench.py` collects the
JSON lines and writes the table of docs/performance.md.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alignkit.machine import cpu_name, processor_flags, vector_extensions

LOAD_AT_START = os.getloadavg()[0]
"""Load of the last minute when this module was imported, before anything is measured."""
QUIET = 1.2
"""Load per core above which a machine is called busy."""
FAMILIES = {
    "AVX2": {"avx2"},
    "AVX-512": {"avx512f"},
    "VNNI": {"avx_vnni", "avx512_vnni"},
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "AMX": {"amx_tile"},
    "NEON": {"asimd"},
    "SVE": {"sve"},
}
"""Names for people → the processor's features, any of which shows that it has the extension."""
LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")
"""Environment variables that hide extensions from torch, so that a server runs as a laptop."""


@dataclass(frozen=True)
class Figure:
    """A ratio of two sides of one run, measured in several rounds; another `unit` says otherwise.

    `at_least` or `at_most` is the target of the median, if there is one.
    """

    what: str
    rounds: Sequence[float]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    @property
    def asked(self) -> str:
        """The target in words; empty without one."""
        for words, bound in (("at least", self.at_least), ("at most", self.at_most)):
            if bound is not None:
                return f"{words} {bound:g} {self.unit}".rstrip()
        return ""

    @property
    def met(self) -> bool | None:
        """Whether the median meets the target; None without one."""
        median = statistics.median(self.rounds)
        if self.at_least is not None:
            return median >= self.at_least
        return None if self.at_most is None else median <= self.at_most

    @property
    def measured(self) -> str:
        """Median and range of the rounds, e.g. ``0.84 (0.81 to 0.86)``."""
        shown = [f"{each:.3g}" for each in (min(self.rounds), max(self.rounds))]
        spread = f" ({shown[0]} to {shown[1]})" if len(self.rounds) > 1 else ""
        return f"{statistics.median(self.rounds):.3g}{spread} {self.unit}".rstrip()

    def as_json(self) -> dict[str, object]:
        """Return everything that a table or a later comparison needs."""
        return {
            "what": self.what,
            "median": statistics.median(self.rounds),
            "lowest": min(self.rounds),
            "highest": max(self.rounds),
            "rounds": len(self.rounds),
            "unit": self.unit or "ratio",
            "asked": self.asked,
            "met": self.met,
            "measured": self.measured,
        }


@dataclass(frozen=True)
class Cost:
    """Time of one piece of work in seconds: of the clock, and of processors, children included."""

    wall: float
    cpu: float


def cost(work: Callable[[], object]) -> Cost:
    """Do the work once and measure it; a child counts once it has ended and was waited for."""
    began, used = time.perf_counter(), _cpu_seconds()
    work()
    return Cost(time.perf_counter() - began, _cpu_seconds() - used)


def alternate(
    works: Mapping[str, Callable[[], object]], rounds: int, *, warm_up: bool = True
) -> dict[str, list[Cost]]:
    """Do all works in turn in each round, after one that is not counted; return their costs."""
    if warm_up:
        for work in works.values():
            work()
    found: dict[str, list[Cost]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(cost(work))
    return found


def ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Divide round by round."""
    return [left / right for left, right in zip(one, other, strict=True)]


def machine() -> dict[str, object]:
    """Return the processor, its vector extensions and how busy the machine was at the start."""
    cores = os.cpu_count() or 1
    families = [name for name, flags in FAMILIES.items() if flags & processor_flags()]
    return {
        "processor": cpu_name(),
        "families": families,
        "extensions": vector_extensions().split(),
        "limits": {name: os.environ[name] for name in LIMITS if name in os.environ},
        "cores": cores,
        "load": round(LOAD_AT_START, 2),
        "busy": QUIET * cores < LOAD_AT_START,
        "python": platform.python_version(),
    }


def machine_in_words(found: dict | None = None) -> str:
    """Describe the machine in one line, which never calls a busy one quiet."""
    found = found or machine()
    limits = "".join(f", {name}={value}" for name, value in found["limits"].items())
    state = (
        f"BUSY at the start: load {found['load']}, above {QUIET} per core, so these are not the "
        "figures of a quiet machine"
        if found["busy"]
        else f"load {found['load']} at the start"
    )
    extensions = ", ".join(found["families"]) or "no known vector extensions"
    return f"{found['processor']} ({extensions}{limits}), {found['cores']} cores, {state}"


def show(figures: Sequence[Figure]) -> None:
    """Print the figures and the machine, then the same as one JSON line with the script's name."""
    width = max(len(each.what) for each in figures)
    for each in figures:
        missed = {True: ", met", False: ", MISSED", None: ""}[each.met]
        asked = f"  asked: {each.asked}{missed}" if each.asked else ""
        print(f"{each.what:{width}}  {each.measured}{asked}")
    print(machine_in_words())
    name = Path(sys.argv[0]).stem
    found = {"benchmark": name, "figures": [each.as_json() for each in figures], **machine()}
    print(json.dumps(found, ensure_ascii=False), flush=True)


def _cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime
