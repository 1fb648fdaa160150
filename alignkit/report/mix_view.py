"""Training on a mix of paths: whether it removes the drift, in sentences and a table."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import MixFacts, RunRecord
from alignkit.report.table import Notes, RowCells, Table, number_columns, text_columns
from alignkit.text.names import LABELS, Names
from alignkit.text.numbers import estimated


@dataclass(frozen=True, slots=True)
class MixSection:
    """Every mix of a run."""

    sentences: tuple[str, ...]
    table: Table


def mix_section(record: RunRecord, names: Names) -> MixSection | None:
    """``None`` where no model was trained on a mix."""
    if not record.mixes:
        return None
    return MixSection(mix_sentences(record, names), _table(record, names))


def mix_sentences(record: RunRecord, names: Names) -> tuple[str, ...]:
    """The answer for each path that serves, by churn."""
    return tuple(_sentence(each, names) for each in record.mixes if each.metric == "churn")


def _sentence(facts: MixFacts, names: Names) -> str:
    known = "" if facts.in_mix else " (no training image of the mix came from it)"
    return (
        f"Served with {names.short(facts.evaluated_with)}{known}, "
        f"{estimated(facts.mixed, share=True)} of the predictions of models trained on "
        f"{names.short(facts.mix)} change, {estimated(facts.single, share=True)} of those trained "
        f"with {names.short(facts.alone)} alone. {_reading(facts)}"
    )


def _reading(facts: MixFacts) -> str:
    change = facts.change
    if change.value is None or change.low is None or change.high is None:
        return f"Their difference has no interval: {change.reason or 'not measured'}."
    told = estimated(change, unit=" pp")
    if change.low <= 0 <= change.high:
        return f"The difference, {told}, may be none: the mix is not shown to help."
    if change.low > 0:
        return f"The mix makes it worse: {told}."
    done = "removes the drift" if facts.mixed.high == 0 else "lessens the drift, not to nothing"
    return f"The mix {done}: {told}."


def _table(record: RunRecord, names: Names) -> Table:
    notes = Notes()
    rows: list[RowCells] = [
        (
            names.short(each.mix),
            names.short(each.evaluated_with),
            LABELS[each.metric],
            *(
                notes.estimated(of, share=each.metric == "churn")
                for of in (each.mixed, each.single)
            ),
            notes.estimated(each.change),
        )
        for each in record.mixes
    ]
    columns = (
        *text_columns("Trained with", "Served with", "Change of"),
        *number_columns("Mix, pp", "First path alone, pp", "Mix less alone, pp"),
    )
    caption = (
        "Drift from the cell served with the first path, in the reference runtime, with 95 % "
        "intervals; mix less alone is paired by seed and image"
    )
    return Table.of(caption, columns, rows, notes=notes)
