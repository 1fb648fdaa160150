"""The process of one serving option, so that its memory and its faults are its own.

It is started afresh, not forked: nothing that the caller has in memory counts as the option's. It
is held to the bench's CPUs before it imports anything, since libraries start as many threads as
there are CPUs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from alignkit.isolation import WARM_UP_SECONDS
from alignkit.isolation.worker_process import how_died
from alignkit.isolation.zygote import PR_SET_PDEATHSIG
from alignkit.outcome import Failed, Measured, capture
from alignkit.serve.closed_loop import PATIENCE
from alignkit.serve.cpu_use import peak_bytes
from alignkit.serve.memory_growth import held_bytes
from alignkit.serve.serving import LoopTimes, Server, Serving

if TYPE_CHECKING:
    from alignkit.record.open_loop_facts import RunSettings
    from alignkit.serve.load_generator import GeneratedTimes

Request = Literal["open", "round", "generate", "peak"]


class OptionProcess(AbstractContextManager["OptionProcess"]):
    """A serving option in a process of its own, which the context manager ends."""

    def __init__(self, cpus: Sequence[int]) -> None:
        """Start it on these CPUs; without any, on those of the caller."""
        ours, theirs = socket.socketpair()
        held = f"os.sched_setaffinity(0, {set(cpus)!r}); " if cpus else ""
        program = (
            f"import os, sys; {held}sys.path[:] = {sys.path!r}; "
            f"from alignkit.serve.option_process import serve; serve({theirs.fileno()})"
        )
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, this program
                [sys.executable, "-c", program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
        self._channel = Connection(ours.detach())

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it does; nothing happens if it has ended."""
        self._process.kill()
        self._process.wait()
        self._channel.close()
        self._output.close()

    def open(self, serving: Serving) -> Measured[dict[str, str]] | Failed:
        """Load the option's model; return what its session says of itself."""
        opened: Measured[dict[str, str]] | Failed
        opened = self._asked("open", serving, seconds=WARM_UP_SECONDS)
        return opened

    def round(self, clients: int, requests: int, first: int) -> Measured[LoopTimes] | Failed:
        """Answer so many requests of so many clients, from the image of this number on."""
        # it gives up by itself after a minute without an answer, unless its interpreter is held
        ended: Measured[LoopTimes] | Failed
        ended = self._asked("round", clients, requests, first, seconds=2 * PATIENCE)
        return ended

    def generate(self, settings: RunSettings, folder: Path) -> Measured[GeneratedTimes] | Failed:
        """Answer MLPerf's load generator, whose logs go to ``folder``."""
        ended: Measured[GeneratedTimes] | Failed
        ended = self._asked("generate", settings, folder, seconds=2 * PATIENCE)
        return ended

    def peak(self) -> Measured[int | None] | Failed:
        """Return its greatest resident memory so far in bytes; ``None`` if it is not known."""
        told: Measured[int | None] | Failed = self._asked("peak", seconds=PATIENCE)
        return told

    def held(self) -> int | None:
        """Return the memory that it holds now, in bytes; ``None`` where nothing tells."""
        return held_bytes(self._process.pid)

    def _asked(self, request: Request, *values: Any, seconds: float) -> Any:
        try:
            self._channel.send((request, *values))
            while self._channel.poll(seconds):
                answer = self._channel.recv()
                if answer is not None:
                    return answer
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return Failed(how_died(self._process.wait(), self._output.fileno()), "")
        return Failed(f"timed out: no sign of life within {seconds:g} s", "")


def serve(channel: int) -> NoReturn:
    """Answer the requests of an `OptionProcess` until its end of the channel is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the caller's to handle, who ends this process
        signal.signal(number, signal.SIG_IGN)
    # a caller that is killed ends nothing
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    server: list[Server] = []
    with Connection(channel) as caller, ExitStack() as opened, suppress(EOFError):
        while True:
            caller.send(capture(partial(_answered, server, opened, caller, *caller.recv())))
    # a client that hangs must not keep the process
    os._exit(0)


def _answered(
    server: list[Server], opened: ExitStack, caller: Connection, request: Request, *values: Any
) -> Any:
    if request == "peak":
        return peak_bytes(Path("/proc/self/status"))
    if request == "open":
        (serving,) = values
        server.append(Server(serving, opened))
        return server[0].effective()
    (only,) = server
    alive = partial(caller.send, None)
    if request == "generate":
        return only.generate(*values, alive=alive)
    return only.round(*values, alive=alive)
