"""Drift against the size of the training set: whether little data makes a model more fragile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alignkit.errors import NothingCompared
from alignkit.record import Estimate, MatrixEntry, RunRecord

DriftMetric = Literal["churn", "top1", "recall.macro", "precision.macro"]


@dataclass(frozen=True, slots=True)
class Point:
    """The drift of models trained on so many images."""

    training_images: int
    seeds: int
    drift: Estimate
    run: str
    """Content hash of the run it is from."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One entry of the matrix over several training sets."""

    metric: DriftMetric
    trained_with: str
    evaluated_with: str
    backend: str
    precision: str
    points: tuple[Point, ...]
    """By growing training set."""

    @property
    def apart(self) -> bool:
        """Whether the intervals of the smallest and the largest set do not touch."""
        first, last = self.points[0].drift, self.points[-1].drift
        if None in (first.low, first.high, last.low, last.high):
            return False
        return first.low > last.high or first.high < last.low  # type: ignore[operator]

    def sentence(self) -> str:
        """The two ends in words, and whether they are told apart."""
        first, last = self.points[0], self.points[-1]
        verdict = "" if self.apart else "; their intervals overlap, so this shows no amplification"
        return (
            f"{self.metric} of models trained with {self.trained_with} and served with "
            f"{self.evaluated_with}: {_percent(first.drift)} after {first.training_images} "
            f"training images, {_percent(last.drift)} after {last.training_images}{verdict}"
        )


def _percent(drift: Estimate) -> str:
    if drift.value is None:
        return f"not measured ({drift.reason})"
    text = f"{100 * drift.value:.1f} %"
    if drift.low is None or drift.high is None:
        return text
    return f"{text} [{100 * drift.low:.1f}, {100 * drift.high:.1f}]"


def amplification(records: Sequence[RunRecord], metric: DriftMetric = "churn") -> tuple[Curve, ...]:
    """A curve for each matrix entry that runs with different training sets share.

    Entries belong together by the names of paths and runtime. Raises `NothingCompared` if fewer
    than two sizes of training set were measured for every entry.
    """
    found: dict[tuple[str, str, str, str], dict[int, Point]] = {}
    for record in records:
        size = max((training.images for training in record.trainings), default=0)
        for entry in record.matrix:
            drift = _drift(entry, metric)
            if drift is not None and drift.value is not None:
                key = (entry.trained_with, entry.evaluated_with, entry.backend, entry.precision)
                point = Point(size, len(entry.seeds), drift, record.key)
                found.setdefault(key, {})[size] = point
    curves = tuple(
        Curve(metric, *key, tuple(points[size] for size in sorted(points)))
        for key, points in found.items()
        if len(points) > 1
    )
    if not curves:
        raise NothingCompared(
            "no entry was measured with two sizes of training set; run the experiment again with "
            "another data.train"
        )
    return curves


def _drift(entry: MatrixEntry, metric: DriftMetric) -> Estimate | None:
    if entry.drift is None:
        return None
    return entry.drift.churn if metric == "churn" else entry.drift.metrics.get(metric)
