"""Views of distances between logits: where no labels tell more, where runtimes alone differ."""

from __future__ import annotations

from alignkit.record import (
    BatchCheck,
    BuildSpread,
    LogitDistance,
    MatrixEntry,
    MovedImage,
    NumericDrift,
    QuantisedDrift,
    RunRecord,
)
from alignkit.report.entries_view import counted
from alignkit.report.table import PLACE, Group, Notes, RowCells, Shown, Table, alarm, numbers
from alignkit.task_facts import TaskFacts
from alignkit.text.class_words import NOT_FINITE, unknown_margin
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped, percent, plain, significant
from alignkit.text.task_words import TaskWords

_COMPARISONS = 12
"""Comparisons whose images the page shows."""


def logit_columns(task: TaskFacts) -> tuple[str, ...]:
    """Return the headings of `logit_cells`."""
    mean = f"Mean |Δ{task.output}|"
    return ("Churn", "Changed", mean, "p99", "Max", "Cosine", "Margin halved")


def logits_legend(task: TaskFacts) -> str:
    """Say what the columns of class scores without labels mean."""
    output = task.output
    return (
        "Churn is the share of images whose predicted class changes against the baseline of the "
        f"row. |Δ{output}| is taken {output} by {output}, the cosine image by image. The margin is "
        f"the {output} of the class that the baseline predicts less the greatest other one; halved "
        "counts images that keep their class and lose half of it or more."
    )


def logit_cells(entry: MatrixEntry) -> tuple[str, ...]:
    """Write what an entry's drift shows without labels; dashes if it has none."""
    drift = entry.drift
    if drift is None:
        return (DASH,) * 7
    logits, margins = drift.logits, drift.margins
    distances = (logits.mean_abs, logits.p99, logits.max_abs)
    return (
        DASH if drift.churn.value is None else percent(drift.churn.value, 2),
        DASH
        if drift.churn.value is None
        else f"{counted(drift.changed)} of {grouped(drift.compared)}",
        *(DASH if each is None else significant(each) for each in distances),
        DASH if logits.cosine is None else plain(logits.cosine, 5),
        grouped(margins.halved) if margins and margins.compared else DASH,
    )


def unlabelled_columns(words: TaskWords) -> tuple[str, ...]:
    """Return the headings of `unlabelled_cells`."""
    heads = logit_columns(words.task)
    if words.task.class_scores:
        return heads
    return (*heads[:2], *(each.label for each in words.task.measures))


def unlabelled_cells(entry: MatrixEntry, words: TaskWords) -> tuple[str, ...]:
    """Write what an entry's drift shows without labels: of logits, or the task's measures."""
    cells = logit_cells(entry)
    if words.task.class_scores:
        return cells
    found = entry.drift.measures if entry.drift else {}
    return cells[:2] + tuple(
        DASH if (known := found.get(each.name)) is None else words.estimated(each.name, known)
        for each in words.task.measures
    )


def logits_table(record: RunRecord, names: Names) -> Table | None:
    """Return the drift of each entry without labels; ``None`` if the images have labels.

    None either for a task without class scores, whose measures have a table of their own.
    """
    if record.labelled or not record.matrix or not record.task.class_scores:
        return None
    notes, words = Notes(), TaskWords(record.task)
    rows: list[RowCells] = []
    for entry in record.matrix:
        cells: RowCells = unlabelled_cells(entry, words)
        lost: RowCells = (DASH, DASH)
        if drift := entry.drift:
            margins, reason = drift.margins, drift.logits.reason
            reasons = (*[reason] * (len(cells) - 1), margins.reason if margins else reason)
            cells = tuple(
                notes.missing(why) if each == DASH and why else each
                for each, why in zip(cells, reasons, strict=True)
            )
        if entry.drift and (margins := entry.drift.margins):
            lost = tuple(
                notes.number(each, percent, margins.reason) for each in (margins.p50, margins.p99)
            )
        rows.append((*names.cells(entry), *cells, *lost))
    columns = (*PLACE, *numbers(*unlabelled_columns(words), "Margin lost, median", "p99"))
    caption = "Drift of predictions without labels, against the baseline of the row"
    return Table.of(caption, columns, rows, notes=notes)


def moved_tables(record: RunRecord, names: Names) -> tuple[Table, ...]:
    """Return the images that moved most in each comparison, by falling churn.

    Of images with labels only where one path is compared with itself: the images whose pixels
    differ most are shown otherwise.
    """
    if record.labelled and len(record.paths) > 1:
        return ()
    compared = [entry for entry in record.matrix if entry.drift and entry.drift.moved]
    compared.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    return tuple(_moved(entry, names, record.task) for entry in compared[:_COMPARISONS])


