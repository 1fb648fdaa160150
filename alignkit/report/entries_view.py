"""Views of the matrix's entries and cells: in short, in all numbers, seed by seed, and failed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

from alignkit.record import Cell, MatrixEntry, RunRecord, State
from alignkit.record.cell_facts import REFERENCE_ENDED
from alignkit.record.stored import Placed
from alignkit.report.matrix_view import entry_id
from alignkit.report.table import Table
from alignkit.task_facts import TaskFacts
from alignkit.text.column import Fact
from alignkit.text.names import Names, state_words
from alignkit.text.numbers import DASH, count, grouped, listed, percent, shorten
from alignkit.text.run_columns import (
    UNMEASURED,
    cell_columns,
    change_column,
    entry_columns,
    of_drifts,
    place_columns,
)
from alignkit.text.task_words import TaskWords, capital, size_in

Found = TypeVar("Found", bound=Placed)
MOST_REASON = 160
"""Characters of a reason."""
_MOST_MEASURES = 8
"""Measures of a table: more columns would not fit a page that is printed."""
_NAMED = 3
"""Cells that a failure names."""


def change_words(entry: MatrixEntry, words: TaskWords) -> str:
    """Write the change of the task's first metric with its interval.

    For a baseline it is the value itself, for an entry without one the reason.
    """
    drift, metric = entry.drift, words.headline
    if not entry.ran:
        return state_words(entry.state)  # a table of its own has the reasons
    if drift is None:
        own = entry.metrics.get(metric)
        return f"baseline, {DASH if own is None else words.value(metric, own)}"
    if drift.churn.value is None:
        return shorten(drift.churn.reason or "not measured", MOST_REASON)
    return words.estimated(metric, drift.metrics.get(metric, UNMEASURED))


def churn_words(entry: MatrixEntry) -> str:
    """Write the share of images whose answer changed."""
    known = entry.drift.churn.value if entry.drift else None
    return DASH if known is None else percent(known, 2)


def flips_words(entry: MatrixEntry, words: TaskWords) -> str:
    """Count images lost and gained, in words; of images without labels, those that changed."""
    drift = entry.drift
    if drift is None or drift.churn.value is None:
        return DASH
    images = grouped(drift.compared)
    if drift.right_to_wrong is None or drift.wrong_to_right is None:
        return f"{grouped(drift.changed or 0)} of {images} changed"
    worse, better = words.task.sides
    lost, gained = grouped(drift.right_to_wrong), grouped(drift.wrong_to_right)
    return f"{lost} {worse}, {gained} {better} of {images}"


def short_columns(words: TaskWords, names: Names) -> tuple[Fact[MatrixEntry], ...]:
    """Return an entry in short: its first column says what a dash in the others means."""

    def sides(entry: MatrixEntry) -> str:
        drift = entry.drift
        if drift is None or drift.right_to_wrong is None or drift.wrong_to_right is None:
            return DASH
        return f"{grouped(drift.right_to_wrong)} / {grouped(drift.wrong_to_right)}"

    def detectable(entry: MatrixEntry) -> str:
        limit = entry.drift.detectable if entry.drift else None
        return DASH if limit is None else size_in(words.task.rated_unit, limit)

    def change(entry: MatrixEntry) -> str:
        return change_words(entry, words) + ", simulated" * bool(entry.ran and entry.simulation)

    return (
        *place_columns(names),
        Fact(f"Δ {words.brief(words.headline)}", change, "points"),
        Fact("Churn", churn_words, "share"),
        Fact(capital(" / ".join(words.task.sides)), sides, "count"),
        Fact(f"Detectable Δ {words.task.rated}", detectable, "points"),
    )


def served_elsewhere(found: Iterable[Found], record: RunRecord) -> list[Found]:
    """Keep what models served with another path than they were trained with show.

    Of the runtimes that a record measured, only that of its aligned cells.
    """
    # none in a run of pixels alone
    runtimes = {each.column.runtime for each in record.matrix if each.aligned}
    return [
        each
        for each in found
        if each.evaluated_with not in each.row.preprocesses
        and (not runtimes or each.column.runtime in runtimes)
    ]


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason for which cells crashed."""

    title: str
    reason: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Ending:
    """A reason why entries of the matrix did not run."""

    state: State
    reason: str
    rows: tuple[str, ...]
    """Names of the models that it hit."""
    entries: int


def endings(matrix: Sequence[MatrixEntry], names: Names) -> tuple[Ending, ...]:
    """List each distinct reason once, failures first."""
    found: dict[tuple[State, str], list[str]] = {}
    for state in ("failed", "skipped", "built"):
        for entry in matrix:
            if entry.state == state:
                reason = entry.reason.removeprefix(REFERENCE_ENDED)
                row = entry.row.model or names.short(entry.trained_with)
                found.setdefault((entry.state, reason), []).append(row)
    return tuple(
        Ending(state, reason, tuple(dict.fromkeys(rows)), len(rows))
        for (state, reason), rows in found.items()
    )


