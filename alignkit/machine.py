"""Processor, GPU, vector extensions and memory of this machine; messages of its C libraries."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
VECTORS = re.compile(r"s?sse|avx|amx|fma|f16c|asimd|neon|sve|sme(?!p)|i8mm|bf16")
"""Beginnings of the names of extensions that change arithmetic, on x86 and on ARM.

``smep`` is not one: it protects memory.
"""


def cpu_name() -> str:
    """Return the processor's model name, or its architecture if that is all that is known."""
    named = _field(CPUINFO, "model name")
    return named or platform.processor() or platform.machine()


def processor_flags() -> frozenset[str]:
    """Return the processor's features as Linux names them; empty where it names none."""
    # x86 has "flags", ARM has "Features"
    return frozenset((_field(CPUINFO, "flags") or _field(CPUINFO, "Features")).split())


def vector_extensions() -> str:
    """Return the vector extensions in alphabetical order, or say that they are unknown.

    Every runtime chooses its kernels by them, and other kernels give other bits.
    """
    extensions = sorted(flag for flag in processor_flags() if VECTORS.match(flag))
    return " ".join(extensions) or f"unknown on {platform.system()} {platform.machine()}"


@cache  # the kernel takes milliseconds to write the file on a machine with many processors
def _field(cpuinfo: Path, name: str) -> str:
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


DRIVER = Path("/proc/driver/nvidia")


@cache  # keys of lots ask for it, and nvidia-smi takes up to a second
def gpu_name() -> str:
    """Return every NVIDIA GPU's name with the driver; ``none`` if the driver shows none."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        answer = command_output(query)
        if answer:
            cells = [line.split(", ") for line in answer.splitlines()]
            return "; ".join(f"{cell[0]}, driver {cell[-1]}" for cell in cells)
    # the driver's own files, without its tools: the program may be absent or fail in a container
    cards = sorted(DRIVER.glob("gpus/*/information"))
    names = [
        line.partition(":")[2].strip()
        for card in cards
        for line in card.read_text().splitlines()
        if line.startswith("Model")
    ]
    return "; ".join(names) or "none"


@cache
def compute_capabilities() -> tuple[str, ...]:
    """Return the compute capability of every NVIDIA GPU, as ``9.0``; empty if nobody tells."""
    if not shutil.which("nvidia-smi"):
        return ()
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    return tuple(command_output(query).split())


def command_output(command: list[str]) -> str:
    """Return what a program prints; empty if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)  # noqa: S603 - fixed programs
    return done.stdout.strip() if done.returncode == 0 else ""


def available_bytes() -> int | None:
    """Return the memory available without swapping, or that left in the control group if less.

    ``None`` without ``/proc/meminfo``.
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    # a container's limit is not in meminfo, which shows the memory of the whole machine
    rest = _group_rest()
    return min([*free, *([] if rest is None else [rest])], default=None)


def _group_rest(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    try:
        limit, used = (
            (group / f"memory.{name}").read_text().strip() for name in ("max", "current")
        )
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used))


@contextmanager
def without_messages() -> Iterator[None]:
    """Drop the lines that C libraries write to stdout or stderr, where these are open."""
    kept = {}
    for number, stream in enumerate((sys.stdout, sys.stderr), 1):
        if stream is not None:  # as in a program without a console
            stream.flush()
        with suppress(OSError):
            kept[number] = os.dup(number)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, own in kept.items():
            os.dup2(own, number)
            os.close(own)
        os.close(nowhere)
