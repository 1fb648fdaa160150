"""What to change, and whether it kept its promise: drift before, expected and confirmed."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import AdviceFacts, MitigationFacts, RunRecord
from alignkit.report.table import Notes, RowCells, Table, number_columns, text_columns
from alignkit.text.names import LABELS, Names, PathName
from alignkit.text.numbers import count


@dataclass(frozen=True, slots=True)
class AdviceSection:
    """The advice for one path that serves."""

    served: PathName
    sentence: str
    """What was changed, promised and measured; why there is no advice, where there is none."""
    searched: str
    table: Table | None
    yaml: str


def advice_sections(record: RunRecord, names: Names) -> tuple[AdviceSection, ...]:
    """A section for each advice, in the record's order."""
    return tuple(
        AdviceSection(
            served=names.of(each.served),
            sentence=advice_sentence(each),
            searched=_searched(each),
            table=_table(each),
            yaml=each.yaml,
        )
        for each in record.advice
    )


def advice_sentence(each: AdviceFacts) -> str:
    """The outcome, or why there is none."""
    if each.sentence:
        return each.sentence
    what = f"{each.label} was found, but not checked" if each.label else "No advice"
    return f"{what} for {each.served}: {each.reason}."


def _searched(each: AdviceFacts) -> str:
    if each.distance is None or each.distance.value is None:
        return ""
    nearest = f"{each.distance.value:.3f} grey levels remain in the mean"
    seen = f"Of {each.tried} configurations, the nearest by pixels on {each.images} training images"
    if each.unseen is None:
        return f"{seen}: {nearest}."
    checked = count(each.unseen_images, "image")
    return f"{seen}: {nearest}, {each.unseen:.3f} on {checked} kept for a check."


def _table(each: AdviceFacts) -> Table | None:
    if not each.drift:
        return None
    notes = Notes()
    rows = tuple(_row(row, notes) for row in each.drift)
    return Table.of(
        "Drift before the change, expected after it and confirmed on the evaluation images; churn "
        "in %, all else in pp",
        (*text_columns("Metric"), *number_columns("Before", "Expected", "Confirmed")),
        rows,
        notes=notes,
    )


def _row(row: MitigationFacts, notes: Notes) -> RowCells:
    values = (row.before, row.expected, row.confirmed)
    share = row.metric == "churn"
    cells = (notes.estimated(value, 1 if share else 2, share=share) for value in values)
    return (LABELS[row.metric], *cells)
