"""The document of `alignkit tolerance`: how much change of outputs and of pixels models bear.

``limit`` is the greatest size of a difference at which, with 95 % confidence, at most the budgeted
share of answers changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alignkit.record.path_facts import PathFacts
from alignkit.record.stored import STRICT, Command, Count, Placed, Real, Stored
from alignkit.task_facts import TaskFacts

MOST_FACTOR = 3.0
"""Greatest multiple of a pixel difference that is looked at."""
MOST_CHECKED = 2.0
"""Greatest multiple at which a network is run; beyond it a line is continued."""
CurveSource = Literal[
    "line, checked", "line, not checked", "line to 1, measured beyond", "measured points"
]
"""Where a curve comes from: the outputs on a line between the two paths', or, where the network
contradicts the line, the network's own points alone."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The greatest difference within the budget, by one model's images."""

    __pydantic_config__ = STRICT

    value: Real | None
    """Below it at most ``changed`` images change their answer."""
    changed: Count | None
    """The most images of the sample that may change within the budget."""
    bound: Real | None
    """One-sided 95 % upper bound of the share of answers that change, at most the budget."""
    more: bool = False
    """Whether greater differences, which were not looked at, are within the budget too."""
    reason: str = ""
    """Why there is no value."""


class SeedLimit(Stored):
    """The limit of |Δ output| of one seed's model."""

    seed: int
    images: Count
    non_finite: Count
    """Images with an output that is not finite; with NaN they bear no change."""
    limit: Limit


class CellReach(Placed):
    """How far a cell's outputs are from those of its row's aligned cell, joined over seeds."""

    simulation: str = ""
    """How its numbers were simulated; empty if a runtime computed them."""
    images: Count = 0
    """Images that both decoded, times seeds."""
    max_abs: Real | None = None
    """Greatest |Δ output|; ``None`` if an output is not finite."""
    beyond: Count | None = None
    """Images whose greatest |Δ output| exceeds ``atol``; ``None`` without it."""
    could_change: Count = 0
    """Images whose greatest |Δ output| is not below what their answer bears for certain."""
    changed: Count = 0
    """Images whose answer is another one: never more than ``could_change``."""
    reason: str = ""
    """Why it was not compared."""


class LogitTolerance(Placed):
    """How much |Δ output| a row's models bear in its aligned cell, whose place this is."""

    atol: Real | None
    """The least limit of the seeds, rounded down to three digits."""
    seeds: tuple[SeedLimit, ...]
    cells: tuple[CellReach, ...]
    """The row's other cells that ran."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Answers that change at a multiple of the pixel difference."""

    __pydantic_config__ = STRICT

    factor: Real
    """0 is the reference path, 1 the candidate."""
    images: Count
    changed: Count
    low: Real
    """95 % interval of the share that changes (Clopper-Pearson), for this point alone."""
    high: Real
    worse: Count | None
    """``None`` without labels, as ``better``."""
    better: Count | None
    metrics: dict[str, Real]
    """Changes of the task's metrics that have a matrix, where both sides define them."""


@dataclass(frozen=True, slots=True)
class LineCheck:
    """Answers predicted at a multiple of the difference, and those of the network run there."""

    __pydantic_config__ = STRICT

    factor: Real
    images: Count
    predicted: Count
    """Images that change by the line."""
    measured: Count
    """Images that change by the network."""
    only_predicted: Count
    only_measured: Count
    p: Real
    """Exact two-sided p-value of McNemar's test that both are equally many, adjusted (Holm) for the
    factors of the curve."""


class SeedCurve(Stored):
    """The curve of one seed's model along the difference of two paths."""

    seed: int
    images: Count
    source: CurveSource
    limit: Limit
    points: tuple[CurvePoint, ...]
    checks: tuple[LineCheck, ...] = ()
    reason: str = ""
    """Why the line was not checked."""


def least_value(limits: Sequence[Limit]) -> float | None:
    """Return the least of the seeds' limits; ``None`` if one of them has none."""
    known = [each.value for each in limits if each.value is not None]
    return min(known) if known and len(known) == len(limits) else None


def is_open(limits: Sequence[Limit]) -> bool:
    """Return whether the least of some limits is one beyond which nothing was looked at."""
    known = [(each.value, each.more) for each in limits if each.value is not None]
    # of equal limits one that was found decides: False comes before True
    return min(known)[1] if known else False


class PixelTolerance(Stored):
    """How much of the difference of two paths the models of a row bear, in the row's runtime."""

    trained_with: str
    backend: str
    precision: str
    reference: str
    """The path that the row's aligned cell was evaluated with."""
    candidate: str
    mean_abs: Real | None
    """Mean |Δ| of the two paths' last pixels, grey levels: from the run's comparison or, if it has
    none, of the images on which the line is checked."""
    factor: Real | None
    """The least limit of the seeds, as a multiple of the difference."""
    levels: Real | None
    """``factor`` times ``mean_abs``."""
    seeds: tuple[SeedCurve, ...]
    reason: str = ""
    """Why all seeds, or the size of the difference, are missing."""

    @property
    def open_end(self) -> bool:
        """Whether ``factor`` is a lower bound: no seed's limit was found there."""
        return is_open([each.limit for each in self.seeds])


class ToleranceDocument(Stored):
    """Everything that `alignkit tolerance` found in a run."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    kind: Literal["tolerance"] = "tolerance"
    alignkit: str
    """Version that wrote it."""
    command: Command
    name: str
    """The experiment's."""
    key: str
    """The run's."""
    cpu: str
    """Processor on which the run predicted."""
    checked_on: str
    """Processor on which the network was run between the two paths; empty if it was not."""
    quick: tuple[str, ...] = ()
    images: Count = 0
    """Evaluation images of the run."""
    copies: Count = 0
    """Of these, images with the pixels of another; equal ones count once."""
    task: TaskFacts
    paths: tuple[PathFacts, ...]
    budget: Real
    """Greatest share of answers that may change."""
    confidence: Real = 0.95
    logits: tuple[LogitTolerance, ...]
    pixels: tuple[PixelTolerance, ...]
