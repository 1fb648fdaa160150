"""Worker processes, forked by a zygote: images are handed to them, and none can end the run.

Images are handed out a few at a time. A worker that a library kills, that does not return in time
or that takes too much memory is replaced, and its images are tried again, each alone. An image that
fails again, as the first image of its worker, is to blame, with the path that worked on it, and is
not tried again on that path. All other images, and the other paths of this one, still get their
result.

Results come in the order of the images, however many workers there are. Arrays in them travel
through shared memory.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import Any, Generic, TypeVar

from alignkit.errors import AlignkitError
from alignkit.isolation.task import ImageTask, ImageWorker, next_images
from alignkit.isolation.worker import (
    EVERYTHING,
    READY,
    Encoded,
    WarmUpDied,
    Work,
    WorkerFailure,
    WorkFailed,
)
from alignkit.isolation.worker_process import AHEAD, Zygote, how_died
from alignkit.machine import available_bytes

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


_Result = TypeVar("_Result")

IMAGES_A_TASK = 8  # fixed, so that the order of float sums does not depend on the number of workers
TASKS_A_WORKER = 4
"""Tasks for each worker whose results are held at a time, which bounds memory."""
BYTES_HELD = 512 << 20
"""Encoded bytes from which on no further task is begun."""
TICK = 0.05
"""Seconds between two checks of the workers' time and memory."""
_STALL = 2.0
"""Seconds between two checks after which this process stood still, and time limits start again."""
WARM_UP_SECONDS = 600.0
"""Limit for loading libraries: many times what the slowest takes on a busy machine."""
_KNOWN: dict[int, Isolation] = {}
"""By process: after a fork, the child must not use the processes of its parent."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time and memory that one image may take on one path."""

    seconds: float = 60.0
    memory: int = 4 << 30
    """Bytes, above what a worker takes at rest."""
    together: int | None = None
    """Bytes that the images under way may need together; an image that needs more is worked on
    alone. ``None``: half of what is available when the work begins."""
    lossy: bool = False
    """Whether an image that needs more memory than is available now fails alone. Else it ends the
    work, whose result is stored and must not depend on what other programs took."""


class Isolation(AbstractContextManager["Isolation"]):
    """Worker processes, ended by the context manager; may be used from several threads."""

    def __init__(self) -> None:
        self._zygote: Zygote | None = None
        self._starting = threading.Lock()
        self._rested = RestedWorkers()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._rested.dismiss()
        if self._zygote:
            self._zygote.close()
            self._zygote = None

    def run(
        self,
        work: Work[_Result],
        images: Iterable[Encoded],
        *,
        processes: int,
        limits: Limits = Limits(),
        modules: Sequence[str] = (),
        images_a_task: int = IMAGES_A_TASK,
        keep: bool = False,
    ) -> Iterator[_Result]:
        """Do ``work`` on all ``images``; yield a result for each task, in order.

        ``modules`` are imported once, before any worker is forked. ``keep``: workers are kept for
        the next call that keeps them with the same work, for `REST_SECONDS` at most. Raises
        `WarmUpDied` or `WorkFailed` for failures that no image caused, `BackendError` if a module
        cannot be imported, and any `AlignkitError` or `ImportError` that the work raises.
        """
        together = limits.together or (available_bytes() or 2 * limits.memory) // 2
        crew = _Crew(work, processes, limits, self._started(), modules, images_a_task, together)
        known = pickle.dumps((work, modules)) if keep else b""
        if keep:
            crew.workers += self._rested.take(known, processes)
        try:
            yield from crew.results(iter(images))
            if keep:
                self._rested.keep(known, crew.workers)
        finally:
            crew.dismiss()

    def _started(self) -> Zygote:
        with self._starting:  # threads share one zygote
            if self._zygote and self._zygote.ended:
                self.close()
            self._zygote = self._zygote or Zygote()
            return self._zygote


def process_wide() -> Isolation:
    """Return the `Isolation` of this process, which ends with it: libraries are imported once."""
    process = os.getpid()
    if process not in _KNOWN:
        known = _KNOWN[process] = Isolation()
        # a forked child inherits this call, and not the processes
        atexit.register(lambda: known.close() if os.getpid() == process else None)
    return _KNOWN[process]


