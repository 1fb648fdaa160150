"""`ClassTallies`: the labels and predicted classes of images, of which all metrics are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.bootstrap import indicators, stacked
from alignkit.compare.metrics import averages, metrics_with_classes

if TYPE_CHECKING:
    from scipy import sparse

    from alignkit.compare.answers import Weights


@dataclass(frozen=True, eq=False)
class ClassTallies:
    """One class an image, by label and as predicted."""

    labels: Labels
    """(n,), 0..classes-1; (0,) if the images have no labels."""
    predicted: Labels
    """(n,); ``NO_PREDICTION`` (-1) and outputs outside the classes are in no class."""
    classes: int
    """0 if the images have no labels."""

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def sums(self) -> ClassTallies:
        """Return the tallies themselves: an image counts once in its class."""
        return self

    @cached_property
    def _members(self) -> sparse.csr_matrix:
        """Mark of each class the images that are right, those predicted as it, and its own."""
        everyone = np.ones(len(self.predicted), np.bool_)
        labels = self.labels if self.classes else np.full(len(self.predicted), -1)
        return stacked(
            [
                indicators(labels, self.classes, self.predicted == labels),
                indicators(self.predicted, self.classes, everyone),
                indicators(labels, self.classes, everyone),
            ]
        )

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute `METRICS`, and ``recall`` and ``precision`` by class; nothing without labels."""
        return metrics_with_classes(*self.weighted(weights)) if self.classes else {}

    def weighted(self, weights: Weights) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Count true positives, predictions and support by weight, (classes, draws) each."""
        counted = (self._members @ weights).astype(np.float64)
        right, predicted, support = counted.reshape(3, self.classes, weights.shape[1])
        return right, predicted, support

    def picked(self, images: Labels) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Count those of some images, (classes, images) each."""
        counted = self._members[:, images].toarray().astype(np.float64)
        right, predicted, support = counted.reshape(3, self.classes, len(images))
        return right, predicted, support

    def differing(self, other: ClassTallies) -> Labels:
        """Find the images that are predicted as another class."""
        known = self.predicted != other.predicted if self.classes else np.zeros(0, np.bool_)
        return np.flatnonzero(known)

    @staticmethod
    def ratios(
        true_positive: FloatArray, predicted: FloatArray, support: FloatArray
    ) -> dict[str, FloatArray]:
        """Compute `alignkit.compare.metrics.averages`."""
        return averages(true_positive, predicted, support)

    @classmethod
    def joined(cls, parts: Sequence[ClassTallies]) -> ClassTallies:
        """Join those of different images, in the order given."""
        labels, predicted = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("labels", "predicted")
        )
        return replace(parts[0], labels=labels, predicted=predicted)
