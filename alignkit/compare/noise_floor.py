"""`NoiseFloor` of a path: differences between seeds alone; differences of rows must exceed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from alignkit.compare.predictions import Predictions
from alignkit.errors import DataError, NothingCompared
from alignkit.record import NoiseFloor


def noise_floor(preprocess: str, trainings: Mapping[int, Predictions]) -> NoiseFloor:
    """Compare the models of several seeds, seed → predictions, on the same images.

    Raise `NothingCompared` for one seed or no image, `DataError` if the images are not the same in
    the same order.
    """
    models = list(trainings.values())
    if len(models) < 2:
        raise NothingCompared("one seed only: train with two seeds or more to see what a seed does")
    if any(each.ids != models[0].ids for each in models):
        raise DataError("a noise floor needs every seed's predictions of the same images")
    if not len(models[0]):
        raise NothingCompared("no image was predicted")
    measured = [each.counts().metrics() for each in models]
    churns = [
        float(np.mean(one.predicted != other.predicted)) for one, other in combinations(models, 2)
    ]
    return NoiseFloor(
        preprocess=preprocess,
        seeds=tuple(trainings),
        metrics={
            name: spread for name in measured[0] if (spread := _range(measured, name)) is not None
        },
        churn=sum(churns) / len(churns),
    )


def _range(measured: Sequence[Mapping[str, float | None]], name: str) -> float | None:
    values = [value for each in measured if (value := each[name]) is not None]
    # a range over fewer seeds would be too small
    return max(values) - min(values) if len(values) == len(measured) else None
