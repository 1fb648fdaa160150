"""`ClassTallies`: the labels and predicted classes of images, of which all metrics are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.bootstrap import indicators, stacked
from alignkit.compare.metrics import metrics_with_classes

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

    @cached_property
    def _members(self) -> sparse.csr_matrix:
        """Mark the images of each class, those that are right, and those predicted as it."""
        everyone = np.ones(len(self.predicted), np.bool_)
        return stacked(
            [
                indicators(self.labels, self.classes, everyone),
                indicators(self.labels, self.classes, self.predicted == self.labels),
                indicators(self.predicted, self.classes, everyone),
            ]
        )

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute `METRICS`, and ``recall`` and ``precision`` by class; nothing without labels."""
        if not self.classes:
            return {}
        counted = (self._members @ weights).astype(np.float64)
        support, right, predicted = counted.reshape(3, self.classes, -1)
        return metrics_with_classes(right, predicted, support)

    @classmethod
    def joined(cls, parts: Sequence[ClassTallies]) -> ClassTallies:
        """Join those of different images, in the order given."""
        labels, predicted = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("labels", "predicted")
        )
        return replace(parts[0], labels=labels, predicted=predicted)
