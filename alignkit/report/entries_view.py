"""Every comparison in numbers: joined over seeds, seed by seed, and the cells that failed."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import Cell, Drift, Estimate, MatrixEntry, RunRecord
from alignkit.report.matrix_view import entry_id
from alignkit.report.reproduce import cell_option
from alignkit.report.table import (
    PLACE,
    Header,
    Notes,
    RowCells,
    Shown,
    Table,
    alarm,
    number_columns,
)
from alignkit.text.names import CELL_METRICS, Names
from alignkit.text.numbers import grouped, listed, p_value, percent, plain, significant

OWN = "the aligned cell of its row: the others are compared with it"


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell that crashed."""

    title: str
    reason: str
    traceback: str


def entries_table(record: RunRecord, names: Names) -> Table:
    """Each matrix entry with all of its numbers."""
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(entry), *_joined(entry, notes), cell_option(entry)) for entry in record.matrix
    ]
    ids = map(entry_id, range(len(rows)))
    columns = (
        *PLACE,
        *number_columns(
            "Images", "Δ macro recall, pp", "Δ macro precision, pp", "Δ top-1, pp", "Churn",
            "Right → wrong", "Wrong → right", "Wrong → wrong", "McNemar p", "Holm p, macro recall",
            "Detectable Δ top-1", "Logits max |Δ|", "Logits mean |Δ|", "Cosine", "Non-finite",
        ),
        Header("To run it alone"),
    )  # fmt: skip
    return Table.of("All comparisons, seeds joined", columns, rows, notes=notes, ids=ids)


def per_seed_table(record: RunRecord, names: Names) -> Table:
    """Each cell of each seed."""
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(cell), str(cell.seed), *_single(cell, notes)) for cell in record.cells
    ]
    columns = (
        *PLACE,
        Header("Seed", numeric=True),
        *number_columns("Images", "Macro recall", "Macro precision", "Top-1"),
        *number_columns("Δ macro recall, pp", "Churn", "Right → wrong", "Wrong → right"),
        Header("What ran"),
    )
    return Table.of("Every cell, seed by seed", columns, rows, notes=notes)


def failures(record: RunRecord, names: Names) -> tuple[Failure, ...]:
    """RowCells and trainings that crashed, the same crash of several seeds once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for training in record.trainings:
        if training.state == "failed":
            title = f"training {names.short(training.preprocess)}"
            found.setdefault((title, training.reason, ""), []).append(str(training.seed))
    for cell in record.cells:
        if cell.state == "failed":
            found.setdefault((names.title(cell), cell.reason, cell.traceback), []).append(
                str(cell.seed)
            )
    return tuple(
        Failure(f"{title}, seed {listed(seeds)}", reason, traceback)
        for (title, reason, traceback), seeds in found.items()
    )


def _joined(entry: MatrixEntry, notes: Notes) -> tuple[Shown, ...]:
    if entry.drift is None:
        reason = OWN if entry.state == "measured" else f"{entry.state}: {entry.reason}"
        return (notes.missing(reason),) * 15
    drift, logits = entry.drift, entry.drift.logits
    return (
        Shown(grouped(drift.n)),
        *(_change(drift, metric, notes) for metric in CELL_METRICS),
        _churn(drift, notes),
        *_flips(drift),
        Shown(grouped(drift.wrong_to_wrong)),
        notes.number(drift.mcnemar_p, p_value, "no image flipped, so there is nothing to test"),
        notes.number(drift.holm.get("recall.macro"), p_value, "not tested"),
        notes.number(drift.detectable, lambda value: plain(100 * value, 2), "too few images"),
        notes.number(logits.max_abs, significant, logits.reason),
        notes.number(logits.mean_abs, significant, logits.reason),
        notes.number(logits.cosine, lambda value: f"{value:.5f}", logits.reason),
        alarm(drift.non_finite),
    )


def _single(cell: Cell, notes: Notes) -> tuple[Shown, ...]:
    if cell.state != "measured":
        gap = notes.missing(f"{cell.state}: {cell.reason}")
        return (*(gap,) * 8, Shown(cell.state))
    values = tuple(
        notes.number(cell.metrics.get(metric), lambda value: percent(value, 2), "not computed")
        for metric in CELL_METRICS
    )
    drift = cell.drift
    changes = (
        (notes.missing(OWN),) * 4
        if drift is None
        else (_change(drift, "recall.macro", notes), _churn(drift, notes), *_flips(drift))
    )
    ran = ", ".join(f"{name} {value}" for name, value in cell.effective.items())
    return (Shown(grouped(cell.n)), *values, *changes, Shown(ran))


def _change(drift: Drift, metric: str, notes: Notes) -> Shown:
    return notes.estimated(drift.metrics.get(metric, Estimate(None, None, None)))


def _churn(drift: Drift, notes: Notes) -> Shown:
    return notes.number(drift.churn.value, lambda value: percent(value, 2), drift.churn.reason)


def _flips(drift: Drift) -> tuple[Shown, Shown]:
    return Shown(grouped(drift.right_to_wrong)), Shown(grouped(drift.wrong_to_right))
