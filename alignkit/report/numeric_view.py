"""What runtimes alone change, on the same tensors; and whether a session's numbers hold still."""

from __future__ import annotations

from alignkit.record import BatchCheck, BuildSpread, LogitDistance, MatrixEntry, RunRecord
from alignkit.report.table import (
    PLACE,
    Group,
    Header,
    Notes,
    RowCells,
    Shown,
    Table,
    alarm,
    number_columns,
)
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped, percent, significant

DISTANCES = ("max_abs", "mean_abs", "p50", "p99", "p99_9")
TOLERANCES = ("1e-05", "1e-03", "1e-02")
TOP = ("1", "5")


def numeric_table(record: RunRecord, names: Names) -> Table | None:
    """Each runtime against the reference runtime of its row, all seeds; ``None`` with one runtime.

    Unlike the matrix, the path is the same on both sides, so that nothing but the runtime differs.
    """
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(entry), *_distance(entry, notes)) for entry in record.matrix if entry.numeric
    ]
    columns = (
        *PLACE,
        *number_columns("Images", "Max", "Mean", "p50", "p99", "p99.9", "Cosine"),
        *number_columns("≤ 1e-5", "≤ 1e-3", "≤ 1e-2", "Top-1", "Top-5", "Flips", "Non-finite"),
    )
    groups = (
        Group("", 4), Group("|Δ logit|", 5), Group("", 1), Group("Images inside a tolerance", 3),
        Group("Images with the same", 2), Group("", 2),
    )  # fmt: skip
    caption = "Runtimes against the row’s reference runtime, on the same tensors, seeds joined"
    return Table.of(caption, columns, rows, groups, notes=notes) if rows else None


def sessions_table(record: RunRecord, names: Names) -> Table | None:
    """Each cell's tensors, batch check and builds; ``None`` where a record has none."""
    cells = [cell for cell in record.cells if cell.inputs]
    if not cells:
        return None
    notes = Notes()
    built = any(cell.builds for cell in cells)
    rows: list[RowCells] = [
        (
            *names.cells(cell),
            str(cell.seed),
            cell.inputs[:12],
            *_batch(cell.batch, notes),
            *(_builds(cell.builds, notes) if built else ()),
            alarm(cell.non_finite),
        )
        for cell in cells
    ]
    builds = number_columns("Builds", "Max |Δ logit|", "Flips") if built else ()
    columns = (
        *PLACE, Header("Seed", numeric=True), Header("Input tensors, SHA-256"),
        *number_columns("Images", "Max |Δ logit|", "Flips"), *builds, Header("Non-finite", True),
    )  # fmt: skip
    over = [Group("", 5), Group("One at a time against a batch", 3)]
    over += [Group("Built anew", 3)] if built else []
    return Table.of(
        "Sessions: what they were handed, and whether batch size or another build changes logits",
        columns,
        rows,
        (*over, Group("", 1)),
        notes=notes,
    )


def _distance(entry: MatrixEntry, notes: Notes) -> tuple[Shown, ...]:
    numeric = entry.numeric
    assert numeric is not None
    logits = numeric.logits
    lost = grouped(numeric.non_finite)
    return (
        Shown(grouped(numeric.n)),
        *(notes.number(getattr(logits, each), significant, logits.reason) for each in DISTANCES),
        notes.number(logits.cosine, lambda value: f"{value:.6f}", logits.reason),
        *(_share(logits, logits.inside, each, notes) for each in TOLERANCES),
        *(_share(logits, logits.same_top, each, notes) for each in TOP),
        alarm(numeric.flips),
        Shown(lost, tone="bad" if numeric.non_finite else ""),
    )


def _share(logits: LogitDistance, counts: dict[str, int], name: str, notes: Notes) -> Shown:
    if name not in counts:
        return notes.missing(logits.reason or f"with {name} classes or fewer there is no other set")
    return Shown(percent(counts[name] / logits.compared, 2))


def _batch(check: BatchCheck | None, notes: Notes) -> tuple[Shown, ...]:
    if check is None or check.max_abs is None:
        gap = notes.missing(check.reason if check else "written by an earlier alignkit")
        return gap, gap, gap
    return (
        Shown(f"{check.images} of {check.batch}"),
        Shown(significant(check.max_abs)),
        alarm(check.flips),
    )


def _builds(spread: BuildSpread | None, notes: Notes) -> tuple[Shown, ...]:
    if spread is None:
        return Shown(DASH), Shown(DASH), Shown(DASH)
    if spread.max_abs is None:
        gap = notes.missing(spread.reason)
        return Shown(str(spread.builds)), gap, gap
    return (
        Shown(str(spread.builds)),
        Shown(significant(spread.max_abs)),
        alarm(spread.flips),
    )
