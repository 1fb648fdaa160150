"""Numbers from arrays: drift of predictions and cell pairs, metrics, statistics, bootstrap; sums,
histograms and SSIM of pixels and planes, tables of images.

Here are the drift of predictions, and its change; `alignkit.compare.compare_pixels` has pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.bootstrap import (
    RESAMPLES,
    MeanOverSeeds,
    indicators,
    mean_over_seeds,
    resampled_counts,
    stacked,
)
from alignkit.compare.margins import margin_drift, moved_most
from alignkit.compare.metrics import METRICS, averages, flips, logit_distance, ratio
from alignkit.compare.predictions import Predictions, aligned
from alignkit.compare.statistics import change_p, detectable_effect, mcnemar
from alignkit.errors import DataError
from alignkit.record import ClassDrift, Drift, Estimate, StandardError
from alignkit.samples import NO_LABELS

if TYPE_CHECKING:
    from scipy import sparse

ReferenceAndCandidate = tuple[Sequence[Predictions], Sequence[Predictions]]
"""Predictions of the reference and of the candidate, one for each seed."""


def drift(
    reference: Sequence[Predictions],
    candidate: Sequence[Predictions],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Drift:
    """Compare predictions pair by pair: one pair per training seed, in one order on both sides.

    Differences are fractions; several seeds are averaged. Intervals are 95 % bootstrap intervals:
    over images for one seed, over seeds and images for several (`alignkit.compare.bootstrap`). The
    result is deterministic in ``seed``, which seeds the resampling. Of images without labels, all
    that needs labels is ``None``. Raise `DataError` if the sides do not pair up or the seeds have
    different images, `NothingCompared` if no image is shared.
    """
    pairs = pair_up(reference, candidate)
    first = pairs[0][0]
    means = {
        name: mean_over_seeds(observed, draws, images=len(first), seed=seed)
        for name, (observed, draws) in _differences(pairs, resamples, seed).items()
    }
    both = (np.concatenate([pair[side].logits for pair in pairs]) for side in (0, 1))
    logits = logit_distance(*both)
    return Drift(
        **pair_fields(pairs, means),
        errors={
            name: StandardError(float(means[name].spread.images), float(means[name].spread.seeds))
            for name in (*METRICS, "churn")
            if name in means and means[name].spread.known
        },
        classes=_classes(first, means),
        mcnemar_p=_mcnemar(pairs) if first.labelled else None,
        logits=logits,
        margins=margin_drift(pairs),
        moved=moved_most(pairs),
        # the samples that `logit_distance` left out
        non_finite=len(first) * len(pairs) - logits.compared,
    )


def drift_change(
    before: ReferenceAndCandidate,
    after: ReferenceAndCandidate,
    metrics: Sequence[str],
    *,
    resamples: int = RESAMPLES,
) -> dict[str, Estimate]:
    """Subtract the drift of ``before`` from that of ``after``, for metrics or ``churn``; fractions.

    The two are paired twice: both are drawn with the same images, and the spread over seeds is that
    of each seed's own change (`alignkit.compare.bootstrap`), so common noise cancels. Raise
    `DataError` if seeds or images differ, `NothingCompared` if there is no image.
    """
    earlier, later = pair_up(*before), pair_up(*after)
    first = earlier[0][0]
    if len(earlier) != len(later) or first.ids != later[0][0].ids:
        raise DataError("two drifts are compared on the same images and seeds; evaluate both so")
    was, now = (_differences(pairs, resamples) for pairs in (earlier, later))
    changes = {}
    for metric in metrics:
        if metric not in was:
            changes[metric] = Estimate(None, None, None, NO_LABELS)
            continue
        observed, draws = (b - a for a, b in zip(was[metric], now[metric], strict=True))
        mean = mean_over_seeds(observed, draws, images=len(first))
        changes[metric] = _estimate(mean, "no class defines it on every side")
    return changes


def pair_up(
    reference: Sequence[Predictions], candidate: Sequence[Predictions]
) -> list[tuple[Predictions, Predictions]]:
    """Pair the predictions by seed, restricted to the images that both sides predicted.

    Raise `DataError` if the sides do not pair up or the seeds have different images,
    `NothingCompared` if no image is shared.
    """
    if not reference or len(reference) != len(candidate):
        raise DataError(
            f"{len(reference)} reference and {len(candidate)} candidate predictions do not pair "
            "up; give one of each a seed"
        )
    pairs = [aligned(*both) for both in zip(reference, candidate, strict=True)]
    if any(pair[0].ids != pairs[0][0].ids for pair in pairs):
        raise DataError("the seeds have predictions of different images; evaluate all on the same")
    return pairs


def pair_fields(
    pairs: Sequence[tuple[Predictions, Predictions]], means: Mapping[str, MeanOverSeeds]
) -> dict[str, Any]:
    """Compute the fields of `alignkit.record.CellPair`; ``means`` has metrics, and ``churn``."""
    images, seeds = len(pairs[0][0]), len(pairs)
    changed = np.array([a.predicted != b.predicted for a, b in pairs])
    metrics = {name: _estimate(mean) for name, mean in means.items() if name in METRICS}
    churn = means["churn"]
    return {
        "n": images * seeds,
        **_of_labels(pairs),
        "metrics": metrics or dict.fromkeys(METRICS, Estimate(None, None, None, NO_LABELS)),
        "p_values": {
            name: change_p(
                metric.value,
                images_error=float(means[name].spread.images),
                seeds_error=float(means[name].spread.seeds),
                images=images,
                seeds=seeds,
                flipped=int(changed.any(axis=0).sum()),
            )
            for name, metric in metrics.items()
            if metric.value is not None and means[name].spread.known
        },
        # widened by Student's quantile, an interval may leave 0..1
        "churn": _estimate(replace(churn, interval=churn.interval.clip(0, 1))),
    }


def _of_labels(pairs: Sequence[tuple[Predictions, Predictions]]) -> dict[str, Any]:
    """Compute the fields that need labels, and are ``None`` without them."""
    if not pairs[0][0].labelled:
        names = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong", "detectable")
        return dict.fromkeys(names)
    images, seeds = len(pairs[0][0]), len(pairs)
    sides = ((a.labels, a.predicted, b.predicted) for a, b in pairs)
    return {
        **flips(*(np.concatenate(arrays) for arrays in zip(*sides, strict=True))),
        "detectable": detectable_effect(images, float(np.mean((_gained(pairs) / seeds) ** 2))),
    }


def _mcnemar(pairs: Sequence[tuple[Predictions, Predictions]]) -> float:
    # an image is one trial however many seeds flip it: seeds are not independent of each other
    gained = _gained(pairs)
    return mcnemar(int((gained < 0).sum()), int((gained > 0).sum()))


def _gained(pairs: Sequence[tuple[Predictions, Predictions]]) -> Labels:
    """Count, (n,), in how many more seeds each image is right with the candidate."""
    right = [(b.predicted == b.labels) * 1 - (a.predicted == a.labels) for a, b in pairs]
    seeds: Labels = np.sum(right, axis=0, dtype=np.int64)
    return seeds


def _estimate(mean: MeanOverSeeds, reason: str = "no class defines it on both sides") -> Estimate:
    """Build the estimate of one value; NaN becomes ``None`` with ``reason``."""
    if np.isnan(mean.value):
        return Estimate(None, None, None, reason)
    return Estimate(float(mean.value), float(mean.interval[0]), float(mean.interval[1]))


def _classes(first: Predictions, means: Mapping[str, MeanOverSeeds]) -> tuple[ClassDrift, ...]:
    support = np.bincount(first.labels, minlength=len(first.classes))
    reasons = {
        "recall": "no image is of this class",
        "precision": "one side never predicts this class",
    }

    def estimate(name: str, index: int) -> Estimate:
        mean = means[name]
        of_class = replace(mean, value=mean.value[index], interval=mean.interval[:, index])
        return _estimate(of_class, reasons[name])

    return tuple(
        ClassDrift(
            name, int(support[index]), estimate("recall", index), estimate("precision", index)
        )
        for index, name in enumerate(first.classes)
    )


def _differences(
    pairs: Sequence[tuple[Predictions, Predictions]], resamples: int, seed: int = 0
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return each seed's difference (seeds, …) and its draws (seeds, …, resamples) by name.

    Names are every metric and ``churn``, and by class, (seeds, classes), ``recall`` and
    ``precision``; of images without labels ``churn`` alone. All are ratios of counts of groups of
    images, so that all resamples of all pairs are one matrix product.
    """
    first, seeds = pairs[0][0], len(pairs)
    n, size = len(first), len(first.classes)
    one = np.zeros(n, np.int64)
    changed = [indicators(one, 1, a.predicted != b.predicted) for a, b in pairs]
    members = stacked([*_label_groups(pairs), *changed])

    def differences(counts: FloatArray) -> dict[str, FloatArray]:
        """Compute all differences, (seeds, …, draws), from counts (groups, draws)."""
        support, split = counts[:size], size * (1 + 4 * seeds)
        sides = counts[size:split].reshape(seeds, 2, 2, size, counts.shape[1])
        by_seed: dict[str, list[FloatArray]] = {}
        for before, after in sides if size else ():
            old = _ratios(before[0], before[1], support)
            for name, value in _ratios(after[0], after[1], support).items():
                by_seed.setdefault(name, []).append(value - old[name])
        stacked = {name: np.stack(values) for name, values in by_seed.items()}
        return stacked | {"churn": counts[split:] / n}

    observed = differences(np.asarray(members.sum(axis=1), np.float64))
    drawn = differences(resampled_counts(members, resamples=resamples, seed=seed))
    return {name: (observed[name][..., 0], draws) for name, draws in drawn.items()}


def _label_groups(pairs: Sequence[tuple[Predictions, Predictions]]) -> list[sparse.csr_matrix]:
    """Mark the images of each class, then those that each side gets right, and predicts, by class.

    Without labels there is no group.
    """
    first = pairs[0][0]
    if not first.labelled:
        return []
    size, everyone = len(first.classes), np.ones(len(first), np.bool_)
    groups = [indicators(first.labels, size, everyone)]
    for side in (side for pair in pairs for side in pair):
        groups.append(indicators(side.labels, size, side.predicted == side.labels))
        # NO_PREDICTION (-1) and outputs outside the classes are in no group
        groups.append(indicators(side.predicted, size, everyone))
    return groups


def _ratios(
    true_positive: FloatArray, predicted: FloatArray, support: FloatArray
) -> dict[str, FloatArray]:
    return averages(true_positive, predicted, support) | {
        "recall": ratio(true_positive, support),
        "precision": ratio(true_positive, predicted),
    }
