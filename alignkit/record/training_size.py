"""What is stored of drift against the size of the training set."""

from __future__ import annotations

from typing import Literal

from alignkit.record.place import Placed
from alignkit.record.stored import Count, Estimate, Stored

DriftMetric = Literal["churn", "recall.macro", "precision.macro"]


class SizePoint(Stored):
    """The drift of models trained on so many images."""

    fraction: float
    images: Count
    seeds: Count
    drift: Estimate
    """The matrix entry's own."""


class SizeCurve(Placed):
    """One entry of the matrix over the shares of the training images; its row has all of them."""

    metric: DriftMetric
    points: tuple[SizePoint, ...]
    """By growing training set, two or more."""
    change: Estimate
    """Drift with the fewest images less that with the most, paired by seed and image."""
