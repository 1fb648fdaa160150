"""Comparison of every two cells of a matrix row.

The numbers are those of `alignkit.compare.drift` of the two. The same images are drawn for all
cells, so each cell is resampled once and a pair takes the difference, unless a number needs the
pair, as churn does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare import pair_fields, pair_up
from alignkit.compare.answers import Answers, Weights
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.class_changes import (
    PairedSides,
    groups_of,
    resampled,
)
from alignkit.errors import NothingCompared
from alignkit.record import CellPair

_CellDraws = dict[str, FloatArray]
"""Every metric of one cell and seed, (1 + resamples,): observed first, then of each resample."""


def cell_pairs(
    cells: Sequence[Sequence[Answers | None]],
    *,
    metrics: Sequence[str] | None = None,
    draws: SharedDraws | None = None,
) -> dict[tuple[int, int], CellPair]:
    """Compare (cells, training seeds) of one row; return each pair by its indices, lower first.

    ``metrics`` and measures are by default all of the task. ``draws`` may be shared with other
    comparisons. A seed counts where both cells ran (are not
    ``None``). Pairs without such a seed, or without a shared image, are left out; so are other
    metrics. Raise `DataError` for cells of different labels.
    """
    draws = draws or SharedDraws()
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
                    sides[place, k, cell.ids] = _side(cell, draws)
            first, second = (sides[place, k, pair[0].ids] for place in places)
            drawn.append((first, second))
        if pairs:
            own = pairs[0][0].metric_names if metrics is None else metrics
            changes = {
                name: np.stack([b[name] - a[name] for a, b in drawn])
                for name in own
                if name in drawn[0][0]
            }
            compared[places] = _pair(pairs, changes, metrics, draws)
    return compared


def _side(cell: Answers, draws: SharedDraws) -> _CellDraws:
    tallies = cell.tallies()
    blocks = [
        resampled(tallies, weights) for weights in draws.of(len(cell), groups_of(cell, draws))
    ]
    whole = resampled(tallies, _whole(cell))
    return {
        name: np.concatenate([whole[name][:1], *(block[name] for block in blocks)])
        for name in cell.metric_names
        if name in whole
    }


def _whole(cell: Answers) -> Weights:
    """Weigh every image once, in two columns that are equal."""
    # NumPy sums the classes of a single column in another order than those of the draws
    return np.ones((len(cell), 2), np.float32)


def _pair(
    pairs: Sequence[tuple[Answers, Answers]],
    changes: dict[str, FloatArray],
    wanted: Sequence[str] | None,
    draws: SharedDraws,
) -> CellPair:
    compared = PairedSides.of(pairs, draws)
    sums = [
        {k: v for k, v in own.items() if wanted is None or k in ("churn", *wanted)}
        for own in compared.between
    ]
    drawn = draws.of(len(compared.first), compared.groups)
    whole = _whole(compared.first)
    between = {name: np.stack([each[name].of(whole)[:1] for each in sums]) for name in sums[0]}
    # one pass: measures that share a computation know it by the weights
    blocks = [
        {name: np.stack([each[name].of(weights) for each in sums]) for name in between}
        for weights in drawn
    ]
    found = {name: (values[:, 0], values[:, 1:]) for name, values in changes.items()} | {
        name: (values[:, 0], np.concatenate([block[name] for block in blocks], axis=1))
        for name, values in between.items()
    }
    means = {name: compared.mean(name, values, draws.seed) for name, values in found.items()}
    return CellPair(**pair_fields(compared, means))
