"""Serving options in a scenario of MLPerf: queries that do not wait for answers, or all at once.

LoadGen, MLPerf's load generator, drives each option in the option's own process. Its verdict and
its latencies are stored as it gives them; drift is that of the run of the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.extras import require_libraries
from alignkit.record.document import document_text
from alignkit.record.open_loop_facts import LOGS, GeneratedRun, ScenarioOption, ScenarioRecord
from alignkit.serve.cpu_use import contention
from alignkit.serve.generated_load import (
    GeneratedOption,
    ScenarioLoad,
    TimedRun,
    generate_loads,
)
from alignkit.serve.load_generator import DETAIL, QUERY_COLUMNS, STAGES_GENERATED, SUMMARY
from alignkit.serve.serving_options import ReadyOption
from alignkit.stored_file import write_atomically
from alignkit.studies.bench import stored_artifact, stored_table
from alignkit.studies.bench.begun_bench import BegunBench, BenchResult
from alignkit.studies.bench.bench_drift import KnownDrift

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.record import Artifact
    from alignkit.workspace import Context

_CHECKS = {
    "result_perf_constraints_met": "performance constraints",
    "result_min_duration_met": "minimum duration",
    "result_min_queries_met": "minimum queries",
    "early_stopping_met": "early stopping",
}
"""Key of LoadGen's log → what it checks; the server scenario alone bounds latencies."""
_RATES = (
    "result_completed_samples_per_sec",
    "result_samples_per_second",
    "result_qps_with_loadgen_overhead",
)
_PERCENTILES = ("50", "90", "95", "97", "99", "99.9")


def open_loop(
    experiment: Experiment,
    context: Context,
    load: ScenarioLoad,
    *,
    cpus: int | None,
    words: Sequence[str],
    cells: Sequence[str] = (),
) -> BenchResult[ScenarioRecord]:
    """Run a scenario against every serving option, or those of some cells; store the record.

    ``words`` are the command as it was called. Models are prepared as in `bench`. Raises
    `MissingDependency` without LoadGen, before anything is prepared, and as `bench` does.
    """
    require_libraries("mlperf_loadgen")
    begun = BegunBench.of(experiment, context, cpus=cpus, words=words)
    ready, folder = begun.ready(cells, load.batch), begun.folder()
    servings = [each.serving for each in ready.options]
    generated = generate_loads(servings, load, begun.cpus, context.progress)
    record = ScenarioRecord(
        **begun.facts(),
        **ready.facts,
        scenario=load.scenario,
        searched=load.searched,
        loadgen=metadata.version("mlcommons-loadgen"),
        options=tuple(_facts(ready.options, generated, ready.drift, len(begun.cpus), folder)),
        requests=_stored(ready.options, generated, folder),
    )
    write_atomically(folder / "scenario.json", document_text(record))
    return BenchResult(record, folder)


def _facts(
    options: Sequence[ReadyOption],
    generated: Sequence[GeneratedOption],
    drift: KnownDrift,
    cpus: int,
    folder: Path,
) -> Iterator[ScenarioOption]:
    """Describe every option, and store LoadGen's logs of its runs."""
    for place, (option, own) in enumerate(zip(options, generated, strict=True)):
        known, reason = (None, "") if option.reference else drift.of(option.evaluation.place)
        runs = [
            _run(option, each, cpus, folder, f"{LOGS}/option-{place}/run-{number}")
            for number, each in enumerate(own.runs)
        ]
        yield ScenarioOption(
            **option.evaluation.place.fields,
            reference=option.reference,
            state=own.state,
            reason=own.reason,
            live=option.live,
            drift=known,
            drift_reason=reason,
            peak_bytes=None if option.live else own.peak,
            effective=own.effective,
            runs=tuple(runs),
        )


def _run(option: ReadyOption, timed: TimedRun, cpus: int, folder: Path, logs: str) -> GeneratedRun:
    times, values = timed.times, timed.values
    images = times.queries[:, QUERY_COLUMNS.index("images")]
    stages = times.queries[:, -len(STAGES_GENERATED) :].mean(axis=0) / 1e6
    means = dict(zip(STAGES_GENERATED, stages.tolist(), strict=True))
    contended, unwatched = contention(
        [(timed.seconds, timed.used)], own=None if option.live else times.cpu_seconds, cpus=cpus
    )
    return GeneratedRun(
        settings=timed.settings,
        valid=timed.valid,
        checks={said: values[key] for key, said in _CHECKS.items() if key in values},
        advice=_advice(values),
        errors=timed.errors,
        samples=int(images.sum()),
        over_bound=values.get("result_overlatency_query_count"),
        samples_per_second=next(values[each] for each in _RATES if each in values),
        scheduled_per_second=values.get("result_scheduled_samples_per_sec"),
        early_stopping_ms=_milliseconds(values.get("early_stopping_latency_ss")),
        least_ms=values["result_min_latency_ns"] / 1e6,
        mean_ms=values["result_mean_latency_ns"] / 1e6,
        greatest_ms=values["result_max_latency_ns"] / 1e6,
        percentiles_ms={
            each: values[f"result_{float(each):.2f}_percentile_latency_ns"] / 1e6
            for each in _PERCENTILES
        },
        stages_ms={each: means[each] for each in ("queue", *option.stages)},
        cpu_ms=None if option.live else 1000 * times.cpu_seconds / max(1, int(images.sum())),
        seconds=times.seconds,
        contended=contended,
        unwatched=unwatched,
        summary=stored_artifact(times.summary, folder, f"{logs}/{SUMMARY}"),
        detail=stored_artifact(times.detail, folder, f"{logs}/{DETAIL}"),
    )


def _advice(values: dict[str, Any]) -> tuple[str, ...]:
    """Return LoadGen's recommendations and its result of early stopping, a sentence each."""
    said = (str(values.get(key, "")) for key in ("result_invalid_reason", "early_stopping_result"))
    lines = (" ".join(each.split()) for text in said for each in text.split(" * "))
    return tuple(each for each in lines if each)


def _milliseconds(nanoseconds: float | None) -> float | None:
    # LoadGen writes 0 where the queries were too few
    return nanoseconds / 1e6 if nanoseconds else None


def _stored(
    options: Sequence[ReadyOption], generated: Sequence[GeneratedOption], folder: Path
) -> Artifact:
    """Write a row for every query, or batch of images."""
    import pyarrow as pa

    names, rows = [], [np.zeros((0, 1 + len(QUERY_COLUMNS)), np.int64)]
    for option, own in zip(options, generated, strict=True):
        for number, each in enumerate(own.runs):
            queries = each.times.queries
            rows.append(np.insert(queries, 0, number, axis=1))
            names += [option.name] * len(queries)
    table = np.concatenate(rows)
    columns = {"option": pa.array(names, pa.string())}
    columns |= {head: table[:, place] for place, head in enumerate(("run", *QUERY_COLUMNS))}
    return stored_table(columns, folder)
