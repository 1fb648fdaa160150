"""Page of loaders: bars and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alignkit.record import Estimate
from alignkit.record.loader_facts import LoaderRecord, TimedLoader
from alignkit.report.bench.bench_tables import (
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
    bounded,
    stated_gain,
)
from alignkit.text.loader_words import (
    TimedLoaders,
    loader_conditions,
    loader_tables,
    loader_title,
    timed_loaders,
)
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped
from alignkit.text.task_words import capital

_TONES = {CONTENDED: "warn"}
"""Tone of a cell by the word that it begins with."""
_RATE = "percent of the reference"
_WORDS = ("machine", "does not fit")
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


def loaders_view(record: LoaderRecord) -> dict[str, Any]:
    """Return everything that the template reads of a bench of loaders."""
    names, timed = Names(record.paths), timed_loaders(record)
    rated = [(title, each, each.throughput) for title, each in timed if each.throughput]
    sections, sentences = [], []
    if rated:
        sentences = [_fastest(rated)]
        plot = _speeds(rated, timed)
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


def _fastest(rated: Sequence[tuple[str, TimedLoader, Estimate]]) -> str:
    quiet = [each for each in rated if not each[1].contended]
    if not quiet:
        return "No result: the machine was busy in every timing."
    name, _, most = max(quiet, key=lambda each: each[2].value or 0.0)
    of = "" if len(quiet) == len(rated) else f" of the {len(quiet)} that nothing else disturbed"
    return f"{name} has the greatest throughput{of}: {bounded(most)} images/s."


def _speeds(
    rated: Sequence[tuple[str, TimedLoader, Estimate]], timed: TimedLoaders
) -> StagePlot | None:
    """Draw the gains that the table states; the rates of one bar rest on other moments."""
    rates = [
        Amounts(title, {_RATE: 100 * (1 + gain)}, bounded(rate))
        for title, each, rate in rated
        if not each.contended and (gain := _gain(each, timed)) is not None
    ]
    if len(rates) < 2:
        return None
    return stage_plot(
        rates, [_RATE], "Speed in the same round; images/s beside", _RATE, id="speed-plot"
    )


def _gain(each: TimedLoader, timed: TimedLoaders) -> float | None:
    stated = stated_gain(each, timed)
    return stated.value if stated else 0.0


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
