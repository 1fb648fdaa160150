"""Pages of a scenario of MLPerf and of loaders: bars and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alignkit.record.loader_facts import LoaderRecord
from alignkit.record.open_loop_facts import ScenarioRecord
from alignkit.report.bench.bench_tables import (
    absent_table,
    conditions_table,
    reasons_table,
    shared_view,
)
from alignkit.report.bench.headline import cautions
from alignkit.report.bench.stage_bars import Amounts, StagePlot, stage_plot
from alignkit.report.table import Header, Notes, Shown, Table
from alignkit.text import TextTable
from alignkit.text.bench_words import (
    CONTENDED,
    BenchWords,
    bounded,
    three_digits,
    unknown_drift,
)
from alignkit.text.loader_words import (
    loader_conditions,
    loader_tables,
    loader_title,
    timed_loaders,
)
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, grouped, listed
from alignkit.text.scenario_words import (
    NO_SUBMISSION,
    TIMED_STAGES,
    drift_table,
    result_table,
    scenario_conditions,
    shown_runs,
    stage_table,
)
from alignkit.text.task_words import capital

_TONES = {"VALID": "pass", "INVALID": "fail", "leak": "fail", CONTENDED: "warn"}
"""Tone of a cell by the word that it begins with."""
_RATE = "images/s"
_WORDS = ("result", "machine", "leak", "does not fit")
"""Heads of columns of words."""


@dataclass(frozen=True, slots=True)
class PlainSection:
    """A part of the page."""

    id: str
    title: str
    lead: str
    plot: StagePlot | None
    tables: tuple[tuple[Table | None, tuple[str, ...]], ...]
    """Each with the sentences below it; ``None`` where there are these alone."""


def scenario_view(record: ScenarioRecord) -> dict[str, Any]:
    """Return everything that the template reads of a scenario."""
    words, shown = BenchWords(record), shown_runs(record)
    title = f"{record.name}: serving options in MLPerf's {record.scenario} scenario"
    valid = [words.title(each) for each, run in shown if run.valid]
    sentences, sections = [], []
    if shown:
        of = f"of {count(len(shown), 'option')}"
        sentences = [f"LoadGen calls {len(valid)} {of} VALID" + f": {listed(valid)}" * bool(valid)]
        results, drift = result_table(record, shown, words), drift_table(shown, words)
        stages = stage_table(record, shown, words)
        rows = [
            Amounts(words.title(each), run.stages_ms, three_digits(sum(run.stages_ms.values())))
            for each, run in shown
        ]
        caption = f"Mean time by stage, {stages.heads[0].removeprefix('mean ms ')}"
        plot = stage_plot(rows, TIMED_STAGES, caption, id="stages-plot")
        tables = [results, *([drift] if drift else [])]
        sections = [
            _section("Option", "Results", tables, lead=f"{NO_SUBMISSION}."),
            _section("Option", "Stages", [stages], plot),
        ]
    return shared_view(record, words.names, "bench --scenario") | {
        "title": title,
        "conditions": scenario_conditions(record),
        "cautions": cautions([(words.title(each), run) for each, run in shown]),
        "sentences": [f"{each}." for each in sentences],
        "unknown_drift": unknown_drift(record.options),
        "sections": sections,
        "absent": absent_table(record.options, words),
        "conditions_table": conditions_table(record, {
            "LoadGen": record.loadgen,
            "Images": grouped(record.images),
            "Images of a batch": grouped(record.batch),
            "Drift from": record.drift_from or "no run of this plan",
        }),
        "requests": record.requests.path,
    }  # fmt: skip


def loaders_view(record: LoaderRecord) -> dict[str, Any]:
    """Return everything that the template reads of a bench of loaders."""
    names, timed = Names(record.paths), timed_loaders(record)
    rated = [(title, each, each.throughput) for title, each in timed if each.throughput]
    sections, sentences = [], []
    if rated:
        name, first, most = max(rated, key=lambda each: each[2].value or 0.0)
        busy = f" ({CONTENDED})" if first.contended else ""
        leaks = [t for t, each in timed if each.memory and each.memory.growth.leak]
        sentences = [
            f"{name} has the greatest throughput: {bounded(most)} images/s{busy}.",
            f"Memory leaks: {listed(leaks)}." if leaks else "No loader shows a leak of memory.",
        ]
        rates = [Amounts(t, {_RATE: e.value or 0.0}, bounded(e)) for t, _, e in rated]
        plot = stage_plot(rates, [_RATE], "Images a second", _RATE, id="speed-plot")
        parts = ("Speed", "Pixels", "Memory", "Largest batch")
        sections = [
            _section("Loader", part, [table], plot if part == "Speed" else None)
            for part, table in zip(parts, loader_tables(record), strict=True)
        ]
    return shared_view(record, names, "bench-loaders") | {
        "title": f"{record.name}: speed, memory and pixels of loaders",
        "conditions": loader_conditions(record),
        "cautions": cautions(timed),
        "sentences": sentences,
        "sections": sections,
        "absent": reasons_table(
            [(loader_title(each, names), each) for each in record.loaders], "Loader"
        ),
        "conditions_table": conditions_table(record, {
            "Images of an epoch": grouped(record.images),
            "Images of a batch": grouped(record.batch),
            "Workers": grouped(record.workers),
            "Epochs": f"{grouped(record.epochs)} after {record.warm_up} of warm-up",
        }),
    }  # fmt: skip


def _section(
    named: str,
    title: str,
    tables: Sequence[TextTable],
    plot: StagePlot | None = None,
    lead: str = "",
) -> PlainSection:
    shown = (
        (
            _table(each, title, named) if each.rows else None,
            tuple(f"{note.removesuffix('.')}." for note in each.notes),
        )
        for each in tables
    )
    return PlainSection(title.lower().replace(" ", "-"), title, lead, plot, tuple(shown))


def _table(table: TextTable, title: str, named: str) -> Table:
    """Show a terminal's table, whose rows are named so; a column without a text is left out."""
    kept = [0, *(at for at in range(1, len(table.heads)) if any(row[at] for row in table.rows))]
    heads = [Header(capital(table.heads[at]), table.heads[at] not in _WORDS) for at in kept[1:]]
    notes = Notes()
    rows = [[_cell(row[at], table.missing, notes) for at in kept] for row in table.rows]
    caption = capital(table.caption or table.heads[0] or title)
    return Table.of(caption, (named, *heads), rows, notes=notes)


def _cell(text: str, missing: str, notes: Notes) -> Shown:
    if text == DASH and missing:
        return notes.missing(missing)
    word = text.partition(":")[0]
    return Shown(text, tone=_TONES.get(word, ""))
