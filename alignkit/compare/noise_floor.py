"""`NoiseFloor`: differences between seeds alone; differences of rows must exceed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from alignkit.compare.metrics import churn
from alignkit.compare.predictions import Predictions
from alignkit.errors import DataError


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Differences between trainings that differ in their seed and in nothing else."""

    metrics: dict[str, float]
    """Greatest minus least value of each of `alignkit.compare.metrics.METRICS` that every seed's
    model defines; empty for one seed."""
    churn: float | None
    """Mean over the pairs of seeds of 1 - top-1 agreement."""
    reason: str = ""
    """Reason why nothing could be measured."""


def noise_floor(trainings: Sequence[Predictions]) -> NoiseFloor:
    """Compare the models of several seeds on the same images.

    Raise `DataError` if the images are not the same in the same order.
    """
    if len(trainings) < 2:
        reason = "one seed only: train with two seeds or more to see what a seed does"
        return NoiseFloor({}, None, reason)
    if any(each.ids != trainings[0].ids for each in trainings):
        raise DataError("a noise floor needs every seed's predictions of the same images")
    measured = [each.counts().metrics() for each in trainings]
    churns = [
        value
        for first, second in combinations(trainings, 2)
        if (value := churn(first.predicted, second.predicted)) is not None
    ]
    return NoiseFloor(
        metrics={
            name: spread for name in measured[0] if (spread := _range(measured, name)) is not None
        },
        churn=sum(churns) / len(churns) if churns else None,
        reason="" if churns else "no image was predicted",
    )


def _range(measured: Sequence[Mapping[str, float | None]], name: str) -> float | None:
    values = [value for each in measured if (value := each[name]) is not None]
    # a range over fewer seeds would be too small
    return max(values) - min(values) if len(values) == len(measured) else None
