"""`NoiseFloor`: what a new seed alone does to a model; differences of rows must exceed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import stdev

from alignkit.errors import DataError
from alignkit.metrics import churn
from alignkit.predictions import Predictions


@dataclass(frozen=True, slots=True)
class Spread:
    """How one metric varies over seeds."""

    values: tuple[float, ...]
    """One a seed."""
    range: float
    """Greatest minus least."""
    deviation: float
    """Sample standard deviation."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Differences between trainings that differ in their seed and in nothing else."""

    seeds: int
    metrics: dict[str, Spread]
    """Those of `alignkit.metrics.METRICS` that every seed's model defines; empty for one seed."""
    churn: float | None
    """Mean over the pairs of seeds of 1 - top-1 agreement."""
    churn_greatest: float | None
    reason: str = ""
    """Why nothing could be measured."""


def noise_floor(trainings: Sequence[Predictions]) -> NoiseFloor:
    """Compare the models of several seeds on the same images.

    Raises `DataError` if the images are not the same in the same order.
    """
    if len(trainings) < 2:
        reason = "one seed only: train with two seeds or more to see what a seed does"
        return NoiseFloor(len(trainings), {}, None, None, reason)
    if any(each.ids != trainings[0].ids for each in trainings):
        raise DataError("a noise floor needs every seed's predictions of the same images")
    measured = [each.counts().metrics() for each in trainings]
    churns = [
        value
        for first, second in combinations(trainings, 2)
        if (value := churn(first.predicted, second.predicted)) is not None
    ]
    return NoiseFloor(
        seeds=len(trainings),
        metrics={name: spread for name in measured[0] if (spread := _spread(measured, name))},
        churn=sum(churns) / len(churns) if churns else None,
        churn_greatest=max(churns, default=None),
        reason="" if churns else "no image was predicted",
    )


def noise_floors(paths: Mapping[str, Sequence[Predictions]]) -> dict[str, NoiseFloor]:
    """Training path → noise floor, of each path's models under that path itself."""
    return {name: noise_floor(trainings) for name, trainings in paths.items()}


def _spread(measured: Sequence[Mapping[str, float | None]], name: str) -> Spread | None:
    values = tuple(value for each in measured if (value := each[name]) is not None)
    if len(values) < len(measured):
        return None
    return Spread(values, max(values) - min(values), stdev(values))
