"""Views of drift that need no labels: churn, distances of logits, margins, images that moved."""

from __future__ import annotations

from alignkit.record import MatrixEntry, MovedImage, RunRecord
from alignkit.report.entries_view import counted
from alignkit.report.table import PLACE, Notes, RowCells, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped, percent, significant

LOGIT_COLUMNS = (
    "Churn", "Changed", "Mean |Δlogit|", "p99", "Max", "Cosine", "Margin halved",
)  # fmt: skip
"""Headings of `logit_cells`."""
LEGEND = (
    "Churn is the share of images whose predicted class changes against the aligned cell of the "
    "row. |Δlogit| is taken logit by logit, the cosine image by image. The margin is the logit of "
    "the class that the aligned cell predicts less the greatest other one; halved counts images "
    "that keep their class and lose half of it or more."
)
_COMPARISONS = 12
"""Comparisons whose images the page shows."""


def logit_cells(entry: MatrixEntry) -> tuple[str, ...]:
    """Write what an entry's drift shows without labels; dashes if it has none."""
    drift = entry.drift
    if drift is None:
        return (DASH,) * len(LOGIT_COLUMNS)
    logits, margins = drift.logits, drift.margins
    distances = (logits.mean_abs, logits.p99, logits.max_abs)
    return (
        DASH if drift.churn.value is None else percent(drift.churn.value, 2),
        f"{counted(drift.changed)} of {grouped(drift.n)}",
        *(DASH if each is None else significant(each) for each in distances),
        DASH if logits.cosine is None else f"{logits.cosine:.5f}",
        DASH if margins is None else grouped(margins.halved),
    )


def logits_table(record: RunRecord, names: Names) -> Table | None:
    """Return the drift of each entry without labels; ``None`` if the images have labels."""
    if record.labelled or not record.matrix:
        return None
    notes = Notes()
    rows: list[RowCells] = []
    for entry in record.matrix:
        cells: RowCells = logit_cells(entry)
        lost: RowCells = (DASH, DASH)
        if entry.drift and (margins := entry.drift.margins):
            lost = tuple(
                notes.number(each, percent, margins.reason) for each in (margins.p50, margins.p99)
            )
        rows.append((*names.cells(entry), *cells, *lost))
    columns = (*PLACE, *numbers(*LOGIT_COLUMNS, "Margin lost, median", "p99"))
    caption = "Drift of predictions without labels, against the aligned cell of the row"
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
    return tuple(_moved(entry, names) for entry in compared[:_COMPARISONS])


def _moved(entry: MatrixEntry, names: Names) -> Table:
    assert entry.drift is not None
    notes = Notes()
    rows = [_image(each, notes) for each in entry.drift.moved]
    columns = ("Image", "Change", *numbers("Max |Δlogit|", "Margin", "Margin lost"))
    return Table.of(f"Images that moved most: {names.title(entry)}", columns, rows, notes=notes)


def _image(each: MovedImage, notes: Notes) -> RowCells:
    changed = each.before != each.after
    none = "no finite logits, or no margin above 0"
    return (
        each.id,
        f"{each.before} → {each.after}" if changed else f"stays {each.before}",
        notes.number(each.max_abs, significant, none),
        notes.number(each.margin, significant, none),
        notes.number(each.lost, percent, none),
    )
