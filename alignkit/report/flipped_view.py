"""Views of the images that flip: the kinds that do more, or less, than others, and the classes."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import ClassDrift, FlippedFacts, MatrixEntry, RunRecord
from alignkit.report.charts import DotPlot, dot_plot, drawn
from alignkit.report.entries_view import served_elsewhere
from alignkit.report.table import Notes, RowCells, Shown, Table, numbers
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, estimated, grouped, p_value, percent

_KINDS = 24
"""Kinds a table shows, besides those that are significant."""
_COMPARISONS = 12
"""Comparisons shown class by class."""
_CLASSES = 40
"""Classes of a chart: one of a thousand would not be read."""


@dataclass(frozen=True, slots=True)
class FlippedSection:
    """The kinds of images between two paths."""

    reference: PathName
    candidate: PathName
    runtime: str
    words: str
    sentences: tuple[str, ...]
    table: Table | None
    omitted: str


@dataclass(frozen=True, slots=True)
class ClassSection:
    """One comparison, class by class."""

    trained: PathName
    evaluated: PathName
    runtime: str
    omitted: str
    """The classes that the page leaves out, in words."""
    chart: DotPlot
    table: Table


def flipped_sections(record: RunRecord, names: Names) -> tuple[FlippedSection, ...]:
    """Return a section for each path that served the models, in the record's order."""
    return tuple(_flipped_section(each, names) for each in record.flipped)


def _flipped_section(each: FlippedFacts, names: Names) -> FlippedSection:
    significant = [kind for kind in each.subgroups if kind.sentence]  # all are shown
    others = [kind for kind in each.subgroups if not kind.sentence]
    rows: list[RowCells] = [
        (
            kind.dimension,
            Shown(kind.kind, tag="significant" if kind.sentence else ""),
            str(kind.images),
            percent(kind.churn),
            percent(kind.elsewhere),
            estimated(kind.difference, 1),
            p_value(kind.p_adjusted),
        )
        for kind in (*significant, *others[:_KINDS])
    ]
    caption = "Churn of each kind of image against all others; p: Fisher’s exact test, after Holm"
    columns = ("What", "Kind", *numbers("Images", "Churn", "Elsewhere", "Difference, pp", "p"))
    left = len(each.subgroups) - len(rows)
    seeds = " with at least one seed" if each.seeds > 1 else ""
    outcome = f"; {count(len(each.subgroups), 'kind')} compared"
    if each.reason:
        outcome = f": {each.reason}"
    return FlippedSection(
        reference=names.of(each.reference),
        candidate=names.of(each.candidate),
        runtime=f"{each.backend} {each.precision}",
        words=f"The prediction of {each.flipped} of {count(each.images, 'image')} changes"
        f"{seeds}{outcome}.",
        sentences=flipped_sentences(each),
        table=Table.of(caption, columns, rows) if rows else None,
        omitted=f"{count(left, 'more kind')}, not significant, in record.json." if left else "",
    )


def flipped_sentences(each: FlippedFacts) -> tuple[str, ...]:
    """Say which kinds are significant, or that none is."""
    said = tuple(kind.sentence for kind in each.subgroups if kind.sentence)
    if said or each.reason:
        return said
    return ("No kind of image changes more or less often than the others beyond chance.",)


def class_sections(record: RunRecord, names: Names) -> tuple[ClassSection, ...]:
    """Return comparisons across paths in the reference runtime, by falling churn."""
    across = served_elsewhere(record.matrix, record)
    entries = [entry for entry in across if entry.drift and entry.drift.classes]
    entries.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    return tuple(
        _class_section(index, entry, names) for index, entry in enumerate(entries[:_COMPARISONS])
    )


def _class_section(index: int, entry: MatrixEntry, names: Names) -> ClassSection:
    assert entry.drift is not None

    def change(drift: ClassDrift) -> float:
        return drift.recall.value or 0.0

    classes = entry.drift.classes
    # those that moved most, whichever way; then from the greatest loss to the greatest gain
    kept = sorted(classes, key=lambda drift: abs(change(drift)), reverse=True)[:_CLASSES]
    kept.sort(key=change)
    left = len(classes) - len(kept)
    title = f"trained with {entry.trained_with}, evaluated with {entry.evaluated_with}"
    omitted = f"{count(left, 'class', 'classes')} with smaller changes: in record.json only."
    return ClassSection(
        trained=names.of(entry.trained_with),
        evaluated=names.of(entry.evaluated_with),
        runtime=entry.column.runtime,
        omitted=omitted if left else "",
        chart=dot_plot(
            [(each.name, drawn(each.recall), drawn(each.precision)) for each in kept],
            id=f"classes-{index}",
            title=f"Change of recall and precision by class, {title}",
            series=("Δ recall", "Δ precision"),
            unit="percentage points, with 95 % intervals",
        ),
        table=_class_table(kept, title),
    )


def _class_table(kept: list[ClassDrift], title: str) -> Table:
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
    changes = ("Δ recall, pp", "95 % interval", "Δ precision, pp", "95 % interval")
    columns = ("Class", *numbers("Images", *changes))
    return Table.of(f"Drift by class, {title}", columns, rows, notes=notes)