def endings_table(matrix: Sequence[MatrixEntry], names: Names) -> Table | None:
    """Return each distinct reason with the models that it hit; ``None`` if every entry ran."""
    columns: tuple[Fact[Ending], ...] = (
        Fact("State", lambda each: state_words(each.state)),
        Fact("Reason", lambda each: each.reason),
        Fact("Models", lambda each: listed(each.rows)),
        Fact("Entries", lambda each: each.entries, "count"),
    )
    found = endings(matrix, names)
    return Table.made("Entries that did not run", columns, found) if found else None


def entries_table(matrix: Sequence[MatrixEntry], names: Names, words: TaskWords) -> Table:
    """Return each matrix entry with all of its numbers."""
    ids = map(entry_id, range(len(matrix)))
    columns = entry_columns(words, names)
    return Table.made("All comparisons, summed over seeds", columns, matrix, ids)


def per_seed_table(cells: Sequence[Cell], names: Names, words: TaskWords) -> Table:
    """Return each cell of each seed."""
    return Table.made("Every cell, seed by seed", cell_columns(words, names), cells)


def failures(record: RunRecord, names: Names) -> tuple[Failure, ...]:
    """List each distinct reason for which cells and trainings crashed, with its first traceback."""
    found: dict[str, list[_Ended]] = {}
    for training in record.trainings:
        if training.state == "failed":
            title, row = f"training {names.short(training.preprocess)}", training.preprocess
            # a training keeps no traceback
            ended = _Ended("training", title, row, training.seed, "")
            found.setdefault(training.reason, []).append(ended)
    for cell in record.cells:
        if cell.state == "failed":
            row = cell.row.model or names.short(cell.trained_with)
            ended = _Ended("cell", names.title(cell), row, cell.seed, cell.traceback)
            found.setdefault(cell.reason, []).append(ended)
    return tuple(
        Failure(_named(ended), reason, next((e.traceback for e in ended if e.traceback), ""))
        for reason, ended in found.items()
    )


class _Ended(NamedTuple):
    """A training or cell that crashed."""

    unit: Literal["training", "cell"]
    title: str
    row: str
    seed: int
    traceback: str


def _named(ended: Sequence[_Ended]) -> str:
    """Name the trainings and cells with their seeds; of many, the models that were hit."""
    seeds: dict[str, list[str]] = {}
    for each in ended:
        seeds.setdefault(each.title, []).append(str(each.seed))
    if len(seeds) > _NAMED:
        rows = list(dict.fromkeys(each.row for each in ended))
        units = Counter(each.unit for each in ended)
        return f"{' and '.join(count(n, unit) for unit, n in units.items())} of {listed(rows)}"
    return "; ".join(f"{title}, seed {listed(each)}" for title, each in seeds.items())


def measures_tables(
    matrix: Sequence[MatrixEntry], names: Names, words: TaskWords
) -> tuple[Table, ...]:
    """Return tables of each compared entry with the task's measures and their intervals.

    They say how far answers differ that no change of a metric shows. None for a task without
    measures, and where nothing was compared.
    """
    compared = sorted((entry for entry in matrix if entry.drift), key=lambda each: -each.churn)
    if not (measures := words.task.measures) or not compared:
        return ()
    trained, evaluated, runtime, *_ = place_columns(names)
    images: Fact[MatrixEntry] = Fact("Images", lambda entry: entry.drift and entry.drift.n, "count")
    caption = (
        "Differences of the answers from the baseline of the row, with 95 % intervals; the cell "
        "with most changed images first"
    )
    # a single row, or one number of images, leaves its room to the measures
    row, number = ({each.value(entry) for entry in compared} for each in (trained, images))
    caption += f"; trained with {row.copy().pop()}" * (len(row) == 1)
    caption += f"; {grouped(number.copy().pop())} images" * (len(number) == 1)
    several = (*([trained] if len(row) > 1 else []), evaluated, runtime)
    first: list[Fact[MatrixEntry]] = [*several, *([images] if len(number) > 1 else [])]
    shown = of_drifts(change_column(each.name, words, each.label) for each in measures)
    tables = math.ceil(len(shown) / _MOST_MEASURES)
    starts = [round(at * len(shown) / tables) for at in range(tables + 1)]
    return tuple(
        Table.made(caption, [*first, *shown[start:end]], compared)
        for start, end in pairwise(starts)
    )


def meanings(task: TaskFacts) -> tuple[str, ...]:
    """Define what the page shows of a task, a sentence each; none where no label needs it."""
    named = [*(each for each in task.metrics if each.name in task.matrices), *task.measures]
    defined = [f"{each.label}: {each.meaning}." for each in named if each.meaning]
    changed = f"Changed: {task.changed[:1].lower()}{task.changed[1:]}"
    return (changed, *defined) if defined else ()
