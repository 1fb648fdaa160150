"""Bounds of a graph: tried on one black image in a process that may be killed, ended by time.

A file of a kilobyte may hold a loop without an end, or ask for more memory than the machine has;
and ONNX Runtime dies of a segmentation fault while it optimises some float16 graphs (1.31, vision
transformers). None of it may end the run. A graph that does so only with other images than a
black one is ended between two of its nodes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from alignkit.errors import BackendError
from alignkit.isolation import Limits, process_wide
from alignkit.isolation.worker import Begin, Encoded, WarmUpDied, Work
from alignkit.limits import MODEL_BYTES, MODEL_SECONDS
from alignkit.machine import available_bytes, resident_bytes
from alignkit.stored_file import file_sha256
from alignkit.torch_settings import available_threads

_LOADING, _RUNNING = range(2)
_TICK = 0.1
"""Seconds between two looks at the graphs that run."""


def require_bearable(file: Path, size: tuple[int, int]) -> None:
    """Try a user's graph on one black image of (height, width).

    Raise `BackendError` if it takes more time or memory than `alignkit.limits` allow, or ends the
    process. The backend that opens it says why it does not run.
    """
    if reason := _tried(file, file_sha256(file), size, MODEL_SECONDS(), MODEL_BYTES()):
        raise BackendError(
            f"{file} was tried on one black image: {reason}; {MODEL_SECONDS.variable} and "
            f"{MODEL_BYTES.variable} set other limits"
        )


@lru_cache(maxsize=64)
def _tried(file: Path, sha256: str, size: tuple[int, int], seconds: float, memory: float) -> str:
    """Try a file of this content once; another content has another SHA-256."""
    del sha256
    return trial(file.read_bytes(), "ORT_ENABLE_ALL", size, seconds, memory)


def trial(
    graph: bytes,
    level: str,
    size: tuple[int, int] | None = None,
    seconds: float = 0,
    memory: float = 0,
) -> str:
    """Open a graph at an optimisation level, and run it on one image if a size is given.

    Return how it ended the process; empty if it did not.
    """
    allowed = memory or MODEL_BYTES()
    limits = Limits(seconds or MODEL_SECONDS(), int(min(allowed, available_bytes() or allowed)))
    work: Work[str] = _Trial(level, size, available_threads())
    try:
        (died,) = process_wide().run(work, [Encoded("", graph)], processes=1, limits=limits)
    except WarmUpDied as error:
        return str(error)
    return died


@dataclass(frozen=True, slots=True)
class _Trial:
    """The work of the process: its "image" is a graph."""

    level: str
    size: tuple[int, int] | None
    threads: int

    def warm_up(self, begin: Begin) -> None:
        begin(0, _LOADING)
        import onnxruntime  # noqa: F401 - its time is not the graph's

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> str:
        (image,) = images
        if image.lost:
            return "; ".join(reason for _, reason in image.lost)
        try:
            self._try(image.data, begin)
        except Exception:  # noqa: BLE001 - the session that is opened next tells it
            return ""
        return ""

    def _try(self, graph: bytes, begin: Begin) -> None:
        import numpy as np
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = self.threads
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, self.level)
        begin(0, _LOADING)
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        begin(0, _RUNNING)
        if self.size:
            given = session.get_inputs()
            session.run(None, {each.name: _black(np, each, self.size) for each in given})


def _black(np: Any, given: Any, size: tuple[int, int]) -> Any:
    """Make a black image for an input; a side that is left open is that of the image."""
    name = given.type.removeprefix("tensor(").removesuffix(")")
    channels_last = len(given.shape) == 4 and given.shape[3] in (1, 3)
    usual = (1, *size, 3) if channels_last else (1, 3, *size)
    sides = zip(given.shape, (*usual, *[1] * len(given.shape)), strict=False)
    shape = [side if isinstance(side, int) else other for side, other in sides]
    return np.zeros(shape, {"float": "float32", "double": "float64"}.get(name, name))


@dataclass(slots=True)
class _Run:
    """A run of a graph that is watched."""

    options: Any
    """Its ``RunOptions``."""
    ends: float
    resident: int = 0
    """Bytes that the process took when it was first looked at."""
    reason: str = ""
    """Why it is ended; empty if it is not."""

    def look(self) -> None:
        """End it once it takes too long, or more memory than allowed and than is left."""
        self.resident = self.resident or resident_bytes()
        taken = resident_bytes() - self.resident
        if time.monotonic() > self.ends:
            self.reason = MODEL_SECONDS.exceeded()
        elif taken > max(MODEL_BYTES(), available_bytes() or taken):
            self.reason = MODEL_BYTES.exceeded()
        if self.reason:
            self.options.terminate = True


_RUNS: dict[int, _Run] = {}
_watching: dict[int, threading.Thread] = {}
"""The thread that looks at them, by process: a forked one has none."""


def bounded_run(session: Any, outputs: Sequence[str], fed: dict[str, Any]) -> list[Any]:
    """Run a graph on a batch; raise `BackendError` if it is beyond `MODEL_SECONDS` an image."""
    import onnxruntime

    if os.getpid() not in _watching:
        thread = threading.Thread(target=_watch, daemon=True, name="alignkit-graphs")
        _watching[os.getpid()] = thread
        thread.start()
    images = max(len(each) for each in fed.values())
    ends = time.monotonic() + MODEL_SECONDS() * images
    run = _Run(onnxruntime.RunOptions(), ends)
    _RUNS[id(run)] = run
    try:
        found: list[Any] = session.run([*outputs], fed, run.options)
    except Exception as error:
        if run.reason:
            raise BackendError(f"on {images} images the graph takes {run.reason}") from error
        raise
    finally:
        del _RUNS[id(run)]
    return found


def _watch() -> None:
    while True:
        time.sleep(_TICK)
        for run in [*_RUNS.values()]:
            run.look()
