"""How far two paths differ in luma and in chroma: `PlaneStage`s → a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alignkit.record import PlaneStage
from alignkit.report.stage_view import ZERO
from alignkit.report.table import Notes, RowCells, Shown, Table, number_columns, text_columns
from alignkit.text.numbers import grouped, plain, signed

CAPTION = (
    "Luma and chroma: JPEG's Y'CbCr, in grey levels, each path on its own. Chroma upsampling moves "
    "Cb and Cr, and Y' only where a colour is cut off at 0 or 255."
)
MEASURES = ("Images", "Mean Δ", "Max Δ", "Bias", "p99", "p99.9", "PSNR, dB")
IDENTICAL = "nothing differs: PSNR is infinite"
NOTHING = "no pair of values could be compared"


def planes_table(planes: Sequence[PlaneStage]) -> Table:
    """A row a stage and plane."""
    notes = Notes()
    rows: list[RowCells] = [
        (each.stage, each.plane, grouped(each.images), *_row(each, notes)) for each in planes
    ]
    columns = (*text_columns("Stage", "Plane"), *number_columns(*MEASURES))
    return Table.of(CAPTION, columns, rows, notes=notes)


def _row(found: PlaneStage, notes: Notes) -> tuple[Shown, ...]:
    def number(value: float | None, show: Callable[[float], str]) -> Shown:
        return ZERO if value == 0 else notes.number(value, show, NOTHING)

    psnr = IDENTICAL if found.max_abs == 0 else NOTHING
    return (
        number(found.mean_abs, lambda value: plain(value, 3)),
        number(found.max_abs, lambda value: plain(value, 1)),
        number(found.bias, lambda value: signed(value, 3)),
        number(found.p99, lambda value: plain(value, 2)),
        number(found.p99_9, lambda value: plain(value, 2)),
        notes.number(found.psnr, lambda value: f"{value:.1f}", psnr),
    )
