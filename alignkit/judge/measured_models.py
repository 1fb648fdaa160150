"""The models of which anything was measured, in words: how many, and of which the shares are."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.place import first_of
from alignkit.record import Cell, RunRecord
from alignkit.text.names import Names


def measured_part(cells: Sequence[Cell]) -> str:
    """Return ``1 of 4 models could be measured`` if the others failed; else empty.

    A model is measured if its aligned cell ran, and one that is compared with it. Cells that cannot
    run on this machine are no failure.
    """
    models: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        models.setdefault((cell.trained_with, cell.seed), []).append(cell)
    failed = sum(map(_failed, models.values()))
    if not failed:
        return ""
    measured = len(models) - failed
    return f"{measured or 'None'} of {len(models)} models could be measured"


def of_first_models(record: RunRecord, path: str, names: Names) -> str:
    """Name the first of several models that were trained with a path, ``, opencv (model a)``.

    Shares and kinds of images are of it. Empty if there is only one.
    """
    rows = [each.row for each in record.matrix]
    first = first_of(rows, path)
    several = any(row.is_only(path) and row != first for row in rows)
    return f", {names.short(str(first))}" if several else ""


def _failed(cells: Sequence[Cell]) -> bool:
    compared = [each for each in cells if not each.aligned]
    measured = all(each.ran for each in cells if each.aligned)
    measured &= not compared or any(each.ran for each in compared)
    return not measured and any(each.state == "failed" for each in cells)
