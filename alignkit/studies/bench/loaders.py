"""Loaders of every path of an experiment: images a second, memory, largest batch.

torch's `DataLoader`, alignkit's `MixedLoader` and DALI on the CPU read the same files. Each runs in
a process of its own on the same CPUs; they take turns, epoch by epoch. No model is needed.

The largest batch is doubled until one does not fit, then the range between is halved. How much the
process and its workers hold is looked at every 20 ms, and one above the limit is ended: a limit of
addresses (``ulimit -v``) would count what is reserved and never used.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from alignkit.compare.order_statistics import percentile
from alignkit.errors import ConfigError
from alignkit.isolation import WARM_UP_SECONDS
from alignkit.machine import available_bytes
from alignkit.outcome import Failed, Measured, Skipped
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    WARM_UP,
    LargestBatch,
    LoaderKind,
    LoaderMemory,
    LoaderRecord,
    LoaderRound,
    TimedLoader,
)
from alignkit.record.document import document_text
from alignkit.serve.answering_process import AnsweringProcess
from alignkit.serve.cpu_use import CpuTimes, contention, cpu_seconds, cpu_times, held_bytes
from alignkit.serve.served_facts import gain_over, over_rounds
from alignkit.serve.serving_options import shared_images
from alignkit.stored_file import write_atomically
from alignkit.studies.bench.begun_bench import BegunBench, BenchResult
from alignkit.studies.bench.loader_kinds import LoaderOption
from alignkit.text.numbers import megabytes
from alignkit.torch_settings import usable_cpus

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.workspace import Context

TIMED_KINDS: tuple[LoaderKind, ...] = get_args(LoaderKind)
LARGEST_TRIED = 8192
"""Batch from which on the search ends: larger ones are of no use, and take long to fill."""
_NEAR = 16
"""The search ends within this part of the batch that fits."""
_EPOCH_SECONDS = 3600.0
"""Limit of an epoch: a loader that hangs must not hang the bench."""
_PROGRAM = "alignkit.studies.bench.loader_kinds"
_NO_MEMORY = re.compile(
    r"MemoryError|bad_alloc|out of memory|not enough memory|can't allocate memory"
    r"|Cannot allocate memory|killed by signal: (Killed|Bus error)|crashed: SIGBUS"
)
"""Words of Python, C++, this room, torch and the system for memory that ran out. A bus error is
that of shared memory, of which a container may have 64 MB."""


@dataclass(frozen=True, slots=True)
class LoaderLoad:
    """The work that every loader gets."""

    images: int = 200
    """Of an epoch, at most."""
    batch: int = 16
    epochs: int = 12
    memory: int | None = None
    """Bytes in which the largest batch is searched; ``None`` for no search."""


@dataclass(slots=True, eq=False)
class _Loader:
    """A loader with its rounds, or why it has none."""

    option: LoaderOption
    state: Literal["measured", "skipped", "failed"] = "measured"
    reason: str = ""
    process: AnsweringProcess | None = None
    rest: int | None = None
    peak: int = 0
    held: list[int | None] = field(default_factory=list)
    rounds: list[LoaderRound] = field(default_factory=list)
    windows: list[tuple[float, CpuTimes | None]] = field(default_factory=list)
    used: list[float | None] = field(default_factory=list)

    def open(self, cpus: Sequence[int], stack: ExitStack) -> None:
        """Start the process, if the loader can run here."""
        if self.state == "measured" and (reason := self.option.missing()):
            self.state, self.reason = "skipped", reason
        if self.state == "measured":
            self.process = stack.enter_context(AnsweringProcess(cpus, _PROGRAM))
            self._asked("to open", "open", self.option, seconds=WARM_UP_SECONDS)
        if self.process:
            self.rest = held_bytes(self.process.pid)

    def epoch(self, turn: int, cpus: Sequence[int]) -> None:
        """Load all images once; nothing happens after a fault."""
        if self.process is None:
            return
        counted, pid = turn >= WARM_UP, self.process.pid
        used, before, clock = cpu_seconds(pid), cpu_times(cpus), time.perf_counter()
        # looking takes time from the loader: it is done in the warm-up alone
        look = None if counted else self._look
        loaded: LoaderRound | None = self._asked(
            f"in epoch {turn + 1}", "epoch", seconds=_EPOCH_SECONDS, watch=look
        )
        seconds, after = time.perf_counter() - clock, cpu_times(cpus)
        if loaded is None or not counted:
            return
        spent = cpu_seconds(pid)
        self.used.append(None if spent is None or used is None else spent - used)
        self.windows.append((seconds, after.since(before) if before and after else None))
        self.held.append(held_bytes(pid))
        self.rounds.append(loaded)

    def _look(self, pid: int) -> str:
        self.peak = max(self.peak, held_bytes(pid) or 0)
        return ""

    def _asked(self, when: str, *request: Any, **limits: Any) -> Any:
        """Return the answer; after a fault end the process and return ``None``."""
        assert self.process is not None
        ended = self.process.asked(*request, **limits)
        if isinstance(ended, Measured):
            return ended.value
        self.state, self.reason = "failed", f"failed {when}: {ended.message}"
        self.process.close()
        self.process = None
        return None


def bench_loaders(
    experiment: Experiment,
    context: Context,
    load: LoaderLoad,
    *,
    cpus: int | None,
    words: Sequence[str],
) -> BenchResult[LoaderRecord]:
    """Time the loaders of every path of an experiment; store the record.

    ``words`` are the command as it was called. Raises `ConfigError` for more CPUs or memory than
    there are and for fewer images than DALI needs, `NothingCompared` without an image that every
    path decodes.
    """
    free = available_bytes()
    if load.memory is not None and free is not None and load.memory > free:
        raise ConfigError(
            f"--memory {megabytes(load.memory)}: {megabytes(free)} are available; give less"
        )
    begun = BegunBench.of(experiment, context, cpus=cpus, words=words, makes=False)
    plan, folder = begun.plan, begun.folder("loaders")
    workers = len(begun.cpus) or usable_cpus()
    sets = prepare_sets(
        plan.experiment.paths, plan.samples("train"), plan.samples("eval"), context, trains=False
    )
    chosen = shared_images(sets, {each.name for each in plan.experiment.paths}, load.images)
    options = [
        LoaderOption(kind, path, (), load.batch, workers)
        for path in plan.experiment.paths
        for kind in TIMED_KINDS
    ]
    # an epoch must be longer than the batches that are ready before it
    ready = max((each.left_ready for each in options if not each.missing()), default=0)
    if ready and len(chosen) < (ready + 2) * load.batch:
        raise ConfigError(
            f"--batch {load.batch}: an epoch of {len(chosen)} images is too short, as DALI has "
            f"{ready} batches ready before it begins; give at most --batch "
            f"{max(1, len(chosen) // (ready + 2))}, or more images"
        )
    with tempfile.TemporaryDirectory(prefix="alignkit-loaders-") as scratch:
        files = []
        for place, index in enumerate(chosen):  # written now, so the system has them in its cache
            files.append(f"{scratch}/{place:06}.image")
            Path(files[-1]).write_bytes(sets.evaluation.read(index))
        loaders = [_prepared(sets, replace(each, files=tuple(files))) for each in options]
        _run(loaders, load.epochs, begun.cpus, context)
        facts = [_facts(each, loaders[0], load, begun.cpus, context) for each in loaders]
    record = LoaderRecord(
        **begun.facts(),
        images=len(files),
        batch=load.batch,
        workers=workers,
        epochs=load.epochs,
        loaders=tuple(facts),
    )
    write_atomically(folder / "loaders.json", document_text(record))
    return BenchResult(record, folder)


def _prepared(sets: Sets, option: LoaderOption) -> _Loader:
    ended = sets.prepared[option.preprocess.name, "eval"]
    if isinstance(ended, Skipped):
        return _Loader(option, "skipped", ended.reason)
    if isinstance(ended, Failed):
        return _Loader(option, "failed", ended.message)
    return _Loader(option)


def _run(loaders: Sequence[_Loader], epochs: int, cpus: Sequence[int], context: Context) -> None:
    """Run the loaders in turn; one that fails leaves the others. All processes end."""
    with ExitStack() as stack:
        for each in loaders:
            each.open(cpus, stack)
        opened = [each for each in loaders if each.process]
        total, detail = (epochs + WARM_UP) * len(opened), f"{len(opened)} loaders in turn"
        with context.progress.stage("bench", total, detail) as stage:
            for turn in range(epochs + WARM_UP):
                for step in range(len(opened)):
                    # who begins changes, so that none always follows the same one
                    opened[(turn + step) % len(opened)].epoch(turn, cpus)
                    stage.advance()


def _facts(
    own: _Loader, first: _Loader, load: LoaderLoad, cpus: Sequence[int], context: Context
) -> TimedLoader:
    given = {"path": own.option.preprocess.name, "kind": own.option.kind}
    if own.state != "measured":
        return TimedLoader(**given, state=own.state, reason=own.reason)
    rates, base = ([e.images / e.seconds for e in each.rounds] for each in (own, first))
    gain = None if own is first else Estimate(None, None, None, "the reference was not timed")
    if gain and len(base) == len(rates):
        gain = gain_over(rates, base)
    used = [each for each in own.used if each is not None]
    busy = sum(used) if len(used) == len(rates) else None
    contended, unwatched = contention(own.windows, own=busy, cpus=len(cpus))
    held = [each for each in own.held if each is not None]
    memory = None
    if own.rest is not None and len(held) == len(rates):
        memory = LoaderMemory(rest=own.rest, peak=own.peak, first=held[0], last=held[-1])
    largest, reason = _searched(own.option, load, cpus, context) if memory else (None, "")
    return TimedLoader(
        **given, state="measured", throughput=over_rounds(percentile(rates, 50), len(rates)),
        gain=gain, contended=contended, unwatched=unwatched, memory=memory, largest=largest,
        largest_reason=reason, rounds=tuple(own.rounds),
    )  # fmt: skip


def _searched(
    option: LoaderOption, load: LoaderLoad, cpus: Sequence[int], context: Context
) -> tuple[LargestBatch | None, str]:
    """Search the largest batch; return it, or why there is none."""
    limit = load.memory
    if limit is None:
        return None, "not searched: --memory 4GB, for example, searches it"

    def watch(pid: int) -> str:
        held = held_bytes(pid) or 0
        return f"out of memory: it held {megabytes(held)}" if held > limit else ""

    def attempt(batch: int) -> Failed | None:
        needed = islice(cycle(option.files), batch * (option.ready_batches + 2))
        tried = replace(option, batch=batch, files=tuple(needed))
        with AnsweringProcess(cpus, _PROGRAM) as process:
            ended = process.asked("open", tried, seconds=WARM_UP_SECONDS)
            if isinstance(ended, Measured):
                ended = process.asked("fill", seconds=_EPOCH_SECONDS, watch=watch)
        return ended if isinstance(ended, Failed) else None

    with context.progress.stage("largest batch", 1, f"{option.preprocess.title} {option.kind}"):
        return largest_batch(attempt, limit, load.batch)


def largest_batch(
    attempt: Callable[[int], Failed | None], limit: int, first: int
) -> tuple[LargestBatch | None, str]:
    """Search the largest batch that ``attempt`` loads; return it, or another failure than memory.

    ``limit`` is the memory in bytes, ``first`` the batch to begin with.
    """
    fits, exceeds, batch = 0, None, min(first, LARGEST_TRIED)
    reason = f"larger batches than {LARGEST_TRIED:,} are not tried"
    while fits < LARGEST_TRIED and (exceeds is None or exceeds - fits > max(1, fits // _NEAR)):
        failed = attempt(batch)
        if failed is None:
            fits = batch
        elif _NO_MEMORY.search(failed.message):
            exceeds, reason = batch, failed.message
        else:
            return None, f"a batch of {batch} failed: {failed.message}"
        batch = min(2 * fits, LARGEST_TRIED) if exceeds is None else (fits + exceeds) // 2
    return LargestBatch(limit=limit, fits=fits or None, exceeds=exceeds, reason=reason), ""
