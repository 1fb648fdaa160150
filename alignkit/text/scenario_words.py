"""A scenario of MLPerf in words: LoadGen's verdict and latencies, drift, stages and memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from alignkit.record.open_loop_facts import (
    LOGS,
    GeneratedRun,
    GeneratedStage,
    Scenario,
    ScenarioOption,
    ScenarioRecord,
)
from alignkit.text import TextTable, columns
from alignkit.text.bench_words import (
    BenchWords,
    bench_conditions,
    churn_words,
    machine_words,
    three_digits,
    unknown_drift,
)
from alignkit.text.names import quick_words, surrogate_lines
from alignkit.text.numbers import DASH, count, grouped, listed, megabytes

NO_SUBMISSION = "No submission to MLPerf, whose rules ask for 600 s a run, its models and a review"
TIMED_STAGES: tuple[GeneratedStage, ...] = get_args(GeneratedStage)
_SAID: dict[Scenario, str] = {
    "server": "server: Poisson arrivals, whatever the answers take",
    "offline": "offline: all images at once",
    "single-stream": "single stream: one image after the other",
}
_SINCE: dict[Scenario, str] = {
    "server": "from when a query was due to its answer",
    "offline": "from the begin of the run to an image's answer",
    "single-stream": "of a query",
}
ShownRuns = Sequence[tuple[ScenarioOption, GeneratedRun]]
"""Options that ran, each with the run to report."""


def scenario_text(record: ScenarioRecord, folder: Path) -> str:
    """Show a scenario that is stored in ``folder``."""
    words, shown = BenchWords(record), shown_runs(record)
    lines = [
        *([quick_words(record.quick)] if record.quick else []),
        *surrogate_lines(record.paths),
        scenario_conditions(record),
    ]
    if shown:
        drift = drift_table(shown, words)
        lines += ["", *result_table(record, shown, words).lines()]
        lines += [f"  {NO_SUBMISSION}", *(drift.lines() if drift else [])]
        lines += ["", *stage_table(record, shown, words).lines()]
    absent = [each for each in record.options if each.state != "measured"]
    if absent:
        rows = [(words.title(each), each.state, each.reason) for each in absent]
        lines += ["", columns(rows, indent="  ")]
    lines += ["", *(f"drift: {each}" for each in unknown_drift(record.options))]
    lines += [
        *([f"LoadGen    {folder / LOGS}"] if shown else []),
        f"requests   {folder / record.requests.path}",
        f"record     {folder / 'scenario.json'}",
    ]
    return "\n".join(lines)


def shown_runs(record: ScenarioRecord) -> ShownRuns:
    """Return the options that ran, each with the run to report."""
    return [(each, run) for each in record.options if (run := each.result) is not None]


def scenario_conditions(record: ScenarioRecord) -> str:
    """Say how the options were run."""
    loop = (
        f"MLPerf's load generator {record.loadgen}, {_SAID[record.scenario]}; each option in its "
        "own process after the others"
    )
    return bench_conditions(record, loop, "images")


def result_table(record: ScenarioRecord, shown: ShownRuns, words: BenchWords) -> TextTable:
    """Return LoadGen's verdicts and latencies; its reasons and the search follow."""
    settings, percentiles = shown[0][1].settings, shown[0][1].percentiles_ms
    queries = count(settings.min_queries, "query", "queries")
    bound = settings.latency_bound_ms
    within = "" if bound is None else f"99 % within {bound:g} ms, "
    least = f"{within}at least {settings.min_seconds:g} s and {queries}"
    heads = (*_heads(record.scenario, bound), "mean", *(f"TP{each}" for each in percentiles))
    return TextTable(
        ("", "result", *heads, "machine"),
        tuple((words.title(each), *_numbers(record.scenario, run)) for each, run in shown),
        (
            *_verdicts(shown, words),
            *(_search(option, words) for option, _ in shown if record.searched),
        ),
        f"{least}; times in ms {_SINCE[record.scenario]}",
    )


def drift_table(shown: ShownRuns, words: BenchWords) -> TextTable | None:
    """Return the drift of the options; ``None`` if no drift is known."""
    head = next((words.task.header(each.drift.metric) for each, _ in shown if each.drift), "")
    rows = ((words.title(each), churn_words(each), words.change(each)) for each, _ in shown)
    return TextTable(("drift", "churn", head), tuple(rows)) if head else None


def _heads(scenario: Scenario, bound: float | None) -> tuple[str, ...]:
    if scenario == "server":
        return "target/s", "due/s", "completed/s", "queries", f"above {bound:g} ms"
    if scenario == "offline":
        return "images/s", "images"
    return "early-stopping TP90", "queries/s", "queries"


def _numbers(scenario: Scenario, run: GeneratedRun) -> tuple[str, ...]:
    speed, samples = three_digits(run.samples_per_second), grouped(run.samples)
    if scenario == "server":
        due = run.scheduled_per_second
        own: tuple[str, ...] = (
            three_digits(run.settings.rate),
            DASH if due is None else three_digits(due),
            speed,
            samples,
            DASH if run.over_bound is None else grouped(run.over_bound),
        )
    elif scenario == "offline":
        own = (speed, samples)
    else:
        least = run.early_stopping_ms
        own = (DASH if least is None else three_digits(least), speed, samples)
    return (
        "VALID" if run.valid else "INVALID",
        *own,
        three_digits(run.mean_ms),
        *map(three_digits, run.percentiles_ms.values()),
        machine_words(run),
    )


def _verdicts(shown: ShownRuns, words: BenchWords) -> list[str]:
    """Give LoadGen's reasons for INVALID in its own words, once for the options that share them."""
    named: dict[str, list[str]] = {}
    for option, run in shown:
        if not run.valid:
            missed = ", ".join(name for name, met in run.checks.items() if not met)
            said = " ".join((*run.advice, *run.errors))
            which = f" ({missed} not met)" if missed else ""
            reason = f"INVALID{which}. LoadGen: {said}"
            named.setdefault(reason, []).append(words.title(option))
    return [f"{listed(titles)}: {reason}" for reason, titles in named.items()]


def _search(option: ScenarioOption, words: BenchWords) -> str:
    """Say between which rates the greatest VALID one lies."""
    valid = [each.settings.rate for each in option.runs if each.valid]
    above = [each.settings.rate for each in option.runs if not each.valid]
    found = f"VALID at {three_digits(max(valid))} a second" if valid else "no rate VALID"
    missed = f"INVALID at {three_digits(min(above))}" if above else "none of them INVALID"
    return f"{words.title(option)}: {found}, {missed}, in {count(len(option.runs), 'run')}"


def stage_table(record: ScenarioRecord, shown: ShownRuns, words: BenchWords) -> TextTable:
    """Return mean times of the stages, CPU time and memory."""
    of = "batch" if record.batch > 1 else "query"
    heads = (f"mean ms a {of}", *TIMED_STAGES, "workers", "CPU ms an image", "peak memory")
    rows = (
        (
            words.title(option),
            *(DASH if e is None else three_digits(e) for e in map(run.stages_ms.get, TIMED_STAGES)),
            str(run.settings.workers),
            DASH if run.cpu_ms is None else three_digits(run.cpu_ms),
            DASH if option.peak_bytes is None else megabytes(option.peak_bytes),
        )
        for option, run in shown
    )
    missing = "the option's process does not see it, or the system does not tell it"
    return TextTable(heads, tuple(rows), missing=missing)
