"""View of a task's measures: how far answers differ that no change of a metric shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from alignkit.record import MatrixEntry, RunRecord
from alignkit.report.entries_view import UNMEASURED
from alignkit.report.table import PLACE, Notes, RowCells, Table, numbers
from alignkit.task_facts import MetricFacts
from alignkit.text.names import Names
from alignkit.text.numbers import grouped
from alignkit.text.task_words import TaskWords

_MOST = 8
"""Measures of a table: more columns would not fit a page that is printed."""


def measures_tables(record: RunRecord, names: Names) -> tuple[Table, ...]:
    """Return tables of each compared entry with the task's measures and their intervals.

    None for a task without measures, and where nothing was compared.
    """
    compared = [entry for entry in record.matrix if entry.drift]
    measures = record.task.measures if compared else ()
    tables = math.ceil(len(measures) / _MOST)
    starts = [round(at * len(measures) / tables) for at in range(tables + 1)] if tables else []
    return tuple(
        _table(record, names, compared, measures[first:last]) for first, last in pairwise(starts)
    )


def _table(
    record: RunRecord,
    names: Names,
    compared: Sequence[MatrixEntry],
    measures: Sequence[MetricFacts],
) -> Table:
    notes, words = Notes(), TaskWords(record.task)
    rows: list[RowCells] = []
    for entry in sorted(compared, key=lambda each: -each.churn):
        assert entry.drift is not None
        measured = entry.drift.measures
        cells = [
            notes.worded(found, words.estimated(each.name, found))
            for each in measures
            for found in [measured.get(each.name, UNMEASURED)]
        ]
        rows.append((*names.cells(entry), grouped(entry.drift.n), *cells))
    columns = (*PLACE, *numbers("Images", *(each.label for each in measures)))
    caption = (
        "Differences of the answers from the baseline of the row, with 95 % intervals; the cell "
        "with most changed images first"
    )
    # a single row, or one number of images, leaves its room to the measures
    same = [at for at in (0, len(PLACE)) if len({str(row[at]) for row in rows}) == 1]
    said = [f"trained with {rows[0][0]}" if at == 0 else f"{rows[0][at]} images" for at in same]
    kept = [at for at in range(len(columns)) if at not in same]
    return Table.of(
        "; ".join([caption, *said]),
        [columns[at] for at in kept],
        [tuple(row[at] for at in kept) for row in rows],
        notes=notes,
    )


def meanings(record: RunRecord) -> tuple[str, ...]:
    """Define what the page shows of a task, a sentence each; none where no label needs it."""
    task = record.task
    named = [*(each for each in task.metrics if each.name in task.matrices), *task.measures]
    defined = [f"{each.label}: {each.meaning}." for each in named if each.meaning]
    if not defined:
        return ()
    return (f"Changed: {_sentence(task.changed)}", *defined)


def _sentence(words: str) -> str:
    return f"{words[:1].lower()}{words[1:]}"
