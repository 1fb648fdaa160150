"""The loop of a worker process: images in, results out, and a note of the work under way.

The note, a `Heartbeat`, lies in memory that the parent reads too. If a library ends the process, or
never returns, it names the image and the path. Images and results lie in `SharedMemory`, so that
neither process waits for the other: through a socket, both would wait while a copy is made.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import struct
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeAlias, TypeVar

Result_co = TypeVar("Result_co", covariant=True)

LAYOUT = struct.Struct("@qqd")
READY = "ready"
EVERYTHING = -1
"""In place of a path's index: the whole image."""
Pickled: TypeAlias = tuple[bytes, list[int]]
"""A value as it is sent: its pickle, and the length in bytes of each of its arrays."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One image to work on."""

    id: str
    data: bytes
    lost: tuple[tuple[int, str], ...] = ()
    """Paths, by index, that a worker died of with this image and that are not tried again, with the
    reason of each. `EVERYTHING` means the whole image."""
    given: Any = None
    """Anything else that the work needs to know of this image; can be pickled."""
    need: int = 0
    """Bytes that work on it may take, as estimated."""

    def __reduce__(self) -> tuple[Any, ...]:
        # bytes alone would travel in the pickle, which goes through the socket
        return Encoded, (self.id, pickle.PickleBuffer(self.data), self.lost, self.given)


class Begin(Protocol):
    """A function to call before each stretch of work that may not return."""

    def __call__(self, image: int, path: int) -> None:
        """``image``: position among the images given. ``path``: index, or `EVERYTHING`."""
        ...


class Work(Protocol[Result_co]):
    """Work to do on images; pickled once for each worker."""

    def warm_up(self, begin: Begin) -> None:
        """Load everything needed and try it on something harmless."""
        ...

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Result_co:
        """Return the result for some images, whose arrays travel in shared memory."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """A Python exception that ended the work."""

    error: BaseException | None
    """The exception, if it can be pickled."""
    traceback: str


class WarmUpDied(Exception):  # noqa: N818 - named after the event
    """The death of a worker before it was given an image."""

    def __init__(self, path: int, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path, reason


class WorkFailed(RuntimeError):  # noqa: N818
    """An exception of the work that no image caused; the message is the worker's traceback."""


class Heartbeat:
    """A note of a worker's current work, in memory shared with its parent."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, LAYOUT.size)

    def begin(self, image: int, path: int) -> None:
        """Note that a stretch of work begins now."""
        LAYOUT.pack_into(self._memory, 0, image, path, time.monotonic())

    def rest(self) -> None:
        """Note that there is nothing to do."""
        LAYOUT.pack_into(self._memory, 0, 0, EVERYTHING, 0.0)

    def read(self) -> tuple[int, int, float]:
        """Return (image, path, begin in seconds of the monotonic clock); 0 s means at rest."""
        image, path, began = LAYOUT.unpack_from(self._memory, 0)
        return image, path, began


class SharedMemory:
    """A file in memory for one value at a time, written by either side and read by the other."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory: mmap.mmap | None = None

    def write(self, value: object) -> Pickled:
        """Write the arrays and the encoded images of a value, over the previous ones."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        lengths = [view.nbytes for view in views]
        memory = self._mapped(sum(lengths))
        for (start, stop), view in zip(_places(lengths), views, strict=True):
            memory[start:stop] = view
        return pickled, lengths

    def read(self, pickled: bytes, lengths: list[int]) -> Any:
        """Read the value that was written, as read-only copies."""
        memory = self._mapped(sum(lengths))
        copies = [memory[start:stop] for start, stop in _places(lengths)]
        return pickle.loads(pickled, buffers=copies)  # noqa: S301 - our own

    def close(self) -> None:
        """Release the memory."""
        if self._memory is not None:
            self._memory.close()
        os.close(self._descriptor)

    def _mapped(self, size: int) -> mmap.mmap:
        if self._memory is None or len(self._memory) < size:
            if os.fstat(self._descriptor).st_size < max(size, mmap.PAGESIZE):
                os.ftruncate(self._descriptor, max(size, mmap.PAGESIZE))
            if self._memory is not None:
                self._memory.close()
            self._memory = mmap.mmap(self._descriptor, 0)
        return self._memory


def _places(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return (start, stop) of parts that lie one behind the other."""
    return list(pairwise(accumulate(lengths, initial=0)))


def work(channel: int, heartbeat: int, slots: Sequence[int]) -> None:
    """Serve until the other end of the channel is closed.

    Images arrive in one of the ``slots``, and their result returns in the same.
    """
    beat = Heartbeat(heartbeat)
    begin = partial(_begin, beat)
    shared = [SharedMemory(slot) for slot in slots]
    with Connection(channel) as parent:
        try:
            task: Work[Any] | WorkerFailure = _outcome(parent.recv)
            if isinstance(task, WorkerFailure):  # it cannot be unpickled here
                parent.send(task)
                return
            parent.send(_outcome(partial(_warm_up, task, begin)))
            while True:
                beat.rest()
                slot, stored = parent.recv()
                images = shared[slot].read(*stored)
                parent.send(shared[slot].write(_outcome(partial(task, images, begin))))
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return  # the parent needs no more results


def _warm_up(task: Work[Any], begin: Begin) -> str:
    task.warm_up(begin)
    # one thread for each library: there are as many workers as threads were asked for
    if cv2 := sys.modules.get("cv2"):
        cv2.setNumThreads(1)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    # some libraries (torchpipe's tvm-ffi) install handlers that print a backtrace, whose last line
    # would become the reason in the record: a fatal signal ends the worker at once
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        signal.signal(number, signal.SIG_DFL)
    return READY


def _begin(beat: Heartbeat, image: int, path: int) -> None:
    # the reason of a death is the last line of this stretch, not of an earlier one
    os.ftruncate(2, 0)
    beat.begin(image, path)


def _outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - it is raised again in the parent
        text = traceback.format_exc()
        # some exceptions can be pickled but not unpickled, which would end the parent's receiving
        with suppress(Exception):  # the traceback is kept in any case
            if isinstance(pickle.loads(pickle.dumps(error)), Exception):  # noqa: S301 - our own
                return WorkerFailure(error, text)
        return WorkerFailure(None, text)
