"""Shares of a change among factors: every metric of every mixture, in each resample of the images.

`shapley` divides every interaction evenly among its factors (Shapley 1953, *A value for n-person
games*); it needs every subset. `alone` gives each factor its own effect and leaves the rest as an
interaction; it needs a mixture for each factor, and the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from math import factorial

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.attribute.attributed_mixtures import MixtureResults
from alignkit.compare.bootstrap import image_weights
from alignkit.compare.class_changes import (
    ChangeByImage,
    changes_by_image,
    of_groups,
    resampled,
)
from alignkit.preprocess.stage_mixtures import FACTORIAL_LIMIT, FromCandidate, all_mixtures
from alignkit.task_facts import MetricFacts, TaskFacts

_NO_MODEL = "no model was given"
_NO_LABELS = "the images have no labels"
_NOT_FINITE = "an output is NaN or infinite in some mixture"
_OTHER_SIZES = "some mixture gives the model an input of another size"
PIXEL_DISTANCE = MetricFacts(name="pixels", label="Mean |Δpixel|", unit="value", better="less")
_LOGITS = MetricFacts(name="logits", label="Mean |Δlogit|", unit="value", better="less")
_CHURN = MetricFacts(name="churn", label="Churn", better="less")


def model_metrics(task: TaskFacts) -> tuple[MetricFacts, ...]:
    """List what is measured of predictions: churn, the metrics that have a matrix, measures."""
    shown = (each for each in task.metrics if each.name in task.matrices)
    return _CHURN, *shown, *task.measures


def attributed(task: TaskFacts) -> dict[str, MetricFacts]:
    """Map the name of everything that is attributed to its facts, in the order of the rows.

    ``pixels`` are in grey levels 0..255, ``logits`` in logits.
    """
    distances = (PIXEL_DISTANCE, _LOGITS) if task.class_scores else (PIXEL_DISTANCE,)
    return {each.name: each for each in (*distances, *model_metrics(task))}


def metric_values(
    observed: MixtureResults, task: TaskFacts, resamples: int
) -> dict[str, FloatArray]:
    """Compute each metric as (mixtures, 1 + resamples): the sample first, seeds averaged.

    A metric that cannot be computed is absent, see `why_absent`. Of one image, or one group of
    them, resamples are NaN: they would all be the sample.
    """
    wanted = attributed(task)
    by_image = _by_image(observed, task)
    blocks: dict[str, list[FloatArray]] = {}
    images = len(observed.rows)
    sample = np.ones((images, 1), np.float32)
    changes = [
        [
            changes_by_image(a.tallies, b.tallies, grouped=observed.groups is not None)
            for a, b in zip(observed.answers[0], own, strict=True)
        ]
        for own in observed.answers
    ]
    for weights in chain([sample], image_weights(images, observed.groups, resamples, seed=0)):
        # a draw takes as many images as there are, or as many groups of them
        drawn = images if observed.groups is None else weights.sum(axis=0)
        found = {name: values.T @ weights / drawn for name, values in by_image.items()}
        found |= _of_answers(observed, changes, wanted.keys() - found.keys(), weights)
        for name, values in found.items():
            blocks.setdefault(name, []).append(values)
    joined = {name: np.concatenate(parts, axis=1) for name, parts in blocks.items()}
    if images < 2 or (observed.groups is not None and not observed.groups.any()):
        for values in joined.values():
            values[:, 1:] = np.nan
    return joined


def why_absent(metric: str, observed: MixtureResults) -> str:
    """Return why `metric_values` lacks a metric."""
    if metric == "pixels":
        return _OTHER_SIZES
    if not observed.models:
        return _NO_MODEL
    return _NOT_FINITE if metric == "logits" else _NO_LABELS


def _by_image(observed: MixtureResults, task: TaskFacts) -> dict[str, FloatArray]:
    """Return the values whose means over images are metrics, (images, mixtures) each."""
    found = {"pixels": observed.distance}
    if observed.models:
        if task.class_scores:
            found["logits"] = observed.of_images(lambda each: each.apart)
        if task.rated_metric:
            found[task.rated_metric] = observed.of_images(lambda each: each.quality)
        if observed.groups is None:  # else its ratio is computed, whose denominator varies
            found["churn"] = observed.of_images(lambda each: each.changed)
    return {name: values for name, values in found.items() if not np.isnan(values).any()}


def _of_answers(
    observed: MixtureResults,
    changes: Sequence[Sequence[Mapping[str, ChangeByImage]]],
    wanted: AbstractSet[str],
    weights: npt.NDArray[np.float32],
) -> dict[str, FloatArray]:
    """Compute the task's metrics and measures, (mixtures, draws) each, averaged over models.

    ``changes`` are those from the reference, of each mixture and model. They take the place of
    their metrics, since shares are of differences.
    """
    found: dict[str, FloatArray] = {}
    shape = len(observed.wanted), weights.shape[1]
    # one mixture and model at a time: all at once would hold the counts of every one
    for mixture, own in enumerate(observed.answers):
        for model, each in enumerate(own):
            values = resampled(each.tallies, weights)
            for name, change in changes[mixture][model].items():
                values[name] = change.of(weights)
            # a paired change of a metric takes its place
            chosen = wanted & each.measures.keys()
            measures = {name: each.measures[name] for name in chosen}
            if observed.groups is not None:
                measures = {k: of_groups(one, len(weights)) for k, one in measures.items()}
            values |= {name: one.of(weights) for name, one in measures.items()}
            for name in wanted:
                if name in values:
                    kept = found.setdefault(name, np.zeros(shape))
                    kept[mixture] += values[name] / len(own)
    return found


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
