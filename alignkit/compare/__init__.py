"""Numbers from arrays: drift of predictions, metrics, statistics, bootstrap; sums,
histograms and SSIM of pixels and planes, tables of images.

Here are the drift of predictions, and its change; `alignkit.compare.compare_pixels` has pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers, AnyAnswers, Weights, aligned
from alignkit.compare.bootstrap import MeanOverSeeds, SharedDraws, mean_over_seeds
from alignkit.compare.class_changes import (
    PairedSides,
    defined_by,
    drawn_classes,
    moved_in_one,
    resampled,
)
from alignkit.compare.idle_answers import (
    finite_once,
    none_moved,
    not_finite,
    nothing_answered,
    nothing_compared,
)
from alignkit.compare.statistics import Moved, change_p, detectable_effect, detectable_mean, mcnemar
from alignkit.errors import DataError
from alignkit.record import ClassDrift, Drift, DriftChange, Estimate, StandardError
from alignkit.samples import NO_LABELS
from alignkit.task_facts import over_classes

ReferenceAndCandidate = tuple[Sequence[Answers], Sequence[Answers]]
"""Answers of the reference and of the candidate, one for each seed."""


def drift(
    reference: Sequence[AnyAnswers],
    candidate: Sequence[AnyAnswers],
    *,
    draws: SharedDraws | None = None,
) -> Drift:
    """Compare answers pair by pair: one pair per training seed, in one order on both sides.

    Differences are fractions; several seeds are averaged. Intervals are 95 % bootstrap intervals:
    over images for one seed, over seeds and images for several (`alignkit.compare.bootstrap`). The
    result is deterministic in the seed of ``draws``, which comparisons may share. Without
    labels all that needs them is ``None``. Raise `DataError` if the sides do not pair up or the
    seeds have different images, `NothingCompared` if no image is shared. Answers of which no change
    could show have no numbers, and the reason.
    """
    draws = draws or SharedDraws()
    compared = PairedSides.of(pairs := pair_up(reference, candidate), draws)
    first, groups = compared.first, compared.groups
    means = {
        name: compared.mean(name, values, draws.seed)
        for name, values in _differences(compared, draws).items()
    }
    drawn, some = drawn_classes(first, groups)
    defined = defined_by(compared.between, some, groups)
    whole = {**_pair_fields(compared, means, drawn, defined), "defined_by": defined}
    if reason := nothing_answered(pairs):
        return nothing_compared(pairs, whole, reason)
    once, changed = finite_once(pairs)
    return Drift(
        **whole,
        errors={
            name: StandardError(float(means[name].spread.images), float(means[name].spread.seeds))
            for name in (*first.metric_names, "churn", *whole["measures"])
            if name in means and means[name].spread.known
        },
        classes=_classes(first, means, drawn),
        mcnemar_p=_mcnemar(pairs, groups) if first.labelled else None,
        logits=type(first).distance(pairs),
        non_finite=not_finite(pairs),
        non_finite_once=once,
        non_finite_changed=changed,
        **type(first).pair_facts(pairs, {**whole["metrics"], **whole["measures"]}, groups),
    )


# With the draws, the test and the correction of the drift matrix: a count of flips alone does not
# see a recall that went from +6 to -10 points, and a single new flip is no more than chance until
# a test says otherwise.
def drift_change(
    before: ReferenceAndCandidate,
    after: ReferenceAndCandidate,
    metrics: Sequence[str],
    *,
    draws: SharedDraws | None = None,
) -> dict[str, DriftChange]:
    """Subtract the drift of ``before`` from that of ``after``, for metrics or ``churn``; fractions.

    The two are paired twice: both are drawn with the same images, and the spread over seeds is that
    of each seed's own change (`alignkit.compare.bootstrap`), so common noise cancels. The p-values
    are not corrected for other comparisons. Raise `DataError` if seeds or images differ,
    `NothingCompared` if there is no image.
    """
    earlier, later = pair_up(*before), pair_up(*after)
    first = earlier[0][0]
    if len(earlier) != len(later) or first.ids != later[0][0].ids:
        raise DataError("two drifts are compared on the same images and seeds; evaluate both so")
    draws = draws or SharedDraws()
    both = [PairedSides.of(pairs, draws) for pairs in (earlier, later)]
    groups, units = both[0].groups, both[0].units
    sides = [_differences(each, draws) for each in both]
    changes = {}
    for metric in metrics:
        if metric not in sides[0]:
            nothing = Estimate(None, None, None, NO_LABELS)
            changes[metric] = DriftChange(nothing, nothing, nothing)
            continue
        was, now = (side[metric] for side in sides)
        apart = Moved.alike(moved_in_one(earlier, later, metric, groups))
        moved = [*(each.moved.get(metric) for each in both), apart]
        differences = (was, now, (now[0] - was[0], now[1] - was[1]))
        means = [
            mean_over_seeds(*values, images=units, seed=draws.seed, moved=by)
            for values, by in zip(differences, moved, strict=True)
        ]
        if metric == "churn":  # of each run; their difference may be negative
            means[:2] = map(_clipped, means[:2])
        answers = [each for pair in (*earlier, *later) for each in pair]
        why = _why_undefined(metric, answers, "no class defines it on every side")
        old, new, change = (each.estimate(why) for each in means)
        p = _change_p(change, means[2], len(earlier), units, moved_by=apart)
        changes[metric] = DriftChange(old, new, change, p)
    return changes


def _change_p(
    change: Estimate, mean: MeanOverSeeds, seeds: int, units: int, *, moved_by: Moved
) -> float | None:
    """Test a change of zero; ``None`` where its value or its spread is unknown."""
    if change.value is None or not mean.spread.known:
        return None
    return change_p(
        change.value,
        images_error=float(mean.spread.images),
        seeds_error=float(mean.spread.seeds),
        images=units,
        seeds=seeds,
        flipped=moved_by,
    )


def pair_up(
    reference: Sequence[AnyAnswers], candidate: Sequence[AnyAnswers]
) -> list[tuple[AnyAnswers, AnyAnswers]]:
    """Pair the answers by seed, restricted to the images that both sides predicted.

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


