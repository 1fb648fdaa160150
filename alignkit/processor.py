"""The processor of this machine: its name, and the vector extensions that its kernels choose by."""

from __future__ import annotations

import platform
import re
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
