"""View of a task's measures: how far answers differ that no change of a metric shows."""

from __future__ import annotations

from alignkit.record import RunRecord
from alignkit.report.entries_view import UNMEASURED
from alignkit.report.table import PLACE, Notes, RowCells, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import grouped
from alignkit.text.task_words import TaskWords


def measures_table(record: RunRecord, names: Names) -> Table | None:
    """Return each compared entry with the task's measures and their intervals.

    ``None`` for a task without measures, and where nothing was compared.
    """
    compared = [entry for entry in record.matrix if entry.drift]
    if not record.task.measures or not compared:
        return None
    notes, words = Notes(), TaskWords(record.task)
    rows: list[RowCells] = []
    for entry in sorted(compared, key=lambda each: -each.churn):
        assert entry.drift is not None
        measured = entry.drift.measures
        cells = [
            notes.worded(found, words.estimated(each.name, found))
            for each in record.task.measures
            for found in [measured.get(each.name, UNMEASURED)]
        ]
        rows.append((*names.cells(entry), grouped(entry.drift.n), *cells))
    columns = (*PLACE, *numbers("Images", *(each.label for each in record.task.measures)))
    caption = (
        "Differences of the answers from the baseline of the row, with 95 % intervals; most "
        "changed images first"
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
