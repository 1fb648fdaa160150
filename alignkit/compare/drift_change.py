"""Change from one drift to another, measured on the same images and seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.bootstrap import RESAMPLES, resampled_counts
from alignkit.compare.hierarchy import joined_draws, spread_of
from alignkit.compare.predictions import Predictions
from alignkit.compare.statistics import percentile_interval
from alignkit.compare.totals import PredictionTotals, pair_up
from alignkit.errors import DataError
from alignkit.record import Estimate

ReferenceAndCandidate = tuple[Sequence[Predictions], Sequence[Predictions]]
"""Predictions of the reference and of the candidate, one for each seed."""


def drift_change(
    before: ReferenceAndCandidate,
    after: ReferenceAndCandidate,
    metrics: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Subtract the drift of ``before`` from that of ``after``, for metrics or ``churn``; fractions.

    The two are paired twice: both are drawn with the same images, and the spread over seeds is that
    of each seed's own change (`alignkit.compare.hierarchy`), so common noise cancels. Raise
    `DataError` if seeds or images differ, `NothingCompared` if there is no image.
    """
    earlier, later = pair_up(*before), pair_up(*after)
    if len(earlier) != len(later) or earlier[0][0].ids != later[0][0].ids:
        raise DataError("two drifts are compared on the same images and seeds; evaluate both so")
    counts = [_differences(pairs, resamples, seed) for pairs in (earlier, later)]
    changes = {}
    for metric in metrics:
        (observed, draws), (observed_later, draws_later) = (each[metric] for each in counts)
        changes[metric] = _estimate(
            observed_later - observed, draws_later - draws, images=len(earlier[0][0]), seed=seed
        )
    return changes


def _differences(
    pairs: Sequence[tuple[Predictions, Predictions]], resamples: int, seed: int
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return, by metric, each seed's drift (seeds,) and its draws (seeds, resamples)."""
    totals = PredictionTotals(pairs)
    observed = totals.differences(np.asarray(totals.members.sum(axis=1), np.float64))
    drawn = totals.differences(resampled_counts(totals.members, resamples=resamples, seed=seed))
    return {name: (observed[name][..., 0], drawn[name]) for name in observed}


def _estimate(observed: FloatArray, draws: FloatArray, *, images: int, seed: int) -> Estimate:
    value = float(observed.mean())
    if np.isnan(value):
        return Estimate(None, None, None, "no class defines it on every side")
    joined = joined_draws(draws, observed, spread_of(draws, observed), images=images, seed=seed)
    low, high = percentile_interval(joined)
    return Estimate(value, float(low), float(high))
