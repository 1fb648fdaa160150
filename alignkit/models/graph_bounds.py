"""Limits of a user's ONNX graph: it is tried in a process of its own, and its runs are watched.

A file of a kilobyte may hold a loop without an end, or ask for more memory than the machine has;
and ONNX Runtime dies of a segmentation fault while it optimises some float16 graphs (1.31, vision
transformers). None of it may end the run. The trial is on one black image; a graph that misbehaves
on real images alone is stopped between two of its nodes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
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
    if reason := _tried(file, size, file_sha256(file), MODEL_SECONDS(), MODEL_BYTES()):
        raise BackendError(reason)


@lru_cache(maxsize=64)
def _tried(file: Path, size: tuple[int, int], *_key: object) -> str:
    """Try a file once; another content has another SHA-256 in the key, as have other limits."""
    return unbearable(file, file.read_bytes(), size)


def unbearable(file: Path, graph: bytes, size: tuple[int, int]) -> str:
    """Say how the graph made of a user's file fails the trial of `require_bearable`, else empty."""
    if not (reason := trial(graph, "ORT_ENABLE_ALL", size)):
        return ""
    return (
        f"{file} was tried on one black image: {reason}; {MODEL_SECONDS.variable} and "
        f"{MODEL_BYTES.variable} set other limits"
    )


def trial(graph: bytes, level: str, size: tuple[int, int] | None = None) -> str:
    """Open a graph at an optimisation level, and run it on one image if a size is given.

    It takes (n, 3, height, width) float32. Return how it ended the process; empty if it did not.
    """
    allowed = MODEL_BYTES()
    limits = Limits(MODEL_SECONDS(), int(min(allowed, available_bytes() or allowed)))
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
        with suppress(Exception):  # the session that is opened next tells it
            self._try(image.data, begin)
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
            (given,) = session.get_inputs()
            sides = zip(given.shape, (1, 3, *self.size), strict=True)
            # a side that is left open is a name; some exporters write 0 or -1
            shape = [own if isinstance(own, int) and own > 0 else side for own, side in sides]
            session.run(None, {given.name: np.zeros(shape, np.float32)})


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
    """Run a graph on a batch.

    Raise `BackendError` if it takes more than `MODEL_SECONDS` for each image, or `MODEL_BYTES`.
    """
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
