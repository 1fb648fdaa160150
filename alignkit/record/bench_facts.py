"""Document of `alignkit bench`, `bench.json`: the speed of every serving option, and its drift.

A serving option is a path × backend × precision of one model. Requests come in a closed loop: each
client waits for its answer before it sends the next one. An interval of times or of speed has at
least 95 %; `FrontierPlace.price` says how its own combines others.
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
    watched_seconds: Real | None = None
    """Over which ``busy_seconds`` and the two below it were counted: the round as the bench's own
    process saw it, slightly longer than ``seconds``."""
    busy_seconds: Real | None = None
    """Time that the bench's CPUs computed, for any process, in the system's ticks and over slightly
    more than ``seconds``; ``None`` where no system tells it."""
    stolen_seconds: Real | None = None
    """Time that the bench's CPUs were ready, and the host ran something else on them."""
    throttled_seconds: Real | None = None
    """Time that the control group was held back by its limit, added up over the CPUs."""


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

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    kind: Literal["bench"] = "bench"
    task: TaskFacts = CLASSIFICATION
    drift_from: str = ""
    """Folder of the run that has the drift, below the reports' folder; empty if there is none."""
    options: tuple[ServingOption, ...]
    requests: Artifact
    """Parquet file of every timed request: option, clients, round, client, begin, and nanoseconds
    of each stage."""
