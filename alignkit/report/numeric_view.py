"""Views of what runtimes alone change, and of whether a session's numbers hold still."""

from __future__ import annotations

from alignkit.record import (
    BatchCheck,
    BuildSpread,
    LogitDistance,
    NumericDrift,
    QuantisedDrift,
    RunRecord,
)
from alignkit.report.table import PLACE, Group, Notes, RowCells, Shown, Table, alarm, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped, percent, significant


def numeric_table(record: RunRecord, names: Names) -> Table | None:
    """Compare runtimes with the reference one of their row, all seeds; ``None`` with one runtime.

    Unlike the matrix, the path is the same on both sides, so that nothing but the runtime differs.
    """
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(entry), *_distance(entry.numeric, notes))
        for entry in record.matrix
        if entry.numeric
    ]
    columns = (
        *PLACE,
        *numbers("Images"),
        *numbers("Max", "Mean", "p50", "p99", "p99.9"),
        *numbers("Cosine"),
        *numbers("≤ 1e-5", "≤ 1e-3", "≤ 1e-2"),
        *numbers("Top-1", "Top-5"),
        *numbers("Flips", "Non-finite"),
    )
    groups = (
        Group("", 4),
        Group("|Δ logit|", 5),
        Group("", 1),
        Group("Images inside a tolerance", 3),
        Group("Images with the same", 2),
        Group("", 2),
    )
    caption = "Runtimes against the row’s reference runtime, on the same tensors, seeds joined"
    return Table.of(caption, columns, rows, groups, notes=notes) if rows else None


def quantised_table(record: RunRecord, names: Names) -> Table | None:
    """Divide int8's drift into quantisation and kernels; ``None`` unless a run executed both."""
    notes = Notes()
    rows: list[RowCells] = [
        (
            *names.cells(entry),
            entry.quantised.unfused,
            *(_churn(each) for each in _parts(entry.numeric, entry.quantised)),
            *(_greatest(each, notes) for each in _parts(entry.numeric, entry.quantised)),
        )
        for entry in record.matrix
        if entry.quantised and entry.numeric
    ]
    of_each = ("in all", "quantisation", "kernel")
    figures = [f"{name}, {part}" for name in ("Churn", "Max |Δ logit|") for part in of_each]
    columns = (*PLACE, "Same graph, unfused", *numbers(*figures))
    caption = (
        "int8 divided, on the same tensors: from the reference runtime to the quantised graph "
        "executed unfused (quantisation), and from there to the runtime’s own kernels (kernel). "
        "An image may change in both and return"
    )
    return Table.of(caption, columns, rows, notes=notes) if rows else None


def _parts(whole: NumericDrift, divided: QuantisedDrift) -> tuple[NumericDrift, ...]:
    return whole, divided.quantisation, divided.kernel


def _churn(drift: NumericDrift) -> Shown:
    return Shown(percent(drift.flips / drift.n, 2))


def _greatest(drift: NumericDrift, notes: Notes) -> Shown:
    return notes.number(drift.logits.max_abs, significant, drift.logits.reason)


def sessions_table(record: RunRecord, names: Names) -> Table | None:
    """Return each cell's tensors, batch check and builds; ``None`` where a record has none."""
    # cells that ran, in records that keep it
    cells = [cell for cell in record.cells if cell.inputs]
    if not cells:
        return None
    notes = Notes()
    built = any(cell.builds for cell in cells)
    rows: list[RowCells] = [
        (
            *names.cells(cell),
            str(cell.seed),
            cell.inputs[:12],  # enough to see which are equal
            *_batch(cell.batch, notes),
            *(_builds(cell.builds, notes) if built else ()),
            alarm(cell.non_finite),
        )
        for cell in cells
    ]
    builds = ("Builds", "Max |Δ logit|", "Flips") if built else ()
    columns = (
        *PLACE,
        *numbers("Seed"),
        "Input tensors, SHA-256",
        *numbers("Images", "Max |Δ logit|", "Flips", *builds, "Non-finite"),
    )
    groups = (
        Group("", 5),
        Group("One at a time against a batch", 3),
        *([Group("Repeated builds", 3)] if built else []),
        Group("", 1),
    )
    caption = (
        "Sessions: what they were handed, and whether batch size or another build changes logits"
    )
    return Table.of(caption, columns, rows, groups, notes=notes)


def _distance(drift: NumericDrift, notes: Notes) -> RowCells:
    logits = drift.logits
    distances = (logits.max_abs, logits.mean_abs, logits.p50, logits.p99, logits.p99_9)
    return (
        grouped(drift.n),
        *(notes.number(each, significant, logits.reason) for each in distances),
        notes.number(logits.cosine, "{:.6f}".format, logits.reason),
        *(_share(logits, logits.inside, each, notes) for each in ("1e-05", "1e-03", "1e-02")),
        *(_share(logits, logits.same_top, each, notes) for each in ("1", "5")),
        alarm(drift.flips),
        alarm(drift.non_finite),
    )


def _share(logits: LogitDistance, counts: dict[str, int], name: str, notes: Notes) -> Shown:
    # counts are keyed by the tolerance or by k, as the record's JSON writes them
    if name not in counts:
        return notes.missing(logits.reason or f"with {name} classes or fewer there is no other set")
    return Shown(percent(counts[name] / logits.compared, 2))


def _batch(check: BatchCheck | None, notes: Notes) -> RowCells:
    if check is None or check.max_abs is None:
        return (notes.missing(check.reason if check else "written by an earlier alignkit"),) * 3
    return f"{check.images} of {check.batch}", significant(check.max_abs), alarm(check.flips)


def _builds(spread: BuildSpread | None, notes: Notes) -> RowCells:
    if spread is None:  # not asked for: no gap that needs a reason
        return (DASH,) * 3
    if spread.max_abs is None:
        return (str(spread.builds), *(notes.missing(spread.reason),) * 2)
    return str(spread.builds), significant(spread.max_abs), alarm(spread.flips)
