"""Rows of scores: their scale, and distances of logits.

Distances are of all at once with exact quantiles, or sums that are added lot by lot. All rows of a
classifier together show its scale: logits, or shares that add up to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray, Logits
from alignkit.compare.metrics import top_classes
from alignkit.record import LogitDistance
from alignkit.record.stored import STRICT, Count, Real
from alignkit.task_facts import OutputScale
from alignkit.text.numbers import significant

_TOLERANCES = (1e-5, 1e-3, 1e-2)
"""Limits of |Δ logit| for which samples inside are counted."""
NONE_FINITE = "no sample has finite outputs on both sides"
_TOP = (1, 5)
QUANTILES = (0.5, 0.99, 0.999)
_ROWS = 4096  # of logits at a time: bounds the float64 copies at 1,000 classes to some 100 MB
TOPS: dict[OutputScale, float] = {"probabilities": 1.0, "percent": 100.0, "levels": 255.0}
"""Scale → the score of a probability of 1."""
SUM_ROUNDING = 1e-3
"""Greatest distance of a float16 probability from 0..1; ten times that is one of a sum from 1."""
_FEWEST = 16
"""Scores of rows that differ, of which sums apart from 1 are no accident."""
_NO_LOGIT = 20
"""Score without a sigmoid apart from 1: where none is below 0, no score of 16 is a logit."""
_ADVICE = "if the greatest is the class, '{name: classification, scores: as-is}'"


@dataclass(frozen=True, slots=True)
class LogitSums:
    """Sums and counts over samples whose logits are finite on both sides, without quantiles."""

    __pydantic_config__ = STRICT

    compared: Count
    values: Count
    """Samples times outputs of the model."""
    max_abs: Real
    """In float32, as the quantiles are."""
    absolute: Real
    similar: Real
    """Sum of cosines."""
    directed: Count
    """Samples whose logits are not all zero."""
    inside: tuple[Count, ...]
    same_top: tuple[Count, ...]
    """Samples with the same 1, and the same 5, greatest classes; of k less than the classes."""

    @classmethod
    def of(cls, left: FloatArray, right: FloatArray) -> LogitSums:
        """Compare (samples, outputs) finite logits; there may be no sample."""
        distance = np.abs(right - left)
        greatest = distance.max(axis=1, initial=0)
        cosines = _cosines(left, right)
        return cls(
            compared=len(left),
            values=left.size,
            max_abs=float(greatest.max(initial=0).astype(np.float32)),
            absolute=float(distance.sum()),
            similar=float(cosines.sum()),
            directed=len(cosines),
            inside=tuple(int((greatest <= tolerance).sum()) for tolerance in _TOLERANCES),
            same_top=tuple(
                int((top_classes(left, k) == top_classes(right, k)).all(axis=1).sum())
                for k in _TOP
                if k < left.shape[1]
            ),
        )

    def plus(self, other: LogitSums) -> LogitSums:
        """Add the sums of samples that come later."""
        added: dict[str, Any] = {}
        for name in (each.name for each in fields(self)):
            own, more = getattr(self, name), getattr(other, name)
            pairs = isinstance(own, tuple) and zip(own, more, strict=True)
            added[name] = tuple(a + b for a, b in pairs) if pairs else own + more
        return LogitSums(**added | {"max_abs": max(self.max_abs, other.max_abs)})

    @property
    def mean_abs(self) -> float | None:
        """Mean |Δ logit|; ``None`` without a sample."""
        return self.absolute / self.values if self.values else None

    def distance(self, quantiles: tuple[float, ...]) -> LogitDistance:
        """Describe the distance, with these `QUANTILES`, none without a sample."""
        if not self.compared:
            return LogitDistance(None, None, None, NONE_FINITE)
        p50, p99, p99_9 = quantiles
        return LogitDistance(
            max_abs=self.max_abs,
            mean_abs=self.mean_abs,
            cosine=self.similar / self.directed if self.directed else None,
            compared=self.compared,
            reason=""
            if self.directed
            else "the outputs of every sample are zero: no direction to compare",
            p50=p50,
            p99=p99,
            p99_9=p99_9,
            inside={f"{each:.0e}": n for each, n in zip(_TOLERANCES, self.inside, strict=True)},
            same_top={str(k): n for k, n in zip(_TOP, self.same_top, strict=False)},
        )


def logit_distance(reference: Logits, candidate: Logits) -> LogitDistance:
    """Compare two (samples, classes) arrays; sums are kept in float64, quantiles in float32.

    Samples with a NaN or infinite logit on either side are left out.
    """
    # all are kept for the quantiles, in half the memory of float64
    distances = np.empty(reference.shape, np.float32)
    sums = LogitSums.of(*np.empty((2, 0, reference.shape[1])))
    for left, right in _finite_blocks(reference, candidate):
        distances[sums.compared : sums.compared + len(left)] = np.abs(right - left)
        sums = sums.plus(LogitSums.of(left, right))
    known = distances[: sums.compared]
    # in place: the array is large and not used again
    found = np.quantile(known, QUANTILES, overwrite_input=True).tolist() if len(known) else []
    return sums.distance(tuple(found))


def _finite_blocks(reference: Logits, candidate: Logits) -> Iterator[tuple[FloatArray, FloatArray]]:
    for start in range(0, len(reference), _ROWS):
        left, right = reference[start : start + _ROWS], candidate[start : start + _ROWS]
        finite = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
        yield left[finite].astype(np.float64), right[finite].astype(np.float64)


def _cosines(left: FloatArray, right: FloatArray) -> FloatArray:
    products = np.einsum("ij,ij->i", left, right)
    # one root of the product, not a product of roots: equal vectors then give exactly 1
    norms = np.sqrt(np.einsum("ij,ij->i", left, left) * np.einsum("ij,ij->i", right, right))
    cosines: FloatArray = products[norms > 0] / norms[norms > 0]
    return cosines


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
