"""Numbers from arrays: drift of predictions, metrics, statistics, sums over pixels and planes.

Pixels are compared in `alignkit.compare.pixels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.bootstrap import RESAMPLES, resampled_counts
from alignkit.compare.hierarchy import Spread, joined_interval
from alignkit.compare.metrics import METRICS, flips, logit_distance
from alignkit.compare.pixel_diff import PixelDiff, StageDiffs
from alignkit.compare.pixels import compare_preprocess
from alignkit.compare.predictions import Predictions
from alignkit.compare.statistics import change_p, detectable_effect, mcnemar
from alignkit.compare.totals import PredictionTotals, pair_up
from alignkit.record import ClassDrift, Drift, Estimate, StandardError

__all__ = ["PixelDiff", "StageDiffs", "compare_preprocess", "drift"]

_UNDEFINED = "no class defines it on both sides"


def drift(
    reference: Sequence[Predictions],
    candidate: Sequence[Predictions],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Drift:
    """Compare predictions pair by pair: one pair per training seed, in one order on both sides.

    Differences are fractions; several seeds are averaged. Intervals are 95 % bootstrap intervals:
    over images for one seed, over seeds and images for several (`alignkit.compare.hierarchy`). The
    result is deterministic in ``seed``, which seeds the resampling. Raise `DataError` if the sides
    do not pair up or the seeds have different images, `NothingCompared` if no image is shared.
    """
    pairs = pair_up(reference, candidate)
    first = pairs[0][0]
    means, intervals, spreads = _bootstrap(pairs, resamples, seed)
    metrics = {name: estimate_from(means[name], intervals[name]) for name in METRICS}
    errors = _errors(spreads)
    changed = np.any([a.predicted != b.predicted for a, b in pairs], axis=0)
    gained = _gained(pairs)
    logits = logit_distance(
        np.concatenate([a.logits for a, _ in pairs]), np.concatenate([b.logits for _, b in pairs])
    )
    return Drift(
        **change_fields(pairs),
        metrics=metrics,
        errors=errors,
        p_values=_p_values(metrics, errors, len(first), len(pairs), int(changed.sum())),
        classes=_classes(first, means, intervals),
        # widened by Student's quantile, an interval may leave 0..1
        churn=estimate_from(means["churn"], intervals["churn"].clip(0, 1)),
        mcnemar_p=mcnemar(int((gained < 0).sum()), int((gained > 0).sum())),
        logits=logits,
        non_finite=len(first) * len(pairs) - logits.compared,
    )


def change_fields(pairs: Sequence[tuple[Predictions, Predictions]]) -> dict[str, Any]:
    """Compute the fields of `alignkit.record.CellPair` that need no resampling, over all seeds."""
    flipped = reduce(add, (flips(a.labels, a.predicted, b.predicted) for a, b in pairs))
    images = len(pairs[0][0])
    return {
        "n": images * len(pairs),
        "right_to_wrong": flipped.right_to_wrong,
        "wrong_to_right": flipped.wrong_to_right,
        "wrong_to_wrong": flipped.wrong_to_wrong,
        "detectable": detectable_effect(images, float(np.mean((_gained(pairs) / len(pairs)) ** 2))),
    }


def _bootstrap(
    pairs: Sequence[tuple[Predictions, Predictions]], resamples: int, seed: int
) -> tuple[dict[str, FloatArray], dict[str, FloatArray], dict[str, Spread]]:
    """Return by metric: mean over seeds (…,), interval (2, …) and both standard errors (…,)."""
    totals = PredictionTotals(pairs)
    drawn = resampled_counts(totals.members, resamples=resamples, seed=seed)
    counted = np.asarray(totals.members.sum(axis=1), np.float64)
    observed = {name: values[..., 0] for name, values in totals.differences(counted).items()}
    spreads: dict[str, Spread] = {}
    intervals: dict[str, FloatArray] = {}
    for name, draws in totals.differences(drawn).items():
        intervals[name], spreads[name] = joined_interval(
            draws, observed[name], images=totals.n, seed=seed
        )
    means = {name: values.mean(axis=0) for name, values in observed.items()}
    return means, intervals, spreads


def _gained(pairs: Sequence[tuple[Predictions, Predictions]]) -> Labels:
    """Count, (n,), in how many more seeds each image is right with the candidate."""
    right = [(b.predicted == b.labels) * 1 - (a.predicted == a.labels) for a, b in pairs]
    seeds: Labels = np.sum(right, axis=0, dtype=np.int64)
    return seeds


def estimate_from(value: FloatArray, interval: FloatArray, reason: str = _UNDEFINED) -> Estimate:
    """Build an estimate of a value and its (2,) interval; NaN becomes ``None`` with ``reason``."""
    if np.isnan(value):
        return Estimate(None, None, None, reason)
    return Estimate(float(value), float(interval[0]), float(interval[1]))


def _errors(spreads: dict[str, Spread]) -> dict[str, StandardError]:
    return {
        name: StandardError(float(spreads[name].images), float(spreads[name].seeds))
        for name in (*METRICS, "churn")
        if np.isfinite(spreads[name].images) and np.isfinite(spreads[name].seeds)
    }


def _p_values(
    metrics: dict[str, Estimate],
    errors: dict[str, StandardError],
    images: int,
    seeds: int,
    flipped: int,
) -> dict[str, float]:
    return {
        name: change_p(
            each.value,
            images_error=errors[name].images,
            seeds_error=errors[name].seeds,
            images=images,
            seeds=seeds,
            flipped=flipped,
        )
        for name, each in metrics.items()
        if each.value is not None and name in errors
    }


def _classes(
    first: Predictions, means: dict[str, FloatArray], intervals: dict[str, FloatArray]
) -> tuple[ClassDrift, ...]:
    support = np.bincount(first.labels, minlength=len(first.classes))
    reasons = {
        "recall": "no image is of this class",
        "precision": "one side never predicts this class",
    }

    def estimate(name: str, index: int) -> Estimate:
        return estimate_from(means[name][index], intervals[name][:, index], reasons[name])

    return tuple(
        ClassDrift(
            name, int(support[index]), estimate("recall", index), estimate("precision", index)
        )
        for index, name in enumerate(first.classes)
    )
