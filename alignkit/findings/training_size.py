"""Cells → drift against the size of the training set: does little data make a model more fragile?

torchpipe's consistency table reports a larger drift of models trained on 5 % of the data than on
all of it, from one model each; here every point has its interval, and their difference one of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from alignkit.findings.entry_change import drift_of, entry_change
from alignkit.place import Place, Row
from alignkit.record import Estimate, MatrixEntry, TrainingFacts
from alignkit.record.cell import DRIFT_METRICS, DriftMetric, SizeCurve, SizePoint

if TYPE_CHECKING:
    from alignkit.predict.cells import Predicted


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
            place = Place(Row(entry.row.preprocesses), entry.column)
            groups.setdefault(place, []).append(entry)
    curves = []
    for place, entries in groups.items():
        entries.sort(key=lambda entry: entry.fraction)
        if len(entries) > 1:
            most, least = entries[-1], entries[0]
            changes = entry_change(predicted, most, least, DRIFT_METRICS, resamples=resamples)
            curves += [_curve(metric, place, entries, images, changes[metric])
                       for metric in DRIFT_METRICS]  # fmt: skip
    return tuple(curves)


def _curve(
    metric: DriftMetric,
    place: Place,
    entries: Sequence[MatrixEntry],
    images: Mapping[str, int],
    change: Estimate,
) -> SizeCurve:
    return SizeCurve(
        metric=metric,
        **place.fields,
        points=tuple(
            SizePoint(
                fraction=entry.fraction,
                images=images[entry.trained_with],
                seeds=len(entry.seeds),
                drift=drift_of(entry, metric),
            )
            for entry in entries
        ),
        change=change,
    )
