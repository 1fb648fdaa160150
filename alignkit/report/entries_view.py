"""Views of the matrix's entries and cells: in short, in all numbers, seed by seed, and failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from alignkit.record import Cell, Drift, Estimate, MatrixEntry, RunRecord, State
from alignkit.record.stored import Placed
from alignkit.report.engine_view import engine_words
from alignkit.report.matrix_view import entry_id
from alignkit.report.table import PLACE, Notes, RowCells, Shown, Table, alarm, numbers
from alignkit.report.worst_view import cell_option
from alignkit.text.names import CELL_METRICS, Names, state_words, why_not
from alignkit.text.numbers import (
    DASH,
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
_NAMED = 4
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
        """Images lost and gained, in words."""
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
        lost=grouped(drift.right_to_wrong),
        gained=grouped(drift.wrong_to_right),
        images=grouped(drift.n),
        detectable=DASH if limit is None else unsigned(limit),
        is_significant=bool(drift.is_significant(RECALL)),
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


REFERENCE_ENDED = "the cell it is compared with did not run: "
"""Beginning of the reason of an entry whose reference ended so."""


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
    found: dict[str, list[tuple[str, str, str]]] = {}
    for training in record.trainings:
        if training.state == "failed":
            title = f"training {names.short(training.preprocess)}"
            # a training keeps no traceback
            found.setdefault(training.reason, []).append((title, str(training.seed), ""))
    for cell in record.cells:
        if cell.state == "failed":
            ended = (names.title(cell), str(cell.seed), cell.traceback)
            found.setdefault(cell.reason, []).append(ended)
    return tuple(
        Failure(_failed_cells(ended), reason, next((each[2] for each in ended if each[2]), ""))
        for reason, ended in found.items()
    )


def _failed_cells(ended: Sequence[tuple[str, str, str]]) -> str:
    """Name the cells that one reason ended, with their seeds: the first `_NAMED` of them."""
    seeds: dict[str, list[str]] = {}
    for title, seed, _ in ended:
        seeds.setdefault(title, []).append(seed)
    titles = [f"{title}, seed {listed(each)}" for title, each in seeds.items()]
    more = [f"{len(titles) - _NAMED} more"] if len(titles) > _NAMED else []
    return "; ".join([*titles[:_NAMED], *more])


def _joined(entry: MatrixEntry, notes: Notes) -> RowCells:
    if entry.drift is None:
        reason = OWN if entry.ran else why_not(entry)
        return (notes.missing(reason),) * 15  # all columns between place and command
    drift, logits = entry.drift, entry.drift.logits
    return (
        grouped(drift.n),
        *(_change(drift, metric, notes) for metric in CELL_METRICS),
        _churn(drift, notes),
        *_flips(drift),
        grouped(drift.wrong_to_wrong),
        notes.number(drift.mcnemar_p, p_value, "no image flipped, so there is nothing to test"),
        notes.number(drift.holm.get("recall.macro"), p_value, "not tested"),
        notes.number(drift.detectable, lambda value: plain(100 * value, 2), "too few images"),
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
        else (_change(drift, "recall.macro", notes), _churn(drift, notes), *_flips(drift))
    )
    ran = ", ".join(f"{name} {value}" for name, value in cell.effective.items())
    return (grouped(cell.n), *values, *changes, ran)


def _change(drift: Drift, metric: str, notes: Notes) -> Shown:
    return notes.estimated(drift.metrics.get(metric, UNMEASURED))


def _churn(drift: Drift, notes: Notes) -> Shown:
    return notes.number(drift.churn.value, lambda value: percent(value, 2), drift.churn.reason)


def _flips(drift: Drift) -> tuple[str, str]:
    return grouped(drift.right_to_wrong), grouped(drift.wrong_to_right)