@dataclass(slots=True)
class _Crew(Generic[_Result]):
    work: Work[_Result]
    size: int
    limits: Limits
    zygote: Zygote
    modules: Sequence[str]
    images_a_task: int
    together: int
    workers: list[ImageWorker[_Result]] = field(default_factory=list)
    waiting: deque[ImageTask[_Result]] = field(default_factory=deque)
    looked: float = 0.0
    """When the workers' time and memory were last checked; 0 asks for a check now."""
    watched: float = field(default_factory=time.monotonic)
    """As ``looked``, without the requests."""
    resumed: float = 0.0
    """When this process went on after it stood still, for instance suspended."""

    def results(self, images: Iterator[Encoded]) -> Iterator[_Result]:
        """Yield the results in order, with few tasks under way at a time, which bounds memory."""
        under_way: deque[list[_Result | None]] = deque()
        while True:
            while (
                len(under_way) < TASKS_A_WORKER * self.size
                and self._held() < BYTES_HELD
                and (some := next_images(images, self.images_a_task))
            ):
                task: ImageTask[_Result] = ImageTask(some, [None])
                self.waiting.append(task)
                under_way.append(task.results)
                self._hand_out()
            if not under_way:
                return
            self._hand_out()
            self._listen()
            while under_way and None not in under_way[0]:
                yield from under_way.popleft()  # type: ignore[misc]  # none of them is None

    def _held(self) -> int:
        with_workers = (task for worker in self.workers for task in worker.tasks)
        return sum(task.held for task in (*self.waiting, *with_workers))

    def _room(self, others: int) -> int:
        """Return the bytes that a worker's tasks may need beside those that ``others`` need."""
        return self.together - others if others else sys.maxsize

    def dismiss(self) -> None:
        while self.workers:
            self._retire(self.workers[0])

    def _retire(self, worker: ImageWorker[_Result]) -> None:
        self.workers.remove(worker)
        worker.end()

    def _hand_out(self) -> None:
        needed = sum(worker.need for worker in self.workers)
        # every worker has one task before any has a second one in reserve
        for depth in range(1, AHEAD + 1):
            for worker in self.workers:
                if not worker.ready or len(worker.tasks) >= depth:
                    continue
                others = needed - worker.need
                if task := self._fitting(worker, self._room(others)):
                    worker.tasks.append(task)
                    worker.process.give(task.images)
                    needed = others + worker.need
        room = self._room(needed)
        waiting = [task for task in self.waiting if task.need <= room]
        if len(waiting) <= sum(not worker.ready for worker in self.workers):
            return  # those that are starting will take them
        idle = [worker for worker in self.workers if worker.ready and not worker.tasks]
        if idle and len(self.workers) == self.size:
            self._retire(idle[0])  # all waiting tasks need a worker that no image has used
        if len(self.workers) < self.size:
            started: ImageWorker[_Result] = ImageWorker(self.zygote.fork(self.modules))
            self.workers.append(started)
            started.process.send(self.work)

    def _fitting(self, worker: ImageWorker[_Result], room: int) -> ImageTask[_Result] | None:
        """Take the next task off the queue that fits a worker and ``room``: an unspoilt one first.

        ``room`` is in bytes, for all tasks of the worker.
        """
        fresh = not (worker.used or worker.tasks)
        fitting = [
            task
            for task in self.waiting
            if (fresh or not task.unspoilt) and max(task.need, worker.need) <= room
        ]
        if not fitting:
            return None
        task = max(fitting, key=lambda each: each.unspoilt)  # the first of them
        self.waiting.remove(task)
        return task

    def _listen(self) -> None:
        """Receive messages, handle dead workers, and kill those over their limits."""
        by_channel = {worker.process.channel: worker for worker in self.workers}
        for source in wait([*by_channel, self.zygote.fileno()], TICK):
            if worker := by_channel.get(source):  # type: ignore[call-overload]
                self._receive(worker)
            else:
                self.looked = 0.0  # a worker died
        now = time.monotonic()
        if now - self.looked < TICK:
            return
        if now - self.watched > _STALL:
            self.resumed = now
        self.looked = self.watched = now
        for worker in tuple(self.workers):
            if (status := self.zygote.death(worker.process.pid)) is not None:
                self.workers.remove(worker)
                self._bury(worker, status)
            else:
                self._watch(worker)

    def _receive(self, worker: ImageWorker[_Result]) -> None:
        try:
            message: Any = worker.process.receive()
        except (EOFError, OSError):
            self.looked = 0.0  # it died; the zygote tells how
            return
        if isinstance(message, WorkerFailure):
            if isinstance(message.error, AlignkitError | ImportError):
                raise message.error
            raise WorkFailed(message.traceback)
        if message == READY:
            worker.ready = True
            worker.process.resident_at_rest = worker.process.resident()
            return
        task = worker.tasks.popleft()
        task.results[task.place] = message
        worker.used = True
        worker.certain = False  # a time limit it exceeded was this task's, not the next one's

    def _watch(self, worker: ImageWorker[_Result]) -> None:
        if worker.condemned or (worker.ready and not worker.tasks):
            return
        allowed = self.limits.seconds if worker.ready else WARM_UP_SECONDS
        taken = worker.process.resident() - worker.process.resident_at_rest
        # where this process stood still (suspended, or busy elsewhere), so did the workers perhaps
        if min(worker.process.seconds(), time.monotonic() - self.resumed) > allowed:
            worker.condemned = f"timed out: no result after {allowed:g} s"
            worker.certain = True
        elif worker.ready and taken > self.limits.memory:
            worker.condemned = (
                f"out of memory: {taken / 2**30:.1f} GiB taken, "
                f"{self.limits.memory / 2**30:.1f} allowed"
            )
        if worker.condemned:
            worker.process.kill()

    def _bury(self, worker: ImageWorker[_Result], status: int) -> None:
        """Queue the images of a dead worker again, each alone."""
        if worker.process.channel.poll():
            self._receive(worker)  # what it sent before it died
        position, path, _ = worker.process.beat.read()
        reason = worker.condemned or how_died(status, worker.process.output)
        worker.process.close()
        if not worker.ready:
            raise WarmUpDied(path, reason)
        if not worker.tasks:  # at rest: nobody's fault, and nothing is lost
            return
        task, *others = worker.tasks
        self.waiting.extendleft(reversed(others))
        images = list(task.images)
        guilty = worker.certain or (len(images) == 1 and not worker.used)
        if guilty:
            image = images[position]
            # where a path dies although it was marked before, nothing of the image is tried
            blamed = EVERYTHING if path in dict(image.lost) else path
            images[position] = replace(image, lost=(*image.lost, (blamed, reason)))
        if len(images) == 1:
            self.waiting.appendleft(replace(task, images=tuple(images), unspoilt=not guilty))
            return
        task.results[:] = [None] * len(images)
        alone = [ImageTask((image,), task.results, place) for place, image in enumerate(images)]
        self.waiting.extendleft(reversed(alone))
