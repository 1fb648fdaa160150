"""Cells → all pairs within a row compared, so that a report can take any cell as the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from alignkit.compare.cell_pairs import cell_pairs
from alignkit.findings.matrix import predictions_of
from alignkit.record import RowPair
from alignkit.text.names import CELL_METRICS

if TYPE_CHECKING:
    from alignkit.compare.predictions import Predictions
    from alignkit.place import Column, Row
    from alignkit.predict.cells import Predicted


def row_pairs(predicted: Sequence[Predicted], *, resamples: int) -> tuple[RowPair, ...]:
    """Compare all pairs except those with the aligned cell, which an entry's ``drift`` holds."""
    rows: dict[Row, dict[Column, dict[int, Predictions | None]]] = {}
    for each in predicted:
        if not each.evaluation.aligned:
            place = each.evaluation.place
            cells = rows.setdefault(place.row, {}).setdefault(place.column, {})
            cells[each.seed] = predictions_of(each)
    return tuple(pair for row, cells in rows.items() for pair in pairs_of(row, cells, resamples))


def pairs_of(
    row: Row, cells: Mapping[Column, Mapping[int, Predictions | None]], resamples: int
) -> list[RowPair]:
    """Compare all pairs of one row's cells, given as column → training seed → predictions."""
    seeds = list(dict.fromkeys(seed for each in cells.values() for seed in each))
    columns = list(cells)
    found = cell_pairs(
        [[cells[column].get(seed) for seed in seeds] for column in columns],
        metrics=CELL_METRICS,
        resamples=resamples,
    )
    return [
        RowPair(
            trained_with=str(row),
            reference=columns[i].names,
            candidate=columns[j].names,
            **{each.name: getattr(pair, each.name) for each in fields(pair)},
        )
        for (i, j), pair in found.items()
    ]
