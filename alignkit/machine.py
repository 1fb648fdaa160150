"""The processor of this machine: its name, and the vector extensions that its kernels choose by."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
VECTORS = re.compile(r"s?sse|avx|amx|fma|f16c|asimd|neon|sve|sme(?!p)|i8mm|bf16")
"""How the names of extensions that change arithmetic begin, on x86 and on ARM.

``smep`` protects memory.
"""


def cpu_name() -> str:
    """The processor's model name, or at least its architecture."""
    named = _field(CPUINFO, "model name")
    return named or platform.processor() or platform.machine()


def processor_flags() -> frozenset[str]:
    """The processor's features as Linux names them; empty where it does not say."""
    # x86 has "flags", ARM has "Features"
    return frozenset((_field(CPUINFO, "flags") or _field(CPUINFO, "Features")).split())


def vector_extensions() -> str:
    """The vector extensions in alphabetical order, or that they are unknown.

    Every runtime chooses its kernels by them, and other kernels give other bits.
    """
    found = sorted(flag for flag in processor_flags() if VECTORS.match(flag))
    return " ".join(found) or f"unknown on {platform.system()} {platform.machine()}"


@cache  # the kernel takes milliseconds to write the file on a machine with many processors
def _field(cpuinfo: Path, name: str) -> str:
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


DRIVER = Path("/proc/driver/nvidia")


def gpu_name() -> str:
    """Every NVIDIA GPU's name, with the driver; ``none`` if the driver shows none."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        answer = _output(query)
        if answer:
            return "; ".join(f"{name}, driver {driver}" for name, driver in _pairs(answer))
    cards = sorted(DRIVER.glob("gpus/*/information"))
    names = [
        line.partition(":")[2].strip()
        for card in cards
        for line in card.read_text().splitlines()
        if line.startswith("Model")
    ]
    return "; ".join(names) or "none"


def _pairs(answer: str) -> list[tuple[str, str]]:
    cells = [line.split(", ") for line in answer.splitlines()]
    return [(cell[0], cell[-1]) for cell in cells]


def _output(command: list[str]) -> str:
    """What a program says; empty if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)  # noqa: S603 - fixed programs
    return done.stdout.strip() if done.returncode == 0 else ""
