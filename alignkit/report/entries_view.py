"""Views of the matrix's entries and cells: in short, in all numbers, seed by seed, and failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeVar

from alignkit.record import Cell, Drift, Estimate, MatrixEntry, RunRecord, State
from alignkit.record.cell_facts import REFERENCE_ENDED
from alignkit.record.stored import Placed
from alignkit.report.engine_view import engine_words
from alignkit.report.matrix_view import entry_id
from alignkit.report.table import PLACE, Notes, RowCells, Shown, Table, alarm, numbers
from alignkit.samples import NO_LABELS
from alignkit.text.names import Names, state_words, why_not
from alignkit.text.numbers import (
    DASH,
    count,
    grouped,
    listed,
    p_value,
    percent,
    plain,
    shorten,
    significant,
)
from alignkit.text.part_commands import cell_option
from alignkit.text.task_words import TaskWords, capital, size_in

Found = TypeVar("Found", bound=Placed)
MOST_REASON = 160
"""Characters of a reason."""
_NAMED = 3
"""Cells that a failure names."""
UNMEASURED = Estimate(None, None, None, "not measured")
OWN = "the baseline of its row: the others are compared with it"


@dataclass(frozen=True, slots=True)
class EntryView:
    """A matrix entry; a field that does not apply is a dash."""

    place: tuple[str, str, str]
    """Trained with, evaluated with, runtime."""
    change: str
    """Of the task's first metric, with its interval; the value of a baseline; why the entry did not
    run."""
    churn: str = DASH
    changed: str = DASH
    lost: str = DASH
    """Images whose answer changed for the worse: that were right and are wrong now."""
    gained: str = DASH
    images: str = DASH
    detectable: str = DASH
    is_significant: bool = False
    sides: tuple[str, str] = ("", "")
    """The task's words after the numbers of images lost and gained."""

    @property
    def both(self) -> str:
        """Images lost and gained, for a cell."""
        return DASH if self.lost == DASH else f"{self.lost} / {self.gained}"

    @property
    def flips(self) -> str:
        """Images lost and gained, in words; of images without labels, those that changed."""
        if self.images == DASH:
            return DASH
        if self.lost == DASH:
            return f"{self.changed} of {self.images} changed"
        worse, better = self.sides
        return f"{self.lost} {worse}, {self.gained} {better} of {self.images}"


def entry_view(entry: MatrixEntry, names: Names, words: TaskWords) -> EntryView:
    """Write an entry of any state."""
    place, drift = names.cells(entry), entry.drift
    if not entry.ran:
        return EntryView(place, f"{state_words(entry.state)}: {shorten(entry.reason, MOST_REASON)}")
    if drift is None:
        own = entry.metrics.get(words.headline)
        value = DASH if own is None else words.value(words.headline, own)
        return EntryView(place, f"baseline, {value}")
    limit, churn = drift.detectable, drift.churn
    if churn.value is None:
        return EntryView(place, shorten(churn.reason or "not measured", MOST_REASON))
    return EntryView(
        place,
        change=words.estimated(words.headline, drift.metrics.get(words.headline, UNMEASURED)),
        churn=percent(churn.value, 2),
        changed=counted(drift.changed),
        lost=counted(drift.right_to_wrong),
        gained=counted(drift.wrong_to_right),
        images=grouped(drift.compared),
        detectable=DASH if limit is None else size_in(words.task.rated_unit, limit),
        is_significant=bool(drift.is_significant(words.headline)),
        sides=words.task.sides,
    )


def counted(number: int | None) -> str:
    """Write a count; a dash if it needs labels and there are none."""
    return DASH if number is None else grouped(number)


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


def endings(record: RunRecord, names: Names) -> tuple[Ending, ...]:
    """List each distinct reason once, failures first."""
    found: dict[tuple[State, str], list[str]] = {}
    for state in ("failed", "skipped", "built"):
        for entry in record.matrix:
            if entry.state == state:
                reason = entry.reason.removeprefix(REFERENCE_ENDED)
                row = entry.row.model or names.short(entry.trained_with)
                found.setdefault((entry.state, reason), []).append(row)
    return tuple(
        Ending(state, reason, tuple(dict.fromkeys(rows)), len(rows))
        for (state, reason), rows in found.items()
    )


def endings_table(record: RunRecord, names: Names) -> Table | None:
    """Return each distinct reason with the models that it hit; ``None`` if every entry ran."""
    rows = [
        (state_words(each.state), each.reason, listed(each.rows), grouped(each.entries))
        for each in endings(record, names)
    ]
    columns = ("State", "Reason", "Models", *numbers("Entries"))
    return Table.of("Entries that did not run", columns, rows) if rows else None


