"""Views of the matrix's entries and cells: in short, in all numbers, seed by seed, and failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from alignkit.record import Cell, Drift, Estimate, MatrixEntry, RunRecord, State
from alignkit.record.cell_facts import REFERENCE_ENDED
from alignkit.record.stored import Placed
from alignkit.report.engine_view import engine_words
from alignkit.report.matrix_view import entry_id
from alignkit.report.table import PLACE, Notes, RowCells, Shown, Table, alarm, numbers
from alignkit.report.worst_view import cell_option
from alignkit.samples import NO_LABELS
from alignkit.text.names import CELL_METRICS, Names, state_words, why_not
from alignkit.text.numbers import (
    DASH,
    count,
    estimated,
    grouped,
    listed,
    p_value,
    percent,
    plain,
    shorten,
    significant,
    unsigned,
)

Found = TypeVar("Found", bound=Placed)
RECALL = "recall.macro"
MOST_REASON = 160
"""Characters of a reason."""
_NAMED = 3
"""Cells that a failure names."""
UNMEASURED = Estimate(None, None, None, "not measured")
OWN = "the aligned cell of its row: the others are compared with it"


@dataclass(frozen=True, slots=True)
class EntryView:
    """A matrix entry; a field that does not apply is a dash."""

    place: tuple[str, str, str]
    """Trained with, evaluated with, runtime."""
    change: str
    """Of macro recall, with its interval; the value if aligned; why the entry did not run."""
    churn: str = DASH
    changed: str = DASH
    lost: str = DASH
    """Images that were right and are wrong now."""
    gained: str = DASH
    images: str = DASH
    detectable: str = DASH
    is_significant: bool = False

    @property
    def both(self) -> str:
        """Images lost and gained, for a cell."""
        return DASH if self.lost == DASH else f"{self.lost} / {self.gained}"

    @property
    def flips(self) -> str:
        """Images lost and gained, in words; of images without labels, those that changed."""
        if self.lost == DASH:
            return f"{self.changed} of {self.images} changed"
        return f"{self.lost} lost, {self.gained} gained of {self.images}"


def entry_view(entry: MatrixEntry, names: Names) -> EntryView:
    """Write an entry of any state."""
    place, drift = names.cells(entry), entry.drift
    if not entry.ran:
        return EntryView(place, f"{state_words(entry.state)}: {shorten(entry.reason, MOST_REASON)}")
    if drift is None:
        own = entry.metrics.get(RECALL)
        return EntryView(place, f"aligned, {DASH if own is None else percent(own, 2)}")
    limit, churn = drift.detectable, drift.churn
    return EntryView(
        place,
        change=estimated(drift.metrics.get(RECALL, UNMEASURED)),
        churn=churn.reason if churn.value is None else percent(churn.value, 2),
        changed=counted(drift.changed),
        lost=counted(drift.right_to_wrong),
        gained=counted(drift.wrong_to_right),
        images=grouped(drift.n),
        detectable=DASH if limit is None else unsigned(limit),
        is_significant=bool(drift.is_significant(RECALL)),
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
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(entry), *_joined(entry, notes), cell_option(entry)) for entry in record.matrix
    ]
    ids = map(entry_id, range(len(rows)))
    columns = (
        *PLACE,
        *numbers("Images", "Δ macro recall, pp", "Δ macro precision, pp", "Δ top-1, pp", "Churn"),
        *numbers("Right → wrong", "Wrong → right", "Wrong → wrong"),
        *numbers("McNemar p", "Holm p, macro recall", "Detectable Δ top-1"),
        *numbers("Logits max |Δ|", "Logits mean |Δ|", "Cosine", "Non-finite"),
        "To run it alone",
    )
    return Table.of("All comparisons, seeds joined", columns, rows, notes=notes, ids=ids)


def per_seed_table(record: RunRecord, names: Names) -> Table:
    """Return each cell of each seed."""
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(cell), str(cell.seed), *_single(cell, notes)) for cell in record.cells
    ]
    columns = (
        *PLACE,
        *numbers("Seed", "Images", "Macro recall", "Macro precision", "Top-1"),
        *numbers("Δ macro recall, pp", "Churn", "Right → wrong", "Wrong → right"),
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


def _joined(entry: MatrixEntry, notes: Notes) -> RowCells:
    if entry.drift is None:
        reason = OWN if entry.ran else why_not(entry)
        return (notes.missing(reason),) * 15  # all columns between place and command
    drift, logits = entry.drift, entry.drift.logits
    untested = NO_LABELS if drift.right_to_wrong is None else "not tested"
    return (
        grouped(drift.n),
        *(_change(drift, metric, notes) for metric in CELL_METRICS),
        _churn(drift, notes),
        *_flips(drift, notes),
        _count(drift.wrong_to_wrong, notes),
        notes.number(drift.mcnemar_p, p_value, untested),
        notes.number(drift.holm.get("recall.macro"), p_value, untested),
        notes.number(drift.detectable, lambda value: plain(100 * value, 2), untested),
        notes.number(logits.max_abs, significant, logits.reason),
        notes.number(logits.mean_abs, significant, logits.reason),
        notes.number(logits.cosine, "{:.5f}".format, logits.reason),
        alarm(drift.non_finite),
    )


def _not_run(cell: Cell) -> str:
    state = state_words(cell.state)
    return f"{state}; {engine_words([cell.engine])}" if cell.engine else state


def _single(cell: Cell, notes: Notes) -> RowCells:
    if not cell.ran:
        return (*(notes.missing(why_not(cell)),) * 8, _not_run(cell))
    values = tuple(
        notes.number(cell.metrics.get(metric), lambda value: percent(value, 2), "not computed")
        for metric in CELL_METRICS
    )
    drift = cell.drift
    changes: RowCells = (
        (notes.missing(OWN),) * 4
        if drift is None
        else (_change(drift, "recall.macro", notes), _churn(drift, notes), *_flips(drift, notes))
    )
    ran = ", ".join(f"{name} {value}" for name, value in cell.effective.items())
    return (grouped(cell.n), *values, *changes, ran)


def _change(drift: Drift, metric: str, notes: Notes) -> Shown:
    return notes.estimated(drift.metrics.get(metric, UNMEASURED))


def _churn(drift: Drift, notes: Notes) -> Shown:
    return notes.number(drift.churn.value, lambda value: percent(value, 2), drift.churn.reason)


def _flips(drift: Drift, notes: Notes) -> tuple[Shown, Shown]:
    return _count(drift.right_to_wrong, notes), _count(drift.wrong_to_right, notes)


def _count(number: int | None, notes: Notes) -> Shown:
    return notes.number(number, lambda value: grouped(int(value)), NO_LABELS)