def _moved(entry: MatrixEntry, names: Names, task: TaskFacts) -> Table:
    assert entry.drift is not None
    notes = Notes()
    rows = [_image(each, notes) for each in entry.drift.moved]
    columns = ("Image", "Change", *numbers(f"Max |Δ{task.output}|", "Margin", "Margin lost"))
    return Table.of(f"Images that moved most: {names.title(entry)}", columns, rows, notes=notes)


def _image(each: MovedImage, notes: Notes) -> RowCells:
    changed = each.before != each.after
    return (
        each.id,
        f"{each.before} → {each.after}" if changed else f"stays {each.before}",
        notes.number(each.max_abs, significant, NOT_FINITE),
        notes.number(each.margin, significant, NOT_FINITE),
        notes.number(each.lost, percent, unknown_margin(each)),
    )


def numeric_table(record: RunRecord, names: Names) -> Table | None:
    """Compare runtimes with the reference one of their row, all seeds; ``None`` with one runtime.

    Unlike the matrix, the path is the same on both sides, so that nothing but the runtime differs.
    Columns of distances are left out where none is known.
    """
    notes, classes = Notes(), record.task.class_scores
    compared = [(entry, entry.numeric) for entry in record.matrix if entry.numeric]
    known = any(drift.logits.max_abs is not None for _, drift in compared)
    rows: list[RowCells] = [
        (
            *names.cells(entry),
            grouped(drift.n),
            *(_distances(drift.logits, notes) if known else ()),
            *(_ranked(drift.logits, notes) if classes else ()),
            alarm(drift.flips),
            alarm(drift.non_finite),
        )
        for entry, drift in compared
    ]
    far = ("Max", "Mean", "p50", "p99", "p99.9", "Cosine", "≤ 1e-5", "≤ 1e-3", "≤ 1e-2")
    columns = (
        *PLACE,
        *numbers("Images", *(far if known else ()), *(("Top-1", "Top-5") if classes else ())),
        *numbers("Flips" if classes else "Changed", "Non-finite"),
    )
    inside = (
        Group(f"|Δ {record.task.output}|", 5),
        Group("", 1),
        Group("Images inside a tolerance", 3),
    )
    groups = (
        Group("", 4),
        *(inside if known else ()),
        *([Group("Images with the same", 2)] if classes else []),
        Group("", 2),
    )
    caption = "Runtimes against the row’s reference runtime, on the same tensors, summed over seeds"
    if not known:
        reasons = dict.fromkeys(drift.logits.reason for _, drift in compared)
        caption += f"; no distance of {record.task.outputs}: {'; '.join(reasons)}"
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
    greatest = f"Max |Δ {record.task.output}|"
    figures = [f"{name}, {part}" for name in ("Churn", greatest) for part in of_each]
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
    built, output = any(cell.builds for cell in cells), record.task.output
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
    moved = (f"Max |Δ {output}|", "Flips" if record.task.class_scores else "Changed")
    builds = ("Builds", *moved) if built else ()
    columns = (
        *PLACE,
        *numbers("Seed"),
        "Input tensors, SHA-256",
        *numbers("Images", *moved, *builds, "Non-finite"),
    )
    groups = (
        Group("", 5),
        Group("One at a time against a batch", 3),
        *([Group("Repeated builds", 3)] if built else []),
        Group("", 1),
    )
    caption = (
        "Runtime sessions and input hashes, and whether batch size or another build changes "
        f"{record.task.outputs}"
    )
    return Table.of(caption, columns, rows, groups, notes=notes)


def _distances(logits: LogitDistance, notes: Notes) -> RowCells:
    distances = (logits.max_abs, logits.mean_abs, logits.p50, logits.p99, logits.p99_9)
    return (
        *(notes.number(each, significant, logits.reason) for each in distances),
        notes.number(logits.cosine, lambda each: plain(each, 6), logits.reason),
        *(_share(logits, logits.inside, each, notes) for each in ("1e-05", "1e-03", "1e-02")),
    )


def _ranked(logits: LogitDistance, notes: Notes) -> RowCells:
    return tuple(_share(logits, logits.same_top, each, notes) for each in ("1", "5"))


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
    apart = notes.number(spread.max_abs, significant, spread.reason)
    # a failed build has none
    flips = alarm(spread.flips) if spread.images else notes.missing(spread.reason)
    return str(spread.builds), apart, flips
