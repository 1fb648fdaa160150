"""Classification metrics: pure array functions.

Counts are kept, and ratios derived from them. A ratio without a denominator is undefined and is
``None``, never 0: the *recall* of a class without a sample, the *precision* of a class that is
never predicted, the *F1* of a class with neither. An undefined class is left out of macro and
weighted means. All of this is scikit-learn's ``zero_division=numpy.nan`` over all classes.

A row of logits with NaN predicts nothing: `predicted_classes` returns ``NO_PREDICTION``, which is
wrong for every label and a prediction of no class. So is a prediction of an output outside the
data's classes; churn and flips compare it like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels, Logits

NO_PREDICTION = -1
_AVERAGES = ("macro", "micro", "weighted")
METRICS = (
    "top1",
    *(f"{ratio}.{average}" for ratio in ("recall", "precision", "f1") for average in _AVERAGES),
)
"""The names of `averages`: ``top1``, ``recall.macro``, ``recall.micro``, …"""

_ROWS_APART = 128


@dataclass(frozen=True, slots=True)
class ClassCountArrays:
    """Confusion counts, one number for each class."""

    true_positive: tuple[int, ...]
    predicted: tuple[int, ...]
    """Samples predicted as the class: true and false positives."""
    support: tuple[int, ...]
    """Samples of the class: true positives and false negatives."""

    def metrics(self) -> dict[str, float | None]:
        """Compute each of `METRICS`; ``None`` where no class defines it."""
        counts = (self.true_positive, self.predicted, self.support)
        found = averages(*(np.asarray(each, np.float64) for each in counts))
        return {name: None if np.isnan(value) else float(value) for name, value in found.items()}


def by_class(logits: Logits) -> Logits:
    """Return a logit for each class: beside the only one, of the second of two classes, 0."""
    if logits.shape[1] != 1:
        return logits
    return np.concatenate([np.zeros_like(logits), logits], axis=1)


def predicted_classes(logits: Logits) -> Labels:
    """Find the class of the greatest logit, first if tied: (samples, classes) → (samples,).

    A row with NaN is ``NO_PREDICTION``; an infinite logit competes like any other.
    """
    predicted: Labels = np.argmax(logits, axis=1).astype(np.int64)
    # argmax would name the first NaN
    predicted[np.isnan(logits).any(axis=1)] = NO_PREDICTION
    return predicted


def class_counts(labels: Labels, predicted: Labels, classes: int) -> ClassCountArrays:
    """Count per class; ``labels`` are (samples,) in 0..classes-1.

    ``predicted``, (samples,), may also be ``NO_PREDICTION``, or ``classes`` and above for outputs
    outside the data's classes.
    """

    def count(which: Labels) -> tuple[int, ...]:
        return tuple(np.bincount(which, minlength=classes).tolist())

    return ClassCountArrays(
        true_positive=count(labels[labels == predicted]),
        predicted=count(predicted[(predicted >= 0) & (predicted < classes)]),
        support=count(labels),
    )


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide elementwise; NaN where the denominator is 0."""
    out = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=out, where=denominator != 0)
    return out


def averages(
    true_positive: FloatArray, predicted: FloatArray, support: FloatArray
) -> dict[str, FloatArray]:
    """Compute `METRICS`, each (…), of counts (classes, …): a column is a data set or a resample.

    A metric that no class defines is NaN.
    """
    found = metrics_with_classes(true_positive, predicted, support)
    return {name: found[name] for name in METRICS}


def metrics_with_classes(
    true_positive: FloatArray, predicted: FloatArray, support: FloatArray
) -> dict[str, FloatArray]:
    """Compute those of `averages`, with ``recall`` and ``precision`` by class, (classes, …)."""
    doubled, total = 2 * true_positive, predicted + support
    out = {"top1": ratio(true_positive.sum(axis=0), support.sum(axis=0))}
    for name, above, below in (
        ("recall", true_positive, support),
        ("precision", true_positive, predicted),
        ("f1", doubled, total),
    ):
        by_class = ratio(above, below)
        defined = ~np.isnan(by_class)
        filled = np.where(defined, by_class, 0.0)
        weights = np.where(defined, support, 0.0)
        out[f"{name}.macro"] = ratio(filled.sum(axis=0), defined.sum(axis=0).astype(np.float64))
        out[f"{name}.micro"] = ratio(above.sum(axis=0), below.sum(axis=0))
        out[f"{name}.weighted"] = ratio((filled * weights).sum(axis=0), weights.sum(axis=0))
        if name != "f1":
            out[name] = by_class
    return out


def flips(labels: Labels, reference: Labels, candidate: Labels) -> dict[str, int]:
    """Count the samples, (samples,) each, whose predicted class changed, as a `Drift` does.

    ``wrong_to_wrong`` are wrong before and after, with another class.
    """
    before, after = reference == labels, candidate == labels
    changes = {
        "right_to_wrong": before & ~after,
        "wrong_to_right": ~before & after,
        "wrong_to_wrong": ~before & ~after & (reference != candidate),
    }
    return {name: int(np.count_nonzero(changed)) for name, changed in changes.items()}


def mean_apart(reference: Logits, candidate: Logits) -> FloatArray:
    """Compute each sample's mean |Δ logit|, (samples, classes) twice → (samples,) float64.

    NaN where either side has a logit that is not finite.
    """
    apart = np.full(len(reference), np.nan)
    # a few rows at a time: copies in float64 of all logits are not kept
    for start in range(0, len(reference), _ROWS_APART):
        part = slice(start, start + _ROWS_APART)
        left, right = reference[part], candidate[part]
        finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
        change = right[finite].astype(np.float64) - left[finite]
        apart[part][finite] = np.abs(change).mean(axis=1)
    return apart


def top_classes(logits: FloatArray, k: int) -> npt.NDArray[np.bool_]:
    """Mark the k greatest of (samples, classes > k), the first if tied; same shape."""
    place = logits.shape[1] - k
    # a full sort of 1,000 classes is not needed
    least = np.partition(logits, place, axis=1)[:, place : place + 1]
    above, equal = logits > least, logits == least
    wanted = k - above.sum(axis=1, keepdims=True)
    chosen: npt.NDArray[np.bool_] = above | (equal & (equal.cumsum(axis=1) <= wanted))
    return chosen


def top_chances(logits: Logits) -> FloatArray:
    """Compute the softmax of the two greatest logits, the greatest first: (samples, 2).

    NaN if a logit is NaN or the greatest is infinite; the second also where there is no second.
    """
    found = np.full((len(logits), 2), np.nan)
    # the greatest exponent is 0, so that none overflows
    with np.errstate(invalid="ignore"):  # inf less inf
        exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    kept = min(2, logits.shape[1])
    found[:, :kept] = np.partition(probabilities, -kept, axis=1)[:, -kept:][:, ::-1]
    return found
