"""Drift class by class: a dot plot with its table, for the comparisons that matter most."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import ClassDrift, MatrixEntry, RunRecord
from alignkit.report.entry_view import served_elsewhere
from alignkit.report.svg import DotPlot, dot_plot, drawn
from alignkit.report.table import Notes, Table, number_columns, text_columns
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, grouped

MOST_COMPARISONS = 12
MOST_CLASSES = 40


@dataclass(frozen=True, slots=True)
class ClassSection:
    """One comparison, class by class."""

    trained: PathName
    evaluated: PathName
    runtime: str
    omitted: str
    """What is left out of the page, in words."""
    chart: DotPlot
    table: Table


def class_sections(record: RunRecord, names: Names) -> tuple[ClassSection, ...]:
    """Comparisons across paths in the reference runtime, the one with the largest churn first."""
    across = served_elsewhere(record.matrix, record)
    entries = [entry for entry in across if entry.drift and entry.drift.classes]
    entries.sort(key=lambda entry: -entry.churn)
    return tuple(
        _section(index, entry, names) for index, entry in enumerate(entries[:MOST_COMPARISONS])
    )


def _size(drift: ClassDrift) -> float:
    return abs(drift.recall.value or 0.0)


def _section(index: int, entry: MatrixEntry, names: Names) -> ClassSection:
    assert entry.drift is not None
    kept = sorted(entry.drift.classes, key=_size, reverse=True)[:MOST_CLASSES]
    kept.sort(key=lambda drift: drift.recall.value or 0.0)
    title = f"trained with {entry.trained_with}, evaluated with {entry.evaluated_with}"
    return ClassSection(
        trained=names.of(entry.trained_with),
        evaluated=names.of(entry.evaluated_with),
        runtime=entry.column.runtime,
        omitted=_omitted(len(entry.drift.classes) - len(kept)),
        chart=dot_plot(
            [(each.name, drawn(each.recall), drawn(each.precision)) for each in kept],
            id=f"classes-{index}",
            title=f"Change of recall and precision by class, {title}",
            series=("Δ recall", "Δ precision"),
            unit="percentage points, with 95 % intervals",
        ),
        table=_table(kept, title),
    )


def _omitted(number: int) -> str:
    if not number:
        return ""
    return f"{count(number, 'class', 'classes')} with smaller changes: in record.json only."


def _table(kept: list[ClassDrift], title: str) -> Table:
    notes = Notes()
    rows = [
        (
            each.name,
            grouped(each.support),
            *notes.apart(each.recall, 1),
            *notes.apart(each.precision, 1),
        )
        for each in kept
    ]
    columns = (
        *text_columns("Class"),
        *number_columns(
            "Images", "Δ recall, pp", "95 % interval", "Δ precision, pp", "95 % interval"
        ),
    )
    return Table.of(f"Drift by class, {title}", columns, rows, notes=notes)
