"""Answers that thresholds and comparisons of the outputs decide: how much change they bear.

Such an answer changes exactly where a *lead* falls below 0: half the class's logit less that of a
rival, or the distance of a score from its threshold. A lead is linear in the outputs and changes by
at most the greatest |Δ output|. Hence, without an assumption on the model or the difference, an
answer whose least lead exceeds the greatest |Δ output| is the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Self, TypeVar

import numpy as np

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.answers import Answers

_ROWS = 2048  # at a time: the leads of 1,000 classes take 16 MB


class LinearAnswers(Answers):
    """Answers that are known by the signs of linear functions of the model's outputs."""

    @abstractmethod
    def leads(self, other: Self) -> FloatArray:
        """Compute in the outputs of ``other`` by how much they keep this answer, (n, rivals).

        Below 0 the answer is another one. No change of all outputs by at most e lowers a lead by
        more than e. Infinite where a rival can never win; NaN where an output is.
        """

    @abstractmethod
    def toward(self, other: Self, share: float) -> Self:
        """Return the answers of the outputs ``own + share · (other - own)``."""


_Linear = TypeVar("_Linear", bound=LinearAnswers)


def between(own: Logits, other: Logits, share: float) -> Logits:
    """Mix outputs in float64, and round to float32: exactly ``own`` at 0 and ``other`` at 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        ends = own.astype(np.float64), other.astype(np.float64)
        mixed: Logits = ((1 - share) * ends[0] + share * ends[1]).astype(np.float32)
    return mixed


def greatest_safe_changes(answers: LinearAnswers) -> FloatArray:
    """Compute for each image, (n,), the e ≥ 0 such that outputs changed by less keep its answer.

    0 where an output is NaN, infinite where no finite change can change the answer.
    """
    found = np.zeros(len(answers))
    for rows, (own,) in _parts(answers):
        least = own.leads(own).min(axis=1, initial=np.inf)
        found[rows] = np.where(np.isnan(least), 0.0, np.maximum(least, 0.0))
    return found


def turning_points(reference: _Linear, candidate: _Linear) -> FloatArray:
    """Compute where each answer, (n,), changes on the line reference + t · (candidate - reference).

    The outputs are taken as linear in t, so that an answer which changed stays changed; infinite if
    it never changes for t > 0. 0 where an output of either side is NaN. Both are of the same
    images in the same order.
    """
    found = np.zeros(len(reference))
    for rows, (start, end) in _parts(reference, candidate):
        before, after = start.leads(start), start.leads(end)
        unreachable = np.isposinf(before) & np.isposinf(after)
        with np.errstate(invalid="ignore", divide="ignore"):
            falls = before - after
            at = np.where(falls > 0, np.maximum(before, 0.0) / falls, np.inf)
        at[np.isnan(falls) | np.isnan(at)] = 0.0
        at[unreachable] = np.inf
        found[rows] = at.min(axis=1, initial=np.inf)
    return found


def greatest_changes(reference: Answers, candidate: Answers) -> FloatArray:
    """Compute each image's greatest |Δ output|, (n,); infinite where one is not finite."""
    before, after = reference.raw_rows(), candidate.raw_rows()
    assert before is not None, "linear answers keep the model's outputs"
    assert after is not None, "they are of one task"
    found = np.zeros(len(before))
    for start in range(0, len(before), _ROWS):
        part = slice(start, start + _ROWS)
        with np.errstate(invalid="ignore"):
            change = np.abs(after[part].astype(np.float64) - before[part]).max(axis=1)
        found[part] = np.where(np.isnan(change), np.inf, change)
    return found


def _parts(*sides: _Linear) -> Iterator[tuple[Labels, list[_Linear]]]:
    """Cut answers to the same images into parts whose leads fit into memory."""
    for start in range(0, len(sides[0]), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(sides[0])))
        yield rows, [each.rows(rows) for each in sides]
