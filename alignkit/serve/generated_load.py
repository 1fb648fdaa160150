"""Options one after the other, each in its process, under MLPerf's load generator.

The arrivals are the same for every option. A first closed loop warms up and shows about how many
images an option answers a second.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from alignkit.outcome import Failed, Measured, Skipped
from alignkit.record.open_loop_facts import RunSettings
from alignkit.serve.cpu_use import CpuTimes, cpu_times
from alignkit.serve.load_generator import logged
from alignkit.serve.option_process import OptionProcess
from alignkit.serve.rounds import ServedProcess, TimedOption
from alignkit.text.numbers import count

if TYPE_CHECKING:
    from alignkit.progress import Progress
    from alignkit.record.open_loop_facts import Scenario
    from alignkit.serve.load_generator import GeneratedTimes
    from alignkit.serve.serving import LoopTimes, Serving

WORKERS_OF_ENDPOINT = 256
"""Most queries under way at an endpoint: more than a load that it bears has, since an open loop
must not wait for a thread of its own."""
SEARCHED = 7
"""Runs of a search: each halves the range, so that the last ends differ by 1 % of the capacity."""
_WARM_UP = 32
"""Requests of the warm-up; as many before them are not counted."""
_FASTER = 1.5
"""A long run answers more images a second than the short warm-up; LoadGen sends too few of them
otherwise, and the run ends before its least duration."""
_BACKLOG = 10
"""Seconds of arrivals that may wait before a run ends early: the option does not keep up."""


@dataclass(frozen=True, slots=True)
class ScenarioLoad:
    """A scenario as the user wants it."""

    scenario: Scenario
    target_qps: float | None = None
    """Server: arrivals a second; ``None`` to search the greatest VALID rate."""
    latency_bound_ms: float | None = None
    """Server alone has it."""
    min_seconds: float = 10.0
    min_queries: int = 1000
    batch: int = 1
    """Offline: images that the model gets at once."""
    workers: int | None = None
    """Threads that answer; ``None`` for one of each CPU, and `WORKERS_OF_ENDPOINT`."""

    @property
    def searched(self) -> bool:
        """Whether the rate is searched."""
        return self.scenario == "server" and self.target_qps is None

    def workers_of(self, cpus: int, *, live: bool) -> int:
        """Return how many threads answer, on so many CPUs."""
        if self.scenario == "single-stream":
            return 1
        return self.workers or (WORKERS_OF_ENDPOINT if live else max(1, cpus))

    def settings(self, rate: float, workers: int) -> RunSettings:
        """Return those of a run at this rate."""
        return RunSettings(
            scenario=self.scenario,
            min_seconds=self.min_seconds,
            min_queries=self.min_queries,
            rate=rate,
            latency_bound_ms=self.latency_bound_ms,
            most_outstanding=max(100, round(_BACKLOG * rate)),
            workers=workers,
            batch=self.batch,
        )


class TimedRun(NamedTuple):
    """A run of one option."""

    settings: RunSettings
    times: GeneratedTimes
    seconds: float
    """As this process saw it."""
    used: CpuTimes | None
    """Times of the bench's CPUs meanwhile, for all processes; ``None`` where nothing tells."""
    values: dict[str, Any]
    """Of LoadGen's log."""
    errors: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """LoadGen's verdict."""
        return bool(self.values["result_validity"] == "VALID")


@dataclass(slots=True, eq=False)
class GeneratedOption(TimedOption):
    """An option with its runs, or why it has none."""

    runs: list[TimedRun] = field(default_factory=list)


class GeneratedProcess(ServedProcess, Protocol):
    """A process that answers LoadGen too; `OptionProcess` is one."""

    def generate(self, settings: RunSettings, folder: Path) -> Measured[GeneratedTimes] | Failed:
        """Answer LoadGen's queries."""
        ...


StartGenerated = Callable[[Sequence[int]], AbstractContextManager[GeneratedProcess]]


def generate_loads(
    servings: Sequence[Measured[Serving] | Skipped | Failed],
    load: ScenarioLoad,
    cpus: Sequence[int],
    progress: Progress,
    start: StartGenerated = OptionProcess,
) -> list[GeneratedOption]:
    """Run the scenario against each option that is ready; return what came of each, in order.

    An option that fails leaves the others. Every process ends before the next one starts.
    """
    each_option = SEARCHED if load.searched else 1
    ready = sum(isinstance(each, Measured) for each in servings)
    found = []
    detail = f"{count(ready, 'option')}, one after the other" if ready else "no option"
    with progress.stage("bench", each_option * ready, detail) as stage:
        for serving in servings:
            if isinstance(serving, Measured):
                found.append(_generated(serving.value, load, cpus, start, stage.advance))
            elif isinstance(serving, Skipped):
                found.append(GeneratedOption("skipped", serving.reason))
            else:
                found.append(GeneratedOption("failed", serving.message))
    return found


def _generated(
    serving: Serving,
    load: ScenarioLoad,
    cpus: Sequence[int],
    start: StartGenerated,
    advance: Callable[[], object],
) -> GeneratedOption:
    option = GeneratedOption()
    workers = load.workers_of(len(cpus), live=serving.runtime.backend.live)

    def value(ended: Measured[Any] | Failed, when: str) -> Any:
        if isinstance(ended, Failed):
            raise _FailedError(f"failed {when}: {ended.message}")
        return ended.value

    with start(cpus) as process, tempfile.TemporaryDirectory() as folder:
        try:
            option.effective = value(process.open(serving), "to open")
            # of an endpoint: as many as a service usually meets at once
            clients = min(workers, 16)
            value(process.round(clients, _WARM_UP, 0), "in the warm-up")
            warm: LoopTimes = value(process.round(clients, _WARM_UP, _WARM_UP), "in the warm-up")
            answered = load.batch * warm.throughput()
            rates = _rates(load, answered, option.runs)
            # an endpoint may not bear so many
            several = serving.runtime.backend.live and workers > 1
            at_once = f", up to {workers} at once (--workers)" * several
            for number, rate in enumerate(rates):
                settings = load.settings(rate, workers)
                before, clock = cpu_times(cpus), time.perf_counter()
                ended = process.generate(settings, Path(folder))
                after, seconds = cpu_times(cpus), time.perf_counter() - clock
                times: GeneratedTimes = value(
                    ended, f"in run {number} at {rate:.4g} a second{at_once}"
                )
                used = after.since(before) if before and after else None
                option.runs.append(TimedRun(settings, times, seconds, used, *logged(times.detail)))
                advance()
            option.peak = value(process.peak(), "at the end")
        except _FailedError as error:
            option.state, option.reason = "failed", str(error)
    return option


class _FailedError(Exception):
    """A fault of an option, in words."""


def _rates(load: ScenarioLoad, answered: float, runs: Sequence[TimedRun]) -> Iterator[float]:
    """Yield the rate of each run, when the runs before it are known.

    A search halves the range from 0 to as many as the warm-up answered: at a higher rate the queue
    would grow without end.
    """
    if not load.searched:
        yield load.target_qps or answered * (_FASTER if load.scenario == "offline" else 1)
        return
    low, high = 0.0, answered
    for _ in range(SEARCHED):
        middle = (low + high) / 2
        yield middle
        low, high = (middle, high) if runs[-1].valid else (low, middle)
