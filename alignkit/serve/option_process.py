"""The process of one serving option, so that its memory and its faults are its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

from alignkit.isolation import WARM_UP_SECONDS
from alignkit.outcome import Failed, Measured
from alignkit.serve.answering_process import AnsweringProcess, answer_requests
from alignkit.serve.closed_loop import PATIENCE
from alignkit.serve.cpu_use import peak_bytes
from alignkit.serve.serving import LoopTimes, Server, Serving

Request = Literal["open", "round", "peak"]


class OptionProcess(AnsweringProcess):
    """A serving option in a process of its own, which the context manager ends."""

    def __init__(self, cpus: Sequence[int]) -> None:
        """Start it on these CPUs; without any, on those of the caller."""
        super().__init__(cpus, __name__)

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

    def peak(self) -> Measured[int | None] | Failed:
        """Return its greatest resident memory so far in bytes; ``None`` if it is not known."""
        told: Measured[int | None] | Failed = self._asked("peak", seconds=PATIENCE)
        return told

    def _asked(self, request: Request, *values: Any, seconds: float) -> Any:
        return self.asked(request, *values, seconds=seconds)


def serve(channel: int) -> NoReturn:
    """Answer the requests of an `OptionProcess` until its end of the channel is closed."""
    opened = ExitStack()
    answer_requests(channel, partial(_answered, [], opened), opened)


def _answered(
    server: list[Server],
    opened: ExitStack,
    alive: Callable[[], None],
    request: Request,
    *values: Any,
) -> Any:
    if request == "peak":
        return peak_bytes(Path("/proc/self/status"))
    if request == "open":
        (serving,) = values
        server.append(Server(serving, opened))
        return server[0].effective()
    (only,) = server
    return only.round(*values, alive=alive)
