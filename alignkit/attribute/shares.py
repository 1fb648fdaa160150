"""Shares of a change among factors: every metric of every mixture, in each resample of the images.

`shapley` divides every interaction evenly among its factors (Shapley 1953, *A value for n-person
games*); it needs every subset. `alone` gives each factor its own effect and leaves the rest as an
interaction; it needs a mixture for each factor, and the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import factorial
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.attribute.attributed_mixtures import MixtureResults
from alignkit.compare.bootstrap import indicators, resample_weights
from alignkit.compare.metrics import averages
from alignkit.preprocess.stage_mixtures import FACTORIAL_LIMIT, FromCandidate, all_mixtures

Metric = Literal["pixels", "logits", "churn", "top1", "recall.macro", "precision.macro"]
ATTRIBUTED: tuple[Metric, ...] = get_args(Metric)
MODEL_METRICS = ATTRIBUTED[2:]
"""Metrics of predictions."""

_NO_MODEL = "no model was given"
_NO_LABELS = "the images have no labels"
_NOT_FINITE = "a logit is NaN or infinite in some mixture"


def metric_values(
    observed: MixtureResults, labels: Labels | None, classes: int, resamples: int
) -> dict[Metric, FloatArray]:
    """Compute each metric as (mixtures, 1 + resamples): the sample first, seeds averaged.

    ``labels`` are those of the observed images. A metric that cannot be computed is absent, see
    `why_absent`.
    """
    blocks: dict[Metric, list[FloatArray]] = {}
    images = len(observed.rows)
    sample = np.ones((images, 1), np.float32)
    for weights in chain([sample], resample_weights(images, resamples, seed=0)):
        for metric, values in _block(observed, labels, classes, weights).items():
            blocks.setdefault(metric, []).append(values)
    return {metric: np.concatenate(parts, axis=1) for metric, parts in blocks.items()}


def why_absent(metric: Metric, observed: MixtureResults, labels: Labels | None) -> str:
    """Return why `metric_values` lacks a metric; empty if it has it."""
    if metric == "pixels":
        return ""
    if not observed.predicted.shape[2]:
        return _NO_MODEL
    if metric == "logits":
        return _NOT_FINITE if np.isnan(observed.logit_distance).any() else ""
    return "" if metric == "churn" or labels is not None else _NO_LABELS


def _block(
    observed: MixtureResults,
    labels: Labels | None,
    classes: int,
    weights: npt.NDArray[np.float32],
) -> dict[Metric, FloatArray]:
    """Compute each metric as (mixtures, draws)."""

    def mean(values: FloatArray) -> FloatArray:
        """Average (images, mixtures) to (mixtures, draws)."""
        weighted: FloatArray = values.T @ weights / len(weights)
        return weighted

    predicted = observed.predicted
    found: dict[Metric, FloatArray] = {"pixels": mean(observed.distance)}
    if not predicted.shape[2]:  # no model was given
        return found
    if not np.isnan(observed.logit_distance).any():
        found["logits"] = mean(observed.logit_distance.mean(axis=2))
    found["churn"] = mean((predicted != predicted[:, :1]).mean(axis=2))
    if labels is not None:
        found["top1"] = mean((predicted == labels[:, None, None]).mean(axis=2))
        macro = _macro(predicted, labels, classes, weights)
        found["recall.macro"], found["precision.macro"] = macro
    return found


def _macro(
    predicted: npt.NDArray[np.int64],
    labels: Labels,
    classes: int,
    weights: npt.NDArray[np.float32],
) -> tuple[FloatArray, FloatArray]:
    """Compute macro recall and precision, each (mixtures, draws)."""

    def counts(of_class: Labels, chosen: npt.NDArray[np.bool_]) -> FloatArray:
        """Count the chosen images of each class: (classes, draws)."""
        counted: FloatArray = (indicators(of_class, classes, chosen) @ weights).astype(np.float64)
        return counted

    _, mixtures, models = predicted.shape
    everyone = np.ones(len(labels), np.bool_)
    support = counts(labels, everyone)
    recall, precision = np.zeros((2, mixtures, weights.shape[1]))
    # one product each: all at once would hold the indicators of every mixture
    for mixture in range(mixtures):
        for model in range(models):
            found = predicted[:, mixture, model]
            true_positive = counts(labels, found == labels)
            ratios = averages(true_positive, counts(found, everyone), support)
            recall[mixture] += ratios["recall.macro"] / models
            precision[mixture] += ratios["precision.macro"] / models
    return recall, precision


def shares(
    factors: Sequence[str], values: Mapping[FromCandidate, FloatArray]
) -> dict[str, FloatArray]:
    """Compute each factor's share: by Shapley for few factors, else its effect alone.

    A mixture's value is (), or (resamples,): its value in each of many resamples.
    """
    if len(factors) <= FACTORIAL_LIMIT:
        return {factor: shapley(factor, factors, values) for factor in factors}
    return {factor: alone(factor, values) for factor in factors}


def shapley(
    factor: str, factors: Sequence[str], values: Mapping[FromCandidate, FloatArray]
) -> FloatArray:
    """Compute a factor's mean marginal contribution over all orders of swapping.

    A factor that changes nothing in any mixture gets exactly 0.
    """
    count = len(factors)
    total = np.zeros(())
    for taken in all_mixtures(each for each in factors if each != factor):
        orders = factorial(len(taken)) * factorial(count - len(taken) - 1)
        total = total + orders * (values[taken | {factor}] - values[taken])
    return total / factorial(count)


def alone(factor: str, values: Mapping[FromCandidate, FloatArray]) -> FloatArray:
    """Compute the effect of swapping one factor while all others are the reference's."""
    return values[frozenset({factor})] - values[frozenset()]


def interaction(factors: Sequence[str], values: Mapping[FromCandidate, FloatArray]) -> FloatArray:
    """Compute the effect of all factors together less the sum of their effects alone."""
    whole = values[frozenset(factors)] - values[frozenset()]
    return whole - sum((alone(factor, values) for factor in factors), np.zeros(()))