def _pair_fields(
    compared: PairedSides[Any],
    means: Mapping[str, MeanOverSeeds],
    drawn: Sequence[int],
    defined: Mapping[str, int],
) -> dict[str, Any]:
    """Compute the first fields of `alignkit.record.Drift` from `_differences` joined over seeds.

    ``drawn`` are the images, or groups, that show each class.
    """
    pairs, groups, units = compared.pairs, compared.groups, compared.units
    first, seeds, moved = compared.first, len(pairs), compared.moved

    def unmoved(name: str) -> str:
        return none_moved(defined.get(name, units), drawn if over_classes(name) else ())

    names = first.metric_names
    answers = [each for pair in pairs for each in pair]
    metrics = {
        name: means[name].estimate(
            _why_undefined(name, answers, "no class defines it on both sides"), unmoved(name)
        )
        for name in names
        if name in means
    }
    nothing = Estimate(None, None, None, NO_LABELS)
    return {
        "n": len(first) * seeds,
        **_of_groups(compared),
        **_of_labels(pairs, groups),
        "metrics": metrics or dict.fromkeys(names, nothing),
        "p_values": {
            name: p
            for name, metric in metrics.items()
            if (p := _change_p(metric, means[name], seeds, units, moved_by=moved[name])) is not None
        },
        "churn": _clipped(means["churn"]).estimate("no image was compared", unmoved("churn")),
        "measures": {
            name: mean.estimate(
                _why_undefined(name, answers, "there is nothing to measure it on"), unmoved(name)
            )
            for name, mean in means.items()
            if mean.value.ndim == 0 and name not in (*names, "churn")
        },
    }


def _of_groups(compared: PairedSides[Any]) -> dict[str, int]:
    """Compute the fields of answers that depend on each other, or were compared for some images."""
    churn = [a.churn(b) for a, b in compared.pairs]
    asked = [each.below for each in churn if each.below is not None]
    found = {} if compared.groups is None else {"groups": compared.units}
    number = int(sum(each.sum() for each in asked))
    images = len(compared.first) * len(churn)
    return found | ({"asked": number} if asked and number < images else {})


def _clipped(churn: MeanOverSeeds) -> MeanOverSeeds:
    # widened by Student's quantile, an interval may leave 0..1
    return replace(churn, interval=churn.interval.clip(0, 1))


def _of_labels(
    pairs: Sequence[tuple[AnyAnswers, AnyAnswers]], groups: Labels | None
) -> dict[str, Any]:
    """Compute the fields that need labels, and are ``None`` without them."""
    names = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong")
    if not pairs[0][0].labelled:
        return dict.fromkeys((*names, "detectable"))
    turned = np.concatenate([_turned(*pair) for pair in pairs])
    counts = {
        name: int(np.count_nonzero(turned == sign))
        for name, sign in zip(names, (-1, 1, 0), strict=True)
    }
    return {**counts, "detectable": _detectable(pairs, groups)}


def _turned(a: AnyAnswers, b: AnyAnswers) -> FloatArray:
    """Return, (n,), the sign of what an answer gains: -1 worse, 1 better, 0 neither.

    NaN where `Answers.rated` leaves it out, or its quality is unknown on a side.
    """
    gained: FloatArray = np.where(a.rated(b), np.sign(b.quality() - a.quality()), np.nan)
    return gained


