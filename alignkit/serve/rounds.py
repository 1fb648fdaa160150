"""Rounds in which all options take turns, each in its process, with every number of clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from alignkit.machine import available_bytes
from alignkit.outcome import Failed, Measured, Skipped
from alignkit.serve.cpu_use import CpuTimes, cpu_times
from alignkit.serve.option_process import OptionProcess
from alignkit.serve.serving import LoopTimes, Serving
from alignkit.text.numbers import count, megabytes

if TYPE_CHECKING:
    from alignkit.progress import Progress

ROUNDS = 12
"""Rounds whose third least and third greatest hold the median with 96 % confidence."""


@dataclass(frozen=True, slots=True)
class Load:
    """The requests that every option receives."""

    clients: tuple[int, ...] = (1, 5, 10)
    """Numbers of clients, each a load of its own."""
    requests: int = 1000
    """Of each option and number of clients, at least."""
    rounds: int = ROUNDS
    batch: int = 1
    """Images of a request."""

    @property
    def each_round(self) -> int:
        """Requests of a round: the same number in each."""
        return -(-self.requests // self.rounds)


@dataclass(frozen=True, slots=True)
class TimedRound:
    """A round of one option with one number of clients."""

    times: LoopTimes
    seconds: float
    """As this process saw it."""
    used: CpuTimes | None
    """Times of the bench's CPUs meanwhile, for all processes; ``None`` where nothing tells."""


@dataclass(slots=True, eq=False)
class TimedOption:
    """An option with its rounds, or why it has none."""

    state: Literal["measured", "skipped", "failed"] = "measured"
    reason: str = ""
    traceback: str = ""
    """Of the fault, where one is known."""
    effective: dict[str, str] = field(default_factory=dict)
    rounds: dict[int, list[TimedRound]] = field(default_factory=dict)
    """Number of clients → counted rounds, in order; of a failed option those before the fault."""
    peak: int | None = None
    """Greatest resident memory of its process, bytes."""


class ServedProcess(Protocol):
    """The process of an option; `OptionProcess` is one."""

    def open(self, serving: Serving) -> Measured[dict[str, str]] | Failed:
        """Load the model."""
        ...

    def round(self, clients: int, requests: int, first: int) -> Measured[LoopTimes] | Failed:
        """Answer requests."""
        ...

    def peak(self) -> Measured[int | None] | Failed:
        """Return the greatest resident memory."""
        ...

    def close(self) -> None:
        """End it."""
        ...


StartProcess = Callable[[Sequence[int]], AbstractContextManager[ServedProcess]]
"""Starts a process on some CPUs."""


def time_options(
    servings: Sequence[Measured[Serving] | Skipped | Failed],
    load: Load,
    cpus: Sequence[int],
    progress: Progress,
    start: StartProcess = OptionProcess,
) -> list[TimedOption]:
    """Time the options that are ready; return what came of each, in their order.

    A first round of every option and number of clients warms up and is not counted. An option that
    fails leaves the others. All processes end with this function.
    """
    options = [_Option(each) for each in servings]
    with ExitStack() as stack:
        with progress.stage("open", len(options), "every option") as stage:
            greatest = 0
            for each in options:
                greatest = max(greatest, each.open(cpus, stack, start, greatest))
                stage.advance()
        opened = [each for each in options if each.process]
        total = (load.rounds + 1) * len(load.clients) * len(opened)
        detail = f"{len(opened)} options in turn" if opened else "no option"
        with progress.stage("bench", total, detail) as stage:
            for turn in range(load.rounds + 1):
                for place, clients in enumerate(load.clients):
                    # who begins changes, so that none always follows the same one
                    for step in range(len(opened)):
                        option = opened[(turn + place + step) % len(opened)]
                        option.round(clients, turn, load, cpus)
                        stage.advance()
        for each in opened:
            each.finish()
    return [each.timed for each in options]


class _Option:
    def __init__(self, serving: Measured[Serving] | Skipped | Failed) -> None:
        self.serving = serving
        self.process: ServedProcess | None = None
        self.timed = TimedOption()
        if isinstance(serving, Skipped):
            self.timed = TimedOption("skipped", serving.reason)
        elif isinstance(serving, Failed):
            self.timed = TimedOption("failed", serving.message, serving.traceback)

    def open(
        self, cpus: Sequence[int], stack: ExitStack, start: StartProcess, greatest: int
    ) -> int:
        """Start the process, if the option can run; return the memory it takes, in bytes.

        ``greatest`` is that of the largest process so far: all of them stay.
        """
        if not isinstance(self.serving, Measured):
            return 0
        free = available_bytes()
        if free is not None and free < greatest:
            self.timed.state = "failed"
            self.timed.reason = (
                f"not opened: {megabytes(free)} of memory are free, and another option took "
                f"{megabytes(greatest)}; time fewer of them with --cell"
            )
            return 0
        self.process = stack.enter_context(start(cpus))
        self.timed.effective = self._of(self.process.open(self.serving.value), "to open") or {}
        return (self.process and self._of(self.process.peak(), "to open")) or 0

    def round(self, clients: int, turn: int, load: Load, cpus: Sequence[int]) -> None:
        """Answer a round of requests; nothing happens after a fault."""
        if self.process is None:
            return
        before, clock = cpu_times(cpus), time.perf_counter()
        ended = self.process.round(clients, load.each_round, turn * load.each_round)
        after, seconds = cpu_times(cpus), time.perf_counter() - clock
        times = self._of(ended, f"in round {turn} with {count(clients, 'client')}")
        if times is not None and turn:
            used = after.since(before) if before and after else None
            timed = TimedRound(times, seconds, used)
            self.timed.rounds.setdefault(clients, []).append(timed)

    def finish(self) -> None:
        """Ask for the memory it took at most."""
        if self.process is not None:
            self.timed.peak = self._of(self.process.peak(), "at the end")

    def _of(self, ended: Measured[Any] | Failed, when: str) -> Any:
        """Return the value; after a fault end the process and return ``None``."""
        if isinstance(ended, Measured):
            return ended.value
        self.timed.state, self.timed.reason = "failed", f"failed {when}: {ended.message}"
        self.timed.traceback = ended.traceback
        if self.process is not None:
            self.process.close()
            self.process = None
        return None
