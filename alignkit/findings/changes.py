"""Differences between the drifts of two matrix entries.

Entries are compared for mixes of paths and for sizes of the training set: torchpipe's consistency
table reports a larger drift of models trained on 5 % of the data than on all of it, from one model
each. Here every point has its interval, and so has their difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from alignkit.compare import ReferenceAndCandidate, drift_change
from alignkit.compare.bootstrap import SharedDraws
from alignkit.outcome import Measured
from alignkit.place import Place, Row
from alignkit.record import Estimate, MatrixEntry, MixFacts, TrainingFacts
from alignkit.record.cell_facts import SizeCurve, SizePoint
from alignkit.record.drift_facts import DRIFT_METRICS, DriftMetric

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.predict.predict_cells import Predicted


def mix_facts(
    predicted: Sequence[Predicted], matrix: Sequence[MatrixEntry], *, draws: SharedDraws
) -> tuple[MixFacts, ...]:
    """Compare each mix with models of its first path alone, trained on as many images.

    Both are served with every other path than the first, in the reference runtime.
    """
    by_place = {entry.place: entry for entry in matrix}
    runtimes = {(entry.backend, entry.precision) for entry in matrix if entry.aligned}
    facts = []
    for mixed in matrix:
        row = mixed.row
        alone = Row(row.preprocesses[:1], row.fraction)
        single = by_place.get(Place(alone, mixed.column))
        # only mixes, in the reference runtime
        if len(row.preprocesses) == 1 or (mixed.backend, mixed.precision) not in runtimes:
            continue
        if single is None or single.drift is None or mixed.drift is None:
            continue
        changes = entry_change(predicted, single, mixed, DRIFT_METRICS, draws=draws)
        facts += [
            MixFacts(
                metric=metric,
                mix=mixed.trained_with,
                alone=single.trained_with,
                evaluated_with=mixed.evaluated_with,
                in_mix=mixed.evaluated_with in row.preprocesses,
                backend=mixed.backend,
                precision=mixed.precision,
                mixed=mixed.drift.of(metric),
                single=single.drift.of(metric),
                change=changes[metric],
            )
            for metric in DRIFT_METRICS
        ]
    return tuple(facts)


def size_curves(
    predicted: Sequence[Predicted],
    matrix: Sequence[MatrixEntry],
    trainings: Sequence[TrainingFacts],
    *,
    draws: SharedDraws,
) -> tuple[SizeCurve, ...]:
    """Build a curve for each metric and each entry measured at two or more shares of the data.

    The entries of a curve share path, evaluation path and runtime. The user's own models have none,
    since the size of their training set is not known.
    """
    images = {
        each.preprocess: each.images
        for each in trainings
        if each.state == "measured" and each.images
    }
    groups: dict[Place, list[MatrixEntry]] = {}
    for entry in matrix:
        if entry.drift is not None and entry.trained_with in images:
            # the row of all images, whatever the share
            place = Place(Row(entry.row.preprocesses), entry.column)
            groups.setdefault(place, []).append(entry)
    curves = []
    for place, entries in groups.items():
        entries.sort(key=lambda entry: entry.fraction)  # by growing training set
        if len(entries) > 1:
            most, least = entries[-1], entries[0]
            changes = entry_change(predicted, most, least, DRIFT_METRICS, draws=draws)
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
                drift=entry.drift.of(metric),
            )
            for entry in entries
            if entry.drift
        ),
        change=change,
    )


def entry_change(
    predicted: Sequence[Predicted],
    before: MatrixEntry,
    after: MatrixEntry,
    metrics: Sequence[str],
    *,
    draws: SharedDraws,
) -> Mapping[str, Estimate]:
    """Compute the drift of ``after`` minus that of ``before``, paired by seed and image.

    Only seeds that both have count; without one there is a reason and no value. Raises `DataError`
    if they were not evaluated on the same images.
    """
    # pairing needs both sides of a seed
    seeds = [seed for seed in before.seeds if seed in after.seeds]
    if not seeds:
        reason = "no seed was measured with both"
        return dict.fromkeys(metrics, Estimate(value=None, low=None, high=None, reason=reason))
    sides = [_both_sides(predicted, each, seeds) for each in (before, after)]
    changes = drift_change(sides[0], sides[1], metrics, draws=draws)
    return {name: each.change for name, each in changes.items()}


def _both_sides(
    predicted: Sequence[Predicted], entry: MatrixEntry, seeds: Sequence[int]
) -> ReferenceAndCandidate:
    aligned: dict[int, Answers] = {}
    served: dict[int, Answers] = {}
    for each in predicted:
        place = each.evaluation.place
        if place.row != entry.row or not isinstance(each.ended, Measured):
            continue
        if each.evaluation.aligned:
            aligned[each.seed] = each.ended.value.predictions
        if place.column == entry.column:
            served[each.seed] = each.ended.value.predictions
    return [aligned[seed] for seed in seeds], [served[seed] for seed in seeds]
