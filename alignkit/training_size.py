"""Cells → drift against the size of the training set: does little data make a model more fragile?

torchpipe's consistency table reports a larger drift of models trained on 5 % of the data than on
all of it, from one model each; here every point has its interval, and their difference one of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from alignkit.cell import Measured
from alignkit.compare.drift_change import Sides, drift_change
from alignkit.record import Estimate, MatrixEntry, TrainingFacts
from alignkit.record.training_size import DriftMetric, SizeCurve, SizePoint
from alignkit.row import paths_of, row_name

if TYPE_CHECKING:
    from alignkit.execute import Predicted
    from alignkit.predictions import Predictions

Place = tuple[str, str, str, str]
"""Row, evaluation path, backend, precision."""
METRICS: tuple[DriftMetric, ...] = get_args(DriftMetric)


def size_curves(
    predicted: Sequence[Predicted],
    matrix: Sequence[MatrixEntry],
    trainings: Sequence[TrainingFacts],
    *,
    resamples: int,
) -> tuple[SizeCurve, ...]:
    """A curve for each metric and each entry that was measured at two shares of the data or more.

    Entries belong together by path, evaluation path and runtime. Models that were given, not
    trained here, have no size.
    """
    images = {
        each.preprocess: each.images
        for each in trainings
        if each.state == "measured" and each.images
    }
    groups: dict[Place, list[MatrixEntry]] = {}
    for entry in matrix:
        if entry.drift is not None and entry.trained_with in images:
            path = row_name(paths_of(entry.trained_with))
            place = (path, entry.evaluated_with, entry.backend, entry.precision)
            groups.setdefault(place, []).append(entry)
    cells = _by_place(predicted)
    curves = []
    for place, entries in groups.items():
        entries.sort(key=lambda entry: entry.fraction)
        if len(entries) > 1:
            ends = entries[0], entries[-1]
            changes = _changes(cells, ends, resamples)
            curves += [_curve(metric, place, entries, images, changes[metric])
                       for metric in METRICS]  # fmt: skip
    return tuple(curves)


def _curve(
    metric: DriftMetric,
    place: Place,
    entries: Sequence[MatrixEntry],
    images: Mapping[str, int],
    change: Estimate,
) -> SizeCurve:
    trained_with, evaluated_with, backend, precision = place
    return SizeCurve(
        metric=metric,
        trained_with=trained_with,
        evaluated_with=evaluated_with,
        backend=backend,
        precision=precision,
        points=tuple(
            SizePoint(
                fraction=entry.fraction,
                images=images[entry.trained_with],
                seeds=len(entry.seeds),
                drift=_drift_of(entry, metric),
            )
            for entry in entries
        ),
        change=change,
    )


def _drift_of(entry: MatrixEntry, metric: DriftMetric) -> Estimate:
    assert entry.drift is not None
    return entry.drift.churn if metric == "churn" else entry.drift.metrics[metric]


def _by_place(predicted: Sequence[Predicted]) -> dict[Place, dict[int, Predicted]]:
    """What each entry's seeds predicted; the aligned cell also stands under the row alone."""
    found: dict[Place, dict[int, Predicted]] = {}
    for each in predicted:
        evaluation = each.evaluation
        row, runtime = evaluation.training.row, evaluation.runtime
        place = (row, evaluation.evaluated_with, runtime.name, runtime.precision)
        found.setdefault(place, {})[each.seed] = each
        if evaluation.aligned:
            found.setdefault(_home(row), {})[each.seed] = each
    return found


def _home(row: str) -> Place:
    return (row, "", "", "")


def _changes(
    cells: Mapping[Place, Mapping[int, Predicted]],
    ends: tuple[MatrixEntry, MatrixEntry],
    resamples: int,
) -> Mapping[str, Estimate]:
    """Of the seeds that both ends have."""
    least, most = ends
    seeds = [seed for seed in least.seeds if seed in most.seeds]
    if not seeds:
        reason = "no seed was measured with both"
        return dict.fromkeys(METRICS, Estimate(value=None, low=None, high=None, reason=reason))
    before, after = (_sides(cells, each, seeds) for each in (most, least))
    changes = drift_change(before, after, METRICS, resamples=resamples)
    return {
        metric: Estimate(value=each.value, low=each.low, high=each.high, reason=each.reason)
        for metric, each in changes.items()
    }


def _sides(
    cells: Mapping[Place, Mapping[int, Predicted]], entry: MatrixEntry, seeds: Sequence[int]
) -> Sides:
    place = (entry.trained_with, entry.evaluated_with, entry.backend, entry.precision)
    aligned, served = cells[_home(entry.trained_with)], cells[place]
    return (
        [_predictions(aligned[seed]) for seed in seeds],
        [_predictions(served[seed]) for seed in seeds],
    )


def _predictions(predicted: Predicted) -> Predictions:
    assert isinstance(predicted.ended, Measured)  # a seed of an entry ran on both sides
    return predicted.ended.value.predictions
