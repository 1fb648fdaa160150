"""Comparison of every two cells of a matrix row.

The numbers are those of `alignkit.compare.drift` of the two. The same images are drawn for all
cells, so each cell is resampled once and a pair takes the difference; only churn needs the pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare import pair_fields, pair_up
from alignkit.compare.bootstrap import (
    RESAMPLES,
    indicators,
    mean_over_seeds,
    resampled_counts,
    stacked,
)
from alignkit.compare.metrics import METRICS, averages
from alignkit.compare.predictions import Predictions
from alignkit.errors import NothingCompared
from alignkit.record import CellPair

if TYPE_CHECKING:
    from scipy import sparse

_CellDraws = dict[str, FloatArray]
"""Every metric of one cell and seed, (1 + resamples,): observed first, then of each resample."""


def cell_pairs(
    cells: Sequence[Sequence[Predictions | None]],
    *,
    metrics: Sequence[str] = METRICS,
    resamples: int = RESAMPLES,
) -> dict[tuple[int, int], CellPair]:
    """Compare (cells, training seeds) of one row; return each pair by its indices, lower first.

    A seed counts where both cells ran (are not ``None``). Pairs without such a seed, or without a
    shared image, are left out; so are other metrics. Raise `DataError` for cells of different
    labels.
    """
    sides: dict[tuple[int, int, tuple[str, ...]], _CellDraws] = {}
    compared: dict[tuple[int, int], CellPair] = {}
    for places in combinations(range(len(cells)), 2):
        both = zip(*(cells[place] for place in places), strict=True)
        ran = [(k, a, b) for k, (a, b) in enumerate(both) if a is not None and b is not None]
        try:
            pairs = pair_up([a for _, a, _ in ran], [b for _, _, b in ran]) if ran else []
        except NothingCompared:  # the matrix has the cells; a pair is left out
            continue
        drawn: list[tuple[_CellDraws, _CellDraws]] = []
        for (k, _, _), pair in zip(ran, pairs, strict=True):
            for place, cell in zip(places, pair, strict=True):
                # by ids too: the images that a cell shares depend on its partner
                if (place, k, cell.ids) not in sides:
                    sides[place, k, cell.ids] = _side(cell, resamples)
            first, second = (sides[place, k, pair[0].ids] for place in places)
            drawn.append((first, second))
        if pairs:
            own = metrics if pairs[0][0].labelled else ()
            changes = {name: np.stack([b[name] - a[name] for a, b in drawn]) for name in own}
            compared[places] = _pair(pairs, changes, resamples)
    return compared


def _side(cell: Predictions, resamples: int) -> _CellDraws:
    if not cell.labelled:
        return {}
    size = len(cell.classes)
    everyone = np.ones(len(cell), np.bool_)
    members = stacked(
        [
            indicators(cell.labels, size, cell.predicted == cell.labels),
            indicators(cell.predicted, size, everyone),
            indicators(cell.labels, size, everyone),
        ]
    )
    return averages(*_counts(members, resamples).reshape(3, size, -1))


def _counts(members: sparse.csr_matrix, resamples: int) -> FloatArray:
    """Count, (groups, 1 + resamples), all members, then those that each resample drew."""
    observed = np.asarray(members.sum(axis=1), np.float64)
    drawn = resampled_counts(members, resamples=resamples)
    return np.concatenate([observed, drawn], axis=1)


def _pair(
    pairs: Sequence[tuple[Predictions, Predictions]],
    changes: dict[str, FloatArray],
    resamples: int,
) -> CellPair:
    n = len(pairs[0][0])
    one = np.zeros(n, np.int64)
    changed = [indicators(one, 1, a.predicted != b.predicted) for a, b in pairs]
    churn = _counts(stacked(changed), resamples) / n
    means = {
        name: mean_over_seeds(values[:, 0], values[:, 1:], images=n)
        for name, values in {**changes, "churn": churn}.items()
    }
    return CellPair(**pair_fields(pairs, means))