def _detectable(
    pairs: Sequence[tuple[AnyAnswers, AnyAnswers]], groups: Labels | None
) -> float | None:
    """Compute the smallest change of the mean quality that the images show in 80 % of cases.

    Images whose quality is unknown on a side are left out; ``None`` if all are.
    """
    qualities = np.stack([[each.quality() for each in pair] for pair in pairs])
    known = np.isfinite(qualities).all(axis=(0, 1))
    qualities = qualities[..., known]
    images = qualities.shape[-1]
    if not images:
        return None
    gained = (qualities[:, 1] - qualities[:, 0]).mean(axis=0)
    if groups is not None:
        gained = _by_group(gained, groups[known])
        images = len(gained)
    if ((qualities == 0) | (qualities == 1)).all():  # right or wrong
        return detectable_effect(images, float(np.mean(gained**2)))
    return detectable_mean(gained)


def _by_group(gained: FloatArray, groups: Labels) -> FloatArray:
    """Compute, (groups,), what each group of the images (n,) adds to their mean, times the groups.

    Their mean is that of the images. A group adds what its images gain beyond the mean, too: the
    mean is a ratio whose denominator varies (Cochran, Sampling Techniques, 1977, 6.3).
    """
    _, place = np.unique(groups, return_inverse=True)
    sums, sizes = np.bincount(place, weights=gained), np.bincount(place)
    mean = gained.mean()
    linear: FloatArray = mean + (sums - mean * sizes) / sizes.mean()
    return linear


def _mcnemar(pairs: Sequence[tuple[AnyAnswers, AnyAnswers]], groups: Labels | None) -> float:
    """Test by signs whether changed answers became better as often as worse (classes: McNemar).

    A group of images that depend on each other is one trial, by the sign of its sum.
    """
    # an image is one trial however many seeds change it: seeds are not independent of each other
    gained = np.nansum([_turned(*pair) for pair in pairs], axis=0)
    if groups is not None:
        gained = np.bincount(groups, weights=gained)
    return mcnemar(int((gained < 0).sum()), int((gained > 0).sum()))


def _why_undefined(name: str, answers: Sequence[Answers], otherwise: str) -> str:
    return next((said for each in answers if (said := each.undefined(name))), otherwise)


def _classes(
    first: Answers, means: Mapping[str, MeanOverSeeds], drawn: Sequence[int]
) -> tuple[ClassDrift, ...]:
    reasons = {
        "recall": "no image is of this class",
        "precision": "one side never predicts this class",
    }
    names = [name for name, mean in means.items() if mean.value.ndim == 1]
    if not names:
        return ()

    supports = first.counts().support

    def estimate(name: str, index: int) -> Estimate:
        mean = means[name]
        of_class = replace(mean, value=mean.value[index], interval=mean.interval[:, index])
        reason = reasons.get(name, "nothing defines it for this class")
        return of_class.estimate(reason, none_moved(drawn[index]) if drawn[index] else "")

    return tuple(
        ClassDrift(
            name,
            support,
            estimate("recall", index),
            estimate("precision", index),
            {each: estimate(each, index) for each in names if each not in ("recall", "precision")},
            None if drawn[index] == support else drawn[index],
        )
        for index, (name, support) in enumerate(zip(first.classes, supports, strict=True))
    )


def _differences(
    compared: PairedSides[Any], draws: SharedDraws
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return each seed's difference (seeds, …) and its draws (seeds, …, resamples) by name.

    Names are ``churn``, every measure, and with labels every metric: by class (seeds, classes, …).
    All draws of images are shared by all pairs and names.
    """
    images = len(compared.first)

    def differences(weights: Weights) -> dict[str, FloatArray]:
        """Compute all differences, (seeds, …, draws), under weights (n, draws)."""
        by_seed: dict[str, list[FloatArray]] = {}
        for (a, b), own in zip(compared.pairs, compared.between, strict=True):
            before, after = (resampled(each.tallies(), weights) for each in (a, b))
            found = {name: value - before[name] for name, value in after.items()}
            found |= {name: each.of(weights) for name, each in own.items()}
            for name, value in found.items():
                by_seed.setdefault(name, []).append(value)
        return {name: np.stack(values) for name, values in by_seed.items()}

    observed = differences(np.ones((images, 1), np.float32))
    blocks = [differences(weights) for weights in draws.of(images, compared.groups)]
    return {
        name: (value[..., 0], np.concatenate([block[name] for block in blocks], axis=-1))
        for name, value in observed.items()
    }
