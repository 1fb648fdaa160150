"""The processor and the GPU of this machine, read without importing any library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

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
