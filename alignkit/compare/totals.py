"""Counts behind every difference of two models, so that a resample is one matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from alignkit.arrays import FloatArray
from alignkit.compare.bootstrap import indicators
from alignkit.compare.metrics import averages, ratio
from alignkit.compare.predictions import Predictions, aligned
from alignkit.errors import DataError


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


class PredictionTotals:
    """Counts of every pair as groups of images, so that a resample is one matrix product."""

    def __init__(self, pairs: Sequence[tuple[Predictions, Predictions]]) -> None:
        first = pairs[0][0]
        self.seeds, self.n, self.size = len(pairs), len(first), len(first.classes)
        everyone = np.ones(self.n, np.bool_)
        parts = [indicators(first.labels, self.size, everyone)]
        for side in (each for pair in pairs for each in pair):
            parts.append(indicators(side.labels, self.size, side.predicted == side.labels))
            # NO_PREDICTION (-1) is a prediction of no class
            parts.append(indicators(side.predicted, self.size, side.predicted >= 0))
        one = np.zeros(self.n, np.int64)
        parts += [indicators(one, 1, a.predicted != b.predicted) for a, b in pairs]
        self.members = sparse.vstack(parts, format="csr")

    def differences(self, counts: FloatArray) -> dict[str, FloatArray]:
        """Compute all differences from counts (groups, draws).

        Every metric and ``churn`` are (seeds, draws); ``recall`` and ``precision`` by class are
        (seeds, classes, draws).
        """
        support, split = counts[: self.size], self.size * (1 + 4 * self.seeds)
        sides = counts[self.size : split].reshape(self.seeds, 2, 2, self.size, -1)
        by_seed: dict[str, list[FloatArray]] = {}
        for before, after in sides:
            old = _ratios(before[0], before[1], support)
            for name, value in _ratios(after[0], after[1], support).items():
                by_seed.setdefault(name, []).append(value - old[name])
        stacked = {name: np.stack(values) for name, values in by_seed.items()}
        return stacked | {"churn": counts[split:] / self.n}


def _ratios(
    true_positive: FloatArray, predicted: FloatArray, support: FloatArray
) -> dict[str, FloatArray]:
    return averages(true_positive, predicted, support) | {
        "recall": ratio(true_positive, support),
        "precision": ratio(true_positive, predicted),
    }