def entries_table(record: RunRecord, names: Names) -> Table:
    """Return each matrix entry with all of its numbers."""
    notes, words = Notes(), TaskWords(record.task)
    task = words.task
    scores = capital(task.outputs)
    distances = (f"{scores} max |Δ|", f"{scores} mean |Δ|", "Cosine")
    columns = (
        *PLACE,
        *numbers("Images", *map(words.header, words.cell_metrics), "Churn"),
        *numbers(*map(capital, task.turned)),
        *numbers(f"{task.test} p", f"Holm p, {words.phrase(words.headline)}"),
        *numbers(f"Smallest Δ {task.rated} it could show"),
        *numbers(*(distances if task.class_scores else ()), "Non-finite"),
        "To run it alone",
    )
    empty = len(columns) - len(PLACE) - 1
    rows: list[RowCells] = [
        (*names.cells(entry), *_joined(entry, words, notes, empty), cell_option(entry))
        for entry in record.matrix
    ]
    ids = map(entry_id, range(len(rows)))
    caption = "All comparisons, summed over seeds"
    return Table.of(caption, columns, rows, notes=notes, ids=ids)


def per_seed_table(record: RunRecord, names: Names) -> Table:
    """Return each cell of each seed."""
    notes, words = Notes(), TaskWords(record.task)
    rows: list[RowCells] = [
        (*names.cells(cell), str(cell.seed), *_single(cell, words, notes)) for cell in record.cells
    ]
    columns = (
        *PLACE,
        *numbers("Seed", "Images", *(capital(words.brief(each)) for each in words.cell_metrics)),
        *numbers(words.header(words.headline), "Churn", *map(capital, words.task.turned[:2])),
        "What ran",
    )
    return Table.of("Every cell, seed by seed", columns, rows, notes=notes)


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


def _joined(entry: MatrixEntry, words: TaskWords, notes: Notes, empty: int) -> RowCells:
    """Write all columns between place and command, so many as are ``empty`` without a drift."""
    if entry.drift is None:
        reason = OWN if entry.ran else why_not(entry)
        return (notes.missing(reason),) * empty
    drift, logits = entry.drift, entry.drift.logits
    untested = NO_LABELS if drift.right_to_wrong is None else "not tested"
    distances: RowCells = ()
    if words.task.class_scores:
        distances = (
            notes.number(logits.max_abs, significant, logits.reason),
            notes.number(logits.mean_abs, significant, logits.reason),
            notes.number(logits.cosine, lambda each: plain(each, 5), logits.reason),
        )
    return (
        grouped(drift.n),
        *(_change(drift, metric, words, notes) for metric in words.cell_metrics),
        _churn(drift, notes),
        *_flips(drift, notes),
        _count(drift.wrong_to_wrong, notes),
        notes.number(drift.mcnemar_p, p_value, untested),
        notes.number(drift.holm.get(words.headline), p_value, untested),
        notes.number(drift.detectable, partial(_detectable, words), untested),
        *distances,
        alarm(drift.non_finite),
    )


def _detectable(words: TaskWords, value: float) -> str:
    unit = words.task.rated_unit
    return plain(100 * value, 2) if unit == "share" else size_in(unit, value)


def _not_run(cell: Cell) -> str:
    state = state_words(cell.state)
    return f"{state}; {engine_words([cell.engine])}" if cell.engine else state


def _single(cell: Cell, words: TaskWords, notes: Notes) -> RowCells:
    if not cell.ran:
        empty = 5 + len(words.cell_metrics)
        return (*(notes.missing(why_not(cell)),) * empty, _not_run(cell))
    values = tuple(
        notes.number(cell.metrics.get(metric), partial(words.value, metric), "not computed")
        for metric in words.cell_metrics
    )
    drift = cell.drift
    changes: RowCells = (
        (notes.missing(OWN),) * 4
        if drift is None
        else (
            _change(drift, words.headline, words, notes),
            _churn(drift, notes),
            *_flips(drift, notes),
        )
    )
    ran = ", ".join(f"{name} {value}" for name, value in cell.effective.items())
    return (grouped(cell.n), *values, *changes, ran)


def _change(drift: Drift, metric: str, words: TaskWords, notes: Notes) -> Shown:
    change = drift.metrics.get(metric, UNMEASURED)
    return notes.worded(change, words.estimated(metric, change))


def _churn(drift: Drift, notes: Notes) -> Shown:
    return notes.number(drift.churn.value, lambda value: percent(value, 2), drift.churn.reason)


def _flips(drift: Drift, notes: Notes) -> tuple[Shown, Shown]:
    return _count(drift.right_to_wrong, notes), _count(drift.wrong_to_right, notes)


def _count(number: int | None, notes: Notes) -> Shown:
    return notes.number(number, lambda value: grouped(int(value)), NO_LABELS)
