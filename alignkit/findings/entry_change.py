"""How much more, or less, one entry of the matrix drifts than another, from the cells of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from alignkit.compare.drift_change import ReferenceAndCandidate, drift_change
from alignkit.outcome import Measured
from alignkit.record import Estimate, MatrixEntry

if TYPE_CHECKING:
    from alignkit.compare.predictions import Predictions
    from alignkit.predict.cells import Predicted


def drift_of(entry: MatrixEntry, metric: str) -> Estimate:
    """A compared entry's drift in a metric, or its churn."""
    assert entry.drift is not None
    return entry.drift.churn if metric == "churn" else entry.drift.metrics[metric]


def entry_change(
    predicted: Sequence[Predicted],
    before: MatrixEntry,
    after: MatrixEntry,
    metrics: Sequence[str],
    *,
    resamples: int,
) -> Mapping[str, Estimate]:
    """The drift of ``after`` less that of ``before``, paired by seed and image.

    Of the seeds that both have; without one there is no value, and the reason. Raises `DataError`
    if they were not evaluated on the same images.
    """
    seeds = [seed for seed in before.seeds if seed in after.seeds]
    if not seeds:
        reason = "no seed was measured with both"
        return dict.fromkeys(metrics, Estimate(value=None, low=None, high=None, reason=reason))
    sides = [_sides(predicted, each, seeds) for each in (before, after)]
    return drift_change(sides[0], sides[1], metrics, resamples=resamples)


def _sides(
    predicted: Sequence[Predicted], entry: MatrixEntry, seeds: Sequence[int]
) -> ReferenceAndCandidate:
    aligned: dict[int, Predictions] = {}
    served: dict[int, Predictions] = {}
    for each in predicted:
        place = each.evaluation.place
        if place.row != entry.row or not isinstance(each.ended, Measured):
            continue
        if each.evaluation.aligned:
            aligned[each.seed] = each.ended.value.predictions
        if place.column == entry.column:
            served[each.seed] = each.ended.value.predictions
    return [aligned[seed] for seed in seeds], [served[seed] for seed in seeds]
