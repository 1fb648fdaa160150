"""A process that answers requests one after the other, started afresh for a measurement.

It is not forked: nothing that the caller has in memory counts as its own. It is held to the
measurement's CPUs before it imports anything, since libraries start as many threads as there are
CPUs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NoReturn, Self

from alignkit.isolation.worker_process import how_died
from alignkit.isolation.zygote import PR_SET_PDEATHSIG
from alignkit.outcome import Failed, capture

WATCH_SECONDS = 0.02
"""Seconds between two looks of a ``watch``."""


class AnsweringProcess:
    """A process of its own, with those that it starts; the context manager ends them all."""

    def __init__(self, cpus: Sequence[int], program: str) -> None:
        """Start it on these CPUs; without any, on those of the caller.

        ``program`` is the name of a module of alignkit, whose ``serve`` gets the number of a socket
        and calls `answer_requests` with it.
        """
        ours, theirs = socket.socketpair()
        held = f"os.sched_setaffinity(0, {set(cpus)!r}); " if cpus else ""
        begin = (
            f"import os, sys; {held}sys.path[:] = {sys.path!r}; "
            f"from {program} import serve; serve({theirs.fileno()})"
        )
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, this program
                [sys.executable, "-c", begin],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                process_group=0,  # so that workers that it starts end with it
            )
        self._channel = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it does; nothing happens if it has ended."""
        self._end()
        self._channel.close()
        self._output.close()

    def asked(
        self, *request: Any, seconds: float, watch: Callable[[int], str] | None = None
    ) -> Any:
        """Send a request; return `Measured`, or `Failed` if it failed, died or took too long.

        ``watch`` gets the process's number every `WATCH_SECONDS` until the answer comes; a reason
        that it returns ends the process, and is the failure's message.
        """
        try:
            self._channel.send(request)
            if watch is None:
                answered, reason = self._channel.poll(seconds), ""
            else:
                answered, reason = self._watched(seconds, watch)
            if answered:
                return self._channel.recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return Failed(how_died(self._process.wait(), self._output.fileno()), "")
        if reason:
            self._end()
        return Failed(reason or f"timed out: no answer within {seconds:g} s", "")

    def _watched(self, seconds: float, watch: Callable[[int], str]) -> tuple[bool, str]:
        latest = time.monotonic() + seconds
        while not (answered := self._channel.poll(WATCH_SECONDS)):
            if (reason := watch(self.pid)) or time.monotonic() > latest:
                return False, reason
        return answered, ""

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def answer_requests(channel: int, answer: Callable[..., Any], opened: ExitStack) -> NoReturn:
    """Answer the requests of an `AnsweringProcess` until its end of the channel is closed.

    ``answer`` gets the values of a request. An exception that it raises is sent as `Failed`. At the
    end ``opened`` is closed.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # the caller's to handle, who ends this process
        signal.signal(number, signal.SIG_IGN)
    # a caller that is killed ends nothing
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with Connection(channel) as caller, opened, suppress(EOFError):
        while True:
            caller.send(capture(partial(answer, *caller.recv())))
    # a thread that hangs must not keep the process
    os._exit(0)
