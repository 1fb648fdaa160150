"""A decoder with planted faults, and the environment in which it is installed as another's package."""

import os
import threading
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar

from alignkit.decoders import Decoded
from alignkit.decoders.opencv import OpenCVDecoder
from tests import outside

ROOT = Path(__file__).parents[1]
KEPT, NUMBERS, ONE = [], count(1), threading.Lock()


@dataclass(frozen=True, slots=True)
class Planted:
    """OpenCV, with a delay or a leak, or with a fault at the image of a number, from 1."""

    orients: ClassVar[bool] = False
    note: int = 0
    """Makes another path of it and changes nothing."""
    milliseconds: float = 0.0
    leaks: int = 0
    """Bytes an image."""
    stalls: int = 0
    """At this image nobody decodes for a second."""
    dies: int = 0
    hangs: int = 0

    def decode(self, encoded: bytes) -> Decoded:
        until = time.perf_counter() + self.milliseconds / 1000
        while time.perf_counter() < until:  # a sleep ends late, and caches go cold meanwhile
            pass
        if self.leaks:
            KEPT.append(os.urandom(self.leaks))
        with ONE:
            number = next(NUMBERS)
            if number == self.stalls:
                time.sleep(1)
            if number == self.dies:
                os.abort()
        if number == self.hangs:
            threading.Event().wait()
        return OpenCVDecoder().decode(encoded)

    def version(self) -> str:
        return OpenCVDecoder().version()


def environment_with_it(folder: Path) -> dict[str, str]:
    """Install the decoder below ``folder``; return the variables of a process that finds it."""
    plugin = {"planted": "tests.planted_decoder:Planted"}
    site = outside.installed(folder / "site", "alignkit-planted", plugin)
    return os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
