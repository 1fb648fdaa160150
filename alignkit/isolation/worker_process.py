"""The caller's side of a zygote and its workers: start, watch, kill, and explain a death."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from alignkit.errors import BackendError
from alignkit.isolation.worker import LAYOUT, Encoded, Heartbeat, SharedMemory
from alignkit.isolation.zygote import BORN, DIED, receive_message, send_message
from alignkit.machine import resident_bytes

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""There are as many workers as threads were asked for; and forking is safe without threads."""
MEMORY_KEPT = {
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    # with any of these set, glibc no longer raises this limit of 128 KiB by itself
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}
"""Bytes that glibc keeps for the next image, and the size from which it never keeps an array:
paging in fresh memory takes up to half of the time of an operation on an image."""
FORKED_ON_MACOS = {"OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"}
"""Else macOS ends a forked process in which a library of Apple's is initialised."""
AHEAD = 2
"""Tasks that lie with a worker: the one it works on, and one so that it need not wait."""
LAST_WORDS = 300
"""Characters shown of a worker's last output before it died."""

_PATIENCE = 10.0
"""Seconds a zygote has to end its workers."""


class Zygote:
    """A process with imported libraries that workers are forked from; may be used from threads."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._output = _scratch("zygote")
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; from alignkit.isolation.zygote import serve; "
            f"serve({theirs.fileno()})"
        )
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, this program
                [sys.executable, "-c", program],
                pass_fds=[theirs.fileno()],
                env=os.environ | ONE_THREAD | MEMORY_KEPT | FORKED_ON_MACOS,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
        self._deaths: dict[int, int] = {}
        self._one_at_a_time = threading.Lock()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a worker may have died."""
        return self._socket.fileno()

    @property
    def ended(self) -> bool:
        """Whether importing a library ended it."""
        return self._process.poll() is not None

    def fork(self, modules: Sequence[str]) -> WorkerProcess:
        """Fork a new worker once ``modules`` are imported.

        Raises `BackendError` if importing them ends the zygote.
        """
        ours, theirs = socket.socketpair()
        heartbeat, output, *slots = map(_scratch, ("heartbeat", "output", *AHEAD * ("images",)))
        os.ftruncate(heartbeat, LAYOUT.size)
        with theirs, ours:
            pid = self._born(modules, [theirs.fileno(), heartbeat, output, *slots])
            channel = Connection(ours.detach())
        beat = Heartbeat(heartbeat)
        os.close(heartbeat)
        return WorkerProcess(pid, channel, beat, output, tuple(map(SharedMemory, slots)))

    def death(self, pid: int) -> int | None:
        """Return the exit status of a worker, see `how_died`; ``None`` while it lives."""
        with self._one_at_a_time:
            try:
                while pid not in self._deaths:
                    self._socket.setblocking(False)
                    self._note_death(self._receive())
            except BlockingIOError:
                return None
            finally:
                self._socket.setblocking(True)
            return self._deaths.pop(pid)

    def close(self) -> None:
        """End the zygote, and with it every worker."""
        # a forked process of the caller may hold a copy: closing ours alone would end nothing
        with suppress(OSError):  # the zygote is gone already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._output)

    def _born(self, modules: Sequence[str], descriptors: list[int]) -> int:
        request = pickle.dumps((sys.path, tuple(modules), str(Path.cwd())))
        with self._one_at_a_time:
            try:
                send_message(self._socket, request, descriptors)
            except (BrokenPipeError, ConnectionResetError):
                raise self._ended() from None
            try:
                while (message := self._receive())[0] != BORN:
                    self._note_death(message)
            except BaseException:
                self._process.kill()  # its answer would be read as that to the next request
                self._process.wait()
                raise
            self._deaths.pop(int(message[1]), None)  # of an earlier process with this number
            return int(message[1])

    def _note_death(self, message: list[bytes]) -> None:
        kind, pid, status = message
        assert kind == DIED
        self._deaths[int(pid)] = int(status)

    def _receive(self) -> list[bytes]:
        try:
            message, _ = receive_message(self._socket)
        except ConnectionResetError:
            message = b""
        if not message:
            raise self._ended() from None
        return message.split()

    def _ended(self) -> BackendError:
        status = self._process.wait()
        return BackendError(f"the workers cannot be started: {how_died(status, self._output)}")


class WorkerProcess:
    """A worker as its parent sees it."""

    def __init__(
        self,
        pid: int,
        channel: Connection,
        beat: Heartbeat,
        output: int,
        slots: tuple[SharedMemory, ...],
    ) -> None:
        self.pid = pid
        self.channel = channel
        self.beat = beat
        self.output = output
        self._slots = slots
        self._given = self._received = 0
        self.resident_at_rest = self.resident()

    def send(self, message: object) -> None:
        """Send something small; nothing happens if the worker is dead."""
        with suppress(BrokenPipeError, ConnectionResetError):  # the zygote reports how it died
            self.channel.send(message)

    def give(self, images: Sequence[Encoded]) -> None:
        """Hand over the images of a task, of which `AHEAD` may lie with the worker at a time."""
        slot = self._given % AHEAD
        self._given += 1
        self.send((slot, self._slots[slot].write(images)))

    def receive(self) -> Any:
        """Return the next message: that it is ready, a failure, or the result of the first task."""
        message = self.channel.recv()
        if not isinstance(message, tuple):
            return message
        slot = self._received % AHEAD
        self._received += 1
        return self._slots[slot].read(*message)

    def resident(self) -> int:
        """Return the bytes of memory in use; 0 once it has ended, and without ``/proc``."""
        return resident_bytes(self.pid)

    def seconds(self) -> float:
        """Return the seconds since its current stretch of work began; 0 at rest."""
        began = self.beat.read()[2]
        return time.monotonic() - began if began else 0.0

    def kill(self) -> None:
        """Kill it; the zygote reports its death."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Release what belongs to the parent."""
        self.channel.close()
        os.close(self.output)
        for slot in self._slots:
            slot.close()


def how_died(status: int, output: int) -> str:
    """Explain a death, e.g. ``crashed: SIGSEGV``, with the last line in the ``output`` file.

    The exit status is minus the signal if one ended the process.
    """
    if status == -signal.SIGKILL:
        return "out of memory: killed by the system"  # our own kills carry their own reason
    said = os.pread(output, 1 << 16, 0).decode(errors="replace").strip().splitlines()
    words = f": {said[-1].strip()[:LAST_WORDS]}" if said else ""
    if status < 0:
        return f"crashed: {signal.Signals(-status).name}{words}"
    return f"crashed: ended with status {status}{words}"


def _scratch(name: str) -> int:
    """Open a file for appending, so that it can be emptied while it is written.

    It is in memory on Linux, elsewhere on disk without a name.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
    else:
        descriptor, file = tempfile.mkstemp(name)
        Path(file).unlink()
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor
