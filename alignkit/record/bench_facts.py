"""Documents of `alignkit bench`: `bench.json` of serving options, and `loaders.json`.

A serving option is a path × backend × precision of one model. Requests come in a closed loop: each
client waits for its answer before it sends the next one. An interval of times or of speed has at
least 95 %; `FrontierPlace.price` says how its own combines others.

A loader turns image files into normalised batches, along one path. All read the same files, which
the system has cached, in the same order, with as many workers. They take turns: an epoch of each is
a round.
"""

from __future__ import annotations

from typing import Literal

from alignkit.record.path_facts import Environment, PathFacts
from alignkit.record.stored import Artifact, Command, Count, Estimate, Placed, Real, Stored
from alignkit.task_facts import CLASSIFICATION, TaskFacts

ServedStage = Literal["decode", "resize", "wait", "run"]
"""``resize`` is every stage of the path from ``orient`` to ``normalise``; ``wait`` the time until
the model's only instance is free."""


class ServedRound(Stored):
    """Requests of one option and number of clients, one after the other, while no other runs."""

    requests: Count
    seconds: Real
    """From the first request's begin to the last answer."""
    tp50_ms: Real
    cpu_seconds: Real
    """Of the option's process, all threads."""


class ServedDrift(Stored):
    """The drift of an option, as the run of the same file measured it."""

    images: Count
    """Images compared."""
    churn: Estimate
    """Of the run; its upper end covers what so few images cannot show: 3.7 / ``images`` of none."""
    metric: str
    """The task's headline, in the terms of `BenchRecord.task`."""
    change: Estimate
    """Its change, option minus reference, or its value if it compares two cells by itself."""


class FrontierPlace(Stored):
    """How an option stands among those of its model with equally many clients."""

    standing: Literal["frontier", "dominated", "not separable"]
    """``dominated``: ``by`` is no worse in either value, and better in one as its interval shows.
    ``not separable``: ``by`` is better by its values, and this sample does not show it."""
    by: str = ""
    """The other option's place."""
    shown: tuple[Literal["speed", "drift"], ...] = ()
    """In which the other one is shown to be better."""
    since: str = ""
    """The option of the frontier with the next less churn, which ``price`` starts from."""
    price: Estimate | None = None
    """Throughput gained for a point of churn, as a share: 0.03 is 3 % of the throughput of
    ``since``. Its ends combine the least favourable ones of the gain and of both churns, each of
    95 %: all three hold together in at least 85 %."""


class ServedLoad(Stored):
    """An option under so many clients, over all rounds."""

    clients: Count
    requests: Count
    throughput: Estimate
    """Requests a second while all clients are busy: median over rounds. Of a request under way when
    the first client finds none left counts the share before."""
    mean_ms: Real
    tp50_ms: Estimate
    """Milliseconds of a request: half of them took at most so long."""
    tp90_ms: Estimate
    tp99_ms: Estimate
    """Without a value below 1,000 requests."""
    stages_ms: dict[ServedStage, Real]
    """Mean milliseconds of each stage of a request that the option's process can see."""
    cpu_ms: Real | None
    """CPU time of the option's process for an image, in milliseconds; ``None`` if an endpoint
    computes, whose process is another."""
    gain: Estimate | None = None
    """Throughput over that of the reference in the same round, minus 1; median over rounds.
    ``None`` for the reference."""
    delay_ms: Estimate | None = None
    """TP50 of a round minus that of the reference in the same round, milliseconds; median over
    rounds. ``None`` for the reference."""
    contended: str = ""
    """Why the figures may be those of a busy machine; empty if nothing tells so."""
    unwatched: str = ""
    """Why it is not known whether the machine was busy; empty if it is."""
    frontier: FrontierPlace | None = None
    """``None`` where drift or speed is not known."""
    rounds: tuple[ServedRound, ...]


class ServingOption(Placed):
    """One serving option under a closed loop, timed or not."""

    reference: bool
    """Whether the others of its model are compared with it."""
    state: Literal["measured", "skipped", "failed"]
    reason: str = ""
    """Why it was not timed, or not to the end."""
    traceback: str = ""
    """Of the fault that ended it, where Python has one."""
    live: bool = False
    """Whether an endpoint answers."""
    drift: ServedDrift | None = None
    """``None`` for the reference too."""
    drift_reason: str = ""
    """Why no drift is known; empty for the reference."""
    peak_bytes: Count | None = None
    """Greatest resident memory of the option's own process: Python, libraries, model and the
    images of the bench; ``None`` for an endpoint, or where the system does not tell it."""
    effective: dict[str, str] = {}
    """The session's report of what ran."""

    loads: tuple[ServedLoad, ...] = ()


class TimedStudy(Stored):
    """The origin of a bench: command, machine, data; every document of a bench has it."""

    alignkit: str
    """Version that wrote it."""
    command: Command
    name: str
    key: str
    """Content hash of the plan; a run with this key has the drift of its serving options."""
    quick: tuple[str, ...] = ()
    """Each value that ``--quick`` made smaller, in words."""
    started: str
    """UTC, ISO 8601."""
    seconds: Real
    environment: Environment
    paths: tuple[PathFacts, ...]
    cpus: tuple[int, ...]
    """CPUs that every process was held to; empty where the system cannot."""
    cpu_quota: Real | None = None
    """CPUs that the control group allows; ``None`` without a limit."""
    load_before: tuple[Real, ...] = ()
    """Load of the machine before, over 1, 5 and 15 minutes."""
    images: Count
    """Evaluation images, that requests take in turn, or of an epoch."""
    batch: Count
    """Images of a request, or of a batch."""


class BenchRecord(TimedStudy):
    """Serving options of an experiment under a closed loop of clients."""

    format: Literal[2] = 2
    # 1: 2026-11, first format. 2: 2026-11, rounds are without the times that ``contended`` judges.
    kind: Literal["bench"] = "bench"
    task: TaskFacts = CLASSIFICATION
    drift_from: str = ""
    """Folder of the run that has the drift, below the reports' folder; empty if there is none."""
    options: tuple[ServingOption, ...]
    requests: Artifact
    """Parquet file of every timed request: option, clients, round, client, begin, and nanoseconds
    of each stage."""


LoaderKind = Literal["DataLoader", "MixedLoader", "DALI"]
WARM_UP = 2
"""Epochs that are not counted: libraries are loaded, workers started and pools filled."""


class LargestBatch(Stored):
    """The search for the largest batch, each tried in a process of its own."""

    limit: Count
    """Bytes that the process with its workers may hold."""
    fits: Count | None
    """Largest batch that was loaded; ``None`` if one image does not fit."""
    exceeds: Count | None
    """Smallest batch that was tried and does not fit; ``None`` if the search ended before it."""
    reason: str
    """How ``exceeds`` failed, or why the search ended."""


class LoaderRound(Stored):
    """One epoch of a loader, while no other runs."""

    images: Count
    """Images in the time. DALI has batches ready when an epoch begins, which are left out."""
    seconds: Real


class LoaderMemory(Stored):
    """Bytes that a loader's process and its workers hold, and the system cannot drop."""

    rest: Count
    """Before the first epoch: Python and libraries."""
    peak: Count
    """Greatest of the warm-up, looked at every 20 ms: a shorter peak is missed."""
    first: Count
    """At the end of the first epoch that counts."""
    last: Count
    """At the end of the last one."""


class TimedLoader(Stored):
    """One loader of one path."""

    path: str
    kind: LoaderKind
    state: Literal["measured", "skipped", "failed"]
    reason: str = ""
    """Why it was not timed, or not to the end."""
    throughput: Estimate | None = None
    """Images a second: median over rounds. ``None`` unless it is measured."""
    gain: Estimate | None = None
    """Throughput over that of the reference in the same round, minus 1; median over rounds.
    ``None`` for the reference."""
    contended: str = ""
    """Why the figures may be those of a busy machine; empty if nothing tells so."""
    unwatched: str = ""
    """Why it is not known whether the machine was busy; empty if it is."""
    memory: LoaderMemory | None = None
    """``None`` where the system does not tell it."""
    largest: LargestBatch | None = None
    largest_reason: str = ""
    """Why no largest batch was searched, or the search failed."""
    rounds: tuple[LoaderRound, ...] = ()


class LoaderRecord(TimedStudy):
    """Loaders of every path of an experiment; ``images`` of an epoch are spread evenly."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    kind: Literal["loaders"] = "loaders"
    workers: Count
    """One for each CPU."""
    epochs: Count
    """Epochs that count, each a round, after `WARM_UP`."""
    loaders: tuple[TimedLoader, ...]
