"""Drift against the size of the training set: whether little data makes a model more fragile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import get_args

from alignkit.record.cell import MatrixEntry
from alignkit.record.stored import Estimate
from alignkit.record.training import TrainingFacts
from alignkit.record.training_size import DriftMetric, SizeCurve, SizePoint
from alignkit.row import paths_of, row_name

Place = tuple[str, str, str, str]


def amplification(
    matrix: Iterable[MatrixEntry], trainings: Iterable[TrainingFacts]
) -> tuple[SizeCurve, ...]:
    """A curve for each metric and each entry that was measured at two shares of the data or more.

    Entries belong together by path, evaluation path and runtime.
    """
    images = {each.preprocess: each.images for each in trainings if each.state == "measured"}
    groups: dict[Place, list[MatrixEntry]] = {}
    for entry in matrix:
        if entry.drift is not None and entry.trained_with in images:
            path = row_name(paths_of(entry.trained_with))
            place = (path, entry.evaluated_with, entry.backend, entry.precision)
            groups.setdefault(place, []).append(entry)
    return tuple(
        _curve(metric, place, points)
        for metric in get_args(DriftMetric)
        for place, entries in groups.items()
        if len(points := _points(entries, metric, images)) > 1
    )


def difference(first: Estimate, second: Estimate) -> Estimate:
    """``first`` less ``second``, from their values and intervals.

    Zou and Donner's square-and-add interval (Statistics in Medicine 27, 2008), which takes the two
    to be independent. Models of two training sets see the same evaluation images, so what is common
    to both is counted twice: the interval is too wide rather than too narrow.
    """
    if first.value is None or second.value is None:
        reason = first.reason or second.reason
        return Estimate(value=None, low=None, high=None, reason=reason or "not measured")
    value = first.value - second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        reason = first.reason or second.reason
        return Estimate(value=value, low=None, high=None, reason=reason or "no interval")
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Estimate(value=value, low=value - below, high=value + above)


def drift_of(entry: MatrixEntry | None, metric: str) -> Estimate | None:
    """An entry's drift in a metric; ``None`` where there is none, as for an aligned entry."""
    if entry is None or entry.drift is None:
        return None
    return entry.drift.churn if metric == "churn" else entry.drift.metrics.get(metric)


def _points(
    entries: Sequence[MatrixEntry], metric: DriftMetric, images: dict[str, int]
) -> tuple[SizePoint, ...]:
    found = [
        SizePoint(
            fraction=entry.fraction,
            images=images[entry.trained_with],
            seeds=len(entry.seeds),
            drift=drift,
        )
        for entry in entries
        if (drift := drift_of(entry, metric)) is not None and drift.value is not None
    ]
    return tuple(sorted(found, key=lambda point: point.images))


def _curve(metric: DriftMetric, place: Place, points: tuple[SizePoint, ...]) -> SizeCurve:
    trained_with, evaluated_with, backend, precision = place
    return SizeCurve(
        metric=metric,
        trained_with=trained_with,
        evaluated_with=evaluated_with,
        backend=backend,
        precision=precision,
        points=points,
        change=difference(points[0].drift, points[-1].drift),
    )
