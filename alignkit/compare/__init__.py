"""`Drift`: paired differences of two models, or one model under two paths, on the same images.

Pixels are compared in `alignkit.compare.pixels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.bootstrap import RESAMPLES, resampled_counts
from alignkit.compare.hierarchy import Spread, joined_interval
from alignkit.compare.metrics import METRICS, Flips, LogitDistance, flips, logit_distance
from alignkit.compare.pixel_diff import PixelDiff, StageDiffs
from alignkit.compare.pixels import compare_preprocess
from alignkit.compare.predictions import Predictions
from alignkit.compare.statistics import Estimate, change_p, detectable_effect, mcnemar
from alignkit.compare.totals import PredictionTotals, pair_up

__all__ = ["ClassDrift", "Drift", "PixelDiff", "StageDiffs", "compare_preprocess", "drift"]


_UNDEFINED = "no class defines it on both sides"


@dataclass(frozen=True, slots=True)
class ClassDrift:
    """Drift of one class; a ratio that a side does not define is ``None`` with its reason."""

    name: str
    support: int
    """Images of the class."""
    recall: Estimate
    precision: Estimate


@dataclass(frozen=True, slots=True)
class StandardError:
    """Standard errors of an estimate: over other images, and over other seeds."""

    images: float
    seeds: float
    """0 for one seed, from which it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Candidate minus reference, as fractions; several seeds are averaged.

    Intervals are 95 % bootstrap intervals: over images for one seed, over seeds and images for
    several (`alignkit.compare.hierarchy`).
    """

    n: int
    """Images that both sides predicted."""
    seeds: int
    only_reference: int
    """Images that the reference predicted and the candidate did not, for the first seed."""
    only_candidate: int
    metrics: dict[str, Estimate]
    """The difference of each of `alignkit.compare.metrics.METRICS`."""
    errors: dict[str, StandardError]
    """Standard errors of the defined metrics and of ``churn``."""
    p_values: dict[str, float]
    """Two-sided p-values of no difference, of the defined metrics; not yet corrected for their
    number."""
    classes: tuple[ClassDrift, ...]
    churn: Estimate
    """1 - top-1 agreement."""
    flips: Flips
    """Summed over seeds."""
    mcnemar_p: float
    """Exact and two-sided. With several seeds, an image counts once: for the direction in which it
    flipped in more of them."""
    detectable: float
    """Smallest difference of top-1 that this sample shows with 80 % power at the 5 % level."""
    logits: LogitDistance
    """Over all seeds."""


def drift(
    *,
    reference: Sequence[Predictions],
    candidate: Sequence[Predictions],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Drift:
    """Compare predictions pair by pair: one pair per training seed, in one order on both sides.

    The result is deterministic in ``seed``, which seeds the resampling. Raise `DataError` if the
    sides do not pair up or the seeds have different images, `NothingCompared` if no image is
    shared.
    """
    pairs = pair_up(reference, candidate)
    first = pairs[0][0]
    means, intervals, spreads = _bootstrap(pairs, resamples, seed)
    metrics = {name: estimate_from(means[name], intervals[name]) for name in METRICS}
    errors = _errors(spreads)
    signed = _correct(pairs, 1) - _correct(pairs, 0)
    changed = np.any([a.predicted != b.predicted for a, b in pairs], axis=0)
    return Drift(
        n=len(first),
        seeds=len(pairs),
        only_reference=len(reference[0]) - len(first),
        only_candidate=len(candidate[0]) - len(first),
        metrics=metrics,
        errors=errors,
        p_values=_p_values(metrics, errors, len(first), len(pairs), int(changed.sum())),
        classes=_classes(first, means, intervals),
        # widened by Student's quantile, an interval may leave 0..1
        churn=estimate_from(means["churn"], intervals["churn"].clip(0, 1)),
        flips=reduce(add, (flips(a.labels, a.predicted, b.predicted) for a, b in pairs)),
        mcnemar_p=mcnemar(int((signed < 0).sum()), int((signed > 0).sum())),
        detectable=detectable_effect(len(first), float(np.mean((signed / len(pairs)) ** 2))),
        logits=logit_distance(
            np.concatenate([a.logits for a, _ in pairs]),
            np.concatenate([b.logits for _, b in pairs]),
        ),
    )


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


def _correct(pairs: Sequence[tuple[Predictions, Predictions]], side: int) -> Labels:
    """Count, (n,), the seeds in which each image was right."""
    right = [pair[side].predicted == pair[side].labels for pair in pairs]
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
