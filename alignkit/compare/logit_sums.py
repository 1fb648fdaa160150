"""Distances of logits: of all at once with exact quantiles, or sums that are added lot by lot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray, Logits
from alignkit.compare.metrics import top_classes
from alignkit.record import LogitDistance
from alignkit.record.stored import STRICT, Count, Real

_TOLERANCES = (1e-5, 1e-3, 1e-2)
"""Limits of |Δ logit| for which samples inside are counted."""
TOP = 5
NONE_FINITE = "no sample has finite outputs on both sides"
_TOP = (1, TOP)
QUANTILES = (0.5, 0.99, 0.999)
_ROWS = 4096  # of logits at a time: bounds the float64 copies at 1,000 classes to some 100 MB


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
