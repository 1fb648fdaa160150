"""Cells → every two of a row compared, so that a report can take any cell as the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from alignkit.compare.cell_pairs import cell_pairs
from alignkit.findings.matrix import entry_place, predictions_of
from alignkit.record import RowPair

if TYPE_CHECKING:
    from alignkit.compare.predictions import Predictions
    from alignkit.predict.cells import Predicted

METRICS = ("recall.macro", "precision.macro", "top1")
Column = tuple[str, str, str]
"""Evaluated with, backend, precision."""


def row_pairs(predicted: Sequence[Predicted], *, resamples: int) -> tuple[RowPair, ...]:
    """All pairs but those with the row's aligned cell, which an entry's own ``drift`` holds."""
    rows: dict[str, dict[Column, dict[int, Predictions | None]]] = {}
    for each in predicted:
        if not each.evaluation.aligned:
            row, evaluated_with, backend, precision = entry_place(each)
            cells = rows.setdefault(row, {}).setdefault((evaluated_with, backend, precision), {})
            cells[each.seed] = predictions_of(each)
    return tuple(pair for row, cells in rows.items() for pair in pairs_of(row, cells, resamples))


def pairs_of(
    row: str, cells: Mapping[Column, Mapping[int, Predictions | None]], resamples: int
) -> list[RowPair]:
    """All pairs of one row's cells, column → training seed → predictions."""
    seeds = list(dict.fromkeys(seed for each in cells.values() for seed in each))
    columns = list(cells)
    found = cell_pairs(
        [[cells[column].get(seed) for seed in seeds] for column in columns],
        metrics=METRICS,
        resamples=resamples,
    )
    return [
        RowPair(
            trained_with=row,
            reference=columns[i],
            candidate=columns[j],
            **{each.name: getattr(pair, each.name) for each in fields(pair)},
        )
        for (i, j), pair in found.items()
    ]
