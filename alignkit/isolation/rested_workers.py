"""`RestedWorkers`: workers between two calls of the same work, which need not be started again."""

from __future__ import annotations

import threading
from typing import Any

from alignkit.isolation.task import ImageWorker

REST_SECONDS = 60.0
"""Seconds that workers are kept without anything to do."""


class RestedWorkers:
    """Workers with nothing to do, all of one work; may be used from several threads."""

    def __init__(self) -> None:
        self._work = b""
        self._workers: list[ImageWorker[Any]] = []
        self._changing = threading.Lock()
        self._end: threading.Timer | None = None

    def take(self, work: bytes, most: int) -> list[ImageWorker[Any]]:
        """Give away workers of this work, which is pickled; end those of another."""
        with self._changing:
            self._change_to(work)
            taken, self._workers = self._workers[:most], self._workers[most:]
            return taken

    def keep(self, work: bytes, workers: list[ImageWorker[Any]]) -> None:
        """Take the ``workers`` of this work that have nothing to do off their list."""
        with self._changing:
            self._change_to(work)
            for worker in [each for each in workers if each.ready and not each.condemned]:
                workers.remove(worker)
                worker.used = True  # it may die at rest, which is no fault of its next image
                self._workers.append(worker)
            self._end = threading.Timer(REST_SECONDS, self.dismiss)
            self._end.daemon = True
            self._end.start()

    def dismiss(self) -> None:
        """End all."""
        with self._changing:
            self._change_to(b"")

    def _change_to(self, work: bytes) -> None:
        if self._end:
            self._end.cancel()
            self._end = None
        while work != self._work and self._workers:
            self._workers.pop().end()
        self._work = work
