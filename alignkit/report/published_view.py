"""Figures that others published, beside those of this run: two tables that say whose each is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import Claim, PublishedFacts, PublishedRow, RunRecord
from alignkit.record.outside import Reading
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, number_columns, text_columns
from alignkit.text.names import Names
from alignkit.text.numbers import count, listed, percent, points

_ORDER: tuple[Reading, ...] = (
    "holds here",
    "does not hold here",
    "inside the noise floor",
    "undecided",
    "not measured",
)
_TONES: dict[Reading, str] = {"holds here": "pass", "does not hold here": "fail"}


@dataclass(frozen=True, slots=True)
class PublishedSection:
    """One published table."""

    label: str
    """``published, internal data set, 3080 Ti``."""
    words: str
    rows: Table
    claims: Table | None


def published_section(record: RunRecord, names: Names) -> PublishedSection | None:
    """``None`` where the experiment names no published table."""
    facts = record.published
    if facts is None:
        return None
    return PublishedSection(
        label=published_label(facts),
        words=" ".join(filter(None, (f"Source: {facts.source}.", facts.note, tally(facts)))),
        rows=_rows(facts, names),
        claims=_claims(facts) if facts.claims else None,
    )


def published_label(facts: PublishedFacts) -> str:
    """What every published figure is called."""
    return f"published, {facts.label}"


def tally(facts: PublishedFacts) -> str:
    """``Of 10 published differences 2 hold here, 7 are inside the noise floor …``."""
    found = Counter(claim.reading for claim in facts.claims)
    if not found:
        return ""
    words = {"holds here": ("holds here", "hold here"),
             "does not hold here": ("does not hold here", "do not hold here"),
             "inside the noise floor": ("is inside the noise floor", "are inside the noise floor"),
             "undecided": ("is undecided", "are undecided"),
             "not measured": ("was not measured", "were not measured")}  # fmt: skip
    parts = [f"{found[each]} {words[each][found[each] != 1]}" for each in _ORDER if found[each]]
    return f"Of {count(len(facts.claims), 'published difference')} {listed(parts)}."


def _metrics(facts: PublishedFacts) -> list[str]:
    return list(dict.fromkeys(metric for row in facts.rows for metric in row.metrics))


def _rows(facts: PublishedFacts, names: Names) -> Table:
    metrics = _metrics(facts)
    notes = Notes()
    label = published_label(facts)
    rows = tuple(_row(row, metrics, names, notes) for row in facts.rows)
    columns = (
        *text_columns("Training", "Inference"),
        *number_columns(*metrics),
        *text_columns("Trained with", "Served with"),
        *number_columns(*metrics),
    )
    return Table.of(
        "Each published row and the entry of this run that corresponds to it; mean over seeds",
        columns,
        rows,
        (Group(label, 2 + len(metrics)), Group("measured here", 2 + len(metrics))),
        notes=notes,
    )


def _row(row: PublishedRow, metrics: Sequence[str], names: Names, notes: Notes) -> RowCells:
    def written(values: dict[str, float], metric: str) -> Shown:
        value = values.get(metric)
        return notes.number(value, lambda each: percent(each, 2), "not published")

    def measured(metric: str) -> Shown:
        value = row.measured.get(metric)
        reason = row.reason or "not published"
        return notes.number(value, lambda each: percent(each, 2), reason)

    runtime = row.column.runtime
    served = f"{names.short(row.evaluated_with)}, {runtime}" if runtime else row.evaluated_with
    return (
        row.training,
        row.inference,
        *(written(row.metrics, metric) for metric in metrics),
        names.short(row.trained_with),
        served,
        *(measured(metric) for metric in metrics),
    )


def _claims(facts: PublishedFacts) -> Table:
    notes = Notes()
    columns = (
        *text_columns("Difference"),
        *text_columns("Metric"),
        *number_columns("Published, pp", "Here, pp", "95 % interval", "Another seed, pp"),
        *text_columns("Reading", "Because"),
    )
    caption = (
        "Published differences, whose size belongs to other data, read by their direction; another "
        "seed: greatest less least value of the row's aligned cell"
    )
    rows = tuple(_claim(claim, notes) for claim in facts.claims)
    return Table.of(caption, columns, rows, notes=notes)


def _claim(claim: Claim, notes: Notes) -> RowCells:
    return (
        claim.words,
        claim.metric,
        points(claim.published),
        *notes.apart(claim.measured),
        notes.number(claim.floor, lambda each: f"{100 * each:.2f}", "one seed cannot tell"),
        Shown(claim.reading, tone=_TONES.get(claim.reading, "")),
        claim.why,
    )
