"""Document of `alignkit bench --scenario`, `scenario.json`: serving options under MLPerf's load.

LoadGen, MLPerf's own load generator, sends the queries and judges each run. Its words are kept: a
*query* is a request, a *sample* an image, a run is ``VALID`` or ``INVALID``. Its latencies begin
when a query was due, whether or not the option was free to take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.record.bench_facts import ServedOption, ServedStage, ServingStudy
from alignkit.record.stored import STRICT, Artifact, Count, Real, Stored

LOGS = "loadgen"
"""Folder of LoadGen's logs beside the document."""
Scenario = Literal["server", "offline", "single-stream"]
"""``server``: queries arrive as a Poisson process, one image each. ``offline``: all images at once.
``single-stream``: the next image after the last answer."""
GeneratedStage = Literal["queue", ServedStage]
"""``queue``: from LoadGen's call until a worker takes the query."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A run's settings, as LoadGen receives them."""

    __pydantic_config__ = STRICT

    scenario: Scenario
    min_seconds: Real
    """Least duration. MLPerf's rules ask for 600."""
    min_queries: Count
    """Least queries; for ``offline``, least images."""
    rate: Real
    """Server: arrivals a second. Otherwise the images a second of the warm-up, for ``offline`` half
    as many more, by which LoadGen chooses how many queries it prepares."""
    latency_bound_ms: Real | None
    """Server: 99 % of the latencies must be at most this."""
    most_outstanding: Count
    """Server: a run ends early, as invalid, when more queries than this wait for their answer."""
    workers: Count
    """Most threads that answer queries."""
    batch: Count
    """Images that the model gets at once."""
    qsl_seed: Count = 1
    """LoadGen's seeds: of the order of the images, of the images of the queries, of the arrivals.
    They are equal in all runs, so that each option meets the same arrivals."""
    sample_seed: Count = 2
    schedule_seed: Count = 3


class GeneratedRun(Stored):
    """One run of LoadGen against one option."""

    settings: RunSettings
    valid: bool
    """LoadGen's verdict."""
    checks: dict[str, bool]
    """Each condition of the verdict → whether it is met."""
    advice: tuple[str, ...] = ()
    """LoadGen's recommendations, and its result of early stopping."""
    errors: tuple[str, ...] = ()
    """Errors in LoadGen's log, such as too many outstanding queries."""
    samples: Count
    """Images answered."""
    over_bound: Count | None = None
    """Server: queries above the bound."""
    samples_per_second: Real
    """Server: completed; its scenario's result is the rate that is met, ``settings.rate``. Offline:
    the scenario's result."""
    scheduled_per_second: Real | None = None
    """Server: arrivals a second as they were drawn."""
    early_stopping_ms: Real | None = None
    """Single stream: the scenario's result, LoadGen's upper estimate of the 90th percentile;
    ``None`` of too few queries."""
    least_ms: Real
    mean_ms: Real
    greatest_ms: Real
    percentiles_ms: dict[str, Real]
    """Percentile, ``50`` to ``99.9`` → latency, as LoadGen computes it. Of offline, from the run's
    begin."""
    stages_ms: dict[GeneratedStage, Real]
    """Mean milliseconds of a query's stages in the option's process."""
    cpu_ms: Real | None
    """CPU time of the option's process for an image, LoadGen's own threads included; ``None`` if an
    endpoint computes."""
    seconds: Real
    contended: str = ""
    """Why the figures may be those of a busy machine; empty if nothing tells so."""
    unwatched: str = ""
    """Why it is not known whether the machine was busy; empty if it is."""
    summary: Artifact
    """LoadGen's ``mlperf_log_summary.txt``."""
    detail: Artifact
    """LoadGen's ``mlperf_log_detail.txt``."""


class ScenarioOption(ServedOption):
    """One serving option and its runs."""

    runs: tuple[GeneratedRun, ...] = ()
    """One, or those of the search for the greatest rate, in their order."""

    @property
    def result(self) -> GeneratedRun | None:
        """The run to report: the greatest VALID rate, or else the least; ``None`` without one."""
        rated = sorted(self.runs, key=lambda each: each.settings.rate)
        return next((each for each in reversed(rated) if each.valid), rated[0] if rated else None)


class ScenarioRecord(ServingStudy):
    """Serving options of an experiment in one of MLPerf's scenarios; no submission to MLPerf."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    kind: Literal["scenario"] = "scenario"
    scenario: Scenario
    searched: bool
    """Whether the greatest rate within the bound was searched, by bisection."""
    loadgen: str
    """Version of LoadGen."""
    options: tuple[ScenarioOption, ...]
    requests: Artifact
    """Parquet file of every query as the option's process saw it: option, run, image, when LoadGen
    sent it, and nanoseconds of each stage. Images of a batch share a line."""
