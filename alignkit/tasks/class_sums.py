"""`ClassSums`: counts by class of each image, from which ratios follow under weights of images.

An image adds a pixel, a label or a box to its classes. Counts stay integers, and products with
weights are taken in float64, so that a sum below 2⁵³ is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weights
from alignkit.compare.metrics import ClassCountArrays, averages, ratio
from alignkit.compare.parquet_file import numbers_of
from alignkit.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class ClassSums:
    """Counts (images, classes), int64 each."""

    true_positive: Labels
    predicted: Labels
    """True and false positives."""
    support: Labels
    """True positives and false negatives."""

    def __len__(self) -> int:
        return len(self.support)

    def rows(self, indices: Labels) -> ClassSums:
        """Select the images at ``indices``, in that order."""
        return ClassSums(
            self.true_positive[indices], self.predicted[indices], self.support[indices]
        )

    def counts(self) -> ClassCountArrays:
        """Add up the images."""
        sums = (self.true_positive, self.predicted, self.support)
        return ClassCountArrays(*(tuple(each.sum(axis=0).tolist()) for each in sums))

    def weighted(self, weights: Weights) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Add up the images by weight, (images, draws): three times (classes, draws)."""
        drawn = weights.astype(np.float64)
        first, second, third = (
            each.T.astype(np.float64) @ drawn
            for each in (self.true_positive, self.predicted, self.support)
        )
        return first, second, third

    def picked(self, images: Labels) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return those of some images, (classes, images) each."""
        first, second, third = (
            each[images].T.astype(np.float64)
            for each in (self.true_positive, self.predicted, self.support)
        )
        return first, second, third

    def differing(self, other: ClassSums) -> Labels:
        """Find the images whose counts are others there."""
        moved = (self.true_positive != other.true_positive) | (self.predicted != other.predicted)
        return np.flatnonzero(moved.any(axis=1))

    @classmethod
    def joined(cls, parts: Sequence[ClassSums]) -> ClassSums:
        """Join those of different images, in the order given."""
        return cls(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls))
        )

    def columns(self) -> dict[str, Labels]:
        """Return the columns of a table, (images,) each: ``true_positive_0``, …"""
        return {
            f"{each.name}_{index}": column
            for each in fields(self)
            for index, column in enumerate(getattr(self, each.name).T)
        }

    @classmethod
    def from_table(cls, table: Any, classes: int, path: Path) -> ClassSums:
        """Read ``columns`` of a `pyarrow.Table`; raise `DataError` for other ones."""
        found = []
        for each in fields(cls):
            sums = np.zeros((table.num_rows, classes), np.int64)
            for index in range(classes):
                column = numbers_of(table, f"{each.name}_{index}", path)
                if column.dtype != np.int64 or (column < 0).any():
                    raise DataError(f"{path}: {each.name}_{index} is no column of counts")
                sums[:, index] = column
            found.append(sums)
        return cls(*found)


def class_ratios(
    true_positive: FloatArray,
    predicted: FloatArray,
    support: FloatArray,
    names: Collection[str],
) -> dict[str, FloatArray]:
    """Compute the ratios among ``names`` of counts (classes, draws).

    These are the averages of `alignkit.compare.metrics.METRICS`, (draws,) each, and by class
    ``recall``, ``precision`` and ``iou``, (classes, draws) each. NaN where undefined.
    """
    union = predicted + support - true_positive
    found = averages(true_positive, predicted, support) | {
        "recall": ratio(true_positive, support),
        "precision": ratio(true_positive, predicted),
        "iou": ratio(true_positive, union),
    }
    return {name: value for name, value in found.items() if name in names}


def mean_of_defined(by_class: FloatArray) -> FloatArray:
    """Average (classes, draws) over the classes that define a draw; NaN where none does."""
    defined = ~np.isnan(by_class)
    total: FloatArray = np.where(defined, by_class, 0.0).sum(axis=0)
    return ratio(total, defined.sum(axis=0).astype(np.float64))
