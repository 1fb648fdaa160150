"""Scale of a classifier's rows of scores, by all of them: logits, or shares that add up to one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import reduce

import numpy as np

from alignkit.arrays import FloatArray, Logits
from alignkit.record.stored import STRICT, Count, Real
from alignkit.task_facts import OutputScale
from alignkit.text.numbers import significant

TOPS: dict[OutputScale, float] = {"probabilities": 1.0, "percent": 100.0, "levels": 255.0}
"""Scale → the score of a probability of 1."""
SUM_ROUNDING = 1e-3
"""Greatest distance of a float16 probability from 0..1; ten times that is one of a sum from 1."""
_FEWEST = 16
"""Scores of rows that differ, of which sums apart from 1 are no accident."""
_NO_LOGIT = 20
"""Score without a sigmoid apart from 1: where none is below 0, no score of 16 is a logit."""
_ROWS = 4096  # at a time: bounds the copies in float64
_ADVICE = "if the greatest is the class, '{name: classification, scores: as-is}'"


@dataclass(frozen=True, slots=True)
class ScoreRows:
    """Finite rows of one side, of which the least and the greatest of each number are kept."""

    __pydantic_config__ = STRICT

    rows: Count
    outputs: Count
    scores: tuple[Real, Real]
    sums: tuple[Real, Real]
    """Of each row."""
    lengths: tuple[Real, Real]
    """Of each row as a vector."""

    @classmethod
    def of(cls, logits: Logits) -> ScoreRows:
        """Describe (n, outputs); rows that are not finite are left out."""
        whole = cls(0, logits.shape[1], *[(0.0, 0.0)] * 3)
        for start in range(0, len(logits), _ROWS):
            part = logits[start : start + _ROWS]
            found = part[np.isfinite(part).all(axis=1)].astype(np.float64)
            numbers = (found, found.sum(axis=1), np.linalg.norm(found, axis=1))
            whole = whole.plus(cls(len(found), found.shape[1], *map(_ends, numbers)))
        return whole

    def plus(self, other: ScoreRows) -> ScoreRows:
        """Add the rows of other images, or of another side."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        pairs = (zip(*(getattr(each, one.name) for each in (self, other)), strict=True)
                 for one in fields(self)[2:])  # fmt: skip
        ends = ((min(low), max(high)) for low, high in pairs)
        return ScoreRows(self.rows + other.rows, self.outputs, *ends)

    def are_shares(self, top: float) -> bool:
        """Tell whether every score is from 0 to ``top``, up to rounding."""
        return -SUM_ROUNDING * top <= self.scores[0] and self.scores[1] <= (1 + SUM_ROUNDING) * top

    def apart(self, top: float) -> float | None:
        """Return the sum that is farthest from ``top``; ``None`` if all rows add up to it."""
        far = max(self.sums, key=lambda each: abs(each / top - 1))
        return far if abs(far / top - 1) > 10 * SUM_ROUNDING else None

    @property
    def scale(self) -> OutputScale:
        """Scale of the rows: shares if all add up to one, else logits."""
        if self.rows and self.outputs > 1:
            for name, top in TOPS.items():
                if self.are_shares(top) and self.apart(top) is None:
                    return name
        return "logits"

    def misread(self, all_sides: ScoreRows) -> str:
        """Say why the greatest score of these rows is no class; empty if it may be.

        A score of any side may show that they are logits. This side alone tells the sums, as a
        lower precision has others.
        """
        if self.outputs < 2 or not self.rows:
            return ""
        top = TOPS["percent" if all_sides.scores[1] > _NO_LOGIT else "probabilities"]
        # rows that are all alike are no answer, whatever they add up to
        alike = self.sums[0] == self.sums[1] and self.lengths[0] == self.lengths[1]
        judged = self.rows * self.outputs >= _FEWEST and not alike and all_sides.are_shares(top)
        if judged and (total := self.apart(top)) is not None:
            return (
                f"its scores all lie from 0 to {top:g} and an image's add up to "
                f"{significant(total)}: they are no classes that exclude each other; write the "
                f"task multi-label, '{{name: multi-label, scores: as-is}}', or, {_ADVICE}"
            )
        directions = all(abs(each - 1) < SUM_ROUNDING for each in self.lengths)
        if self.rows > 3 and self.scores[0] < 0 and directions:
            return (
                "each row of its output has the length 1, as an embedding has, and no scores; "
                f"write the task embedding, or, {_ADVICE}"
            )
        return ""


def added_rows(parts: Iterable[ScoreRows]) -> ScoreRows:
    """Add up the rows of several images, or sides."""
    return reduce(ScoreRows.plus, parts)


def _ends(values: FloatArray) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
