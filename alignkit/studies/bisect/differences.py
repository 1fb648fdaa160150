"""Two arrays of one layer → its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.record.bisection import LayerDrift

if TYPE_CHECKING:
    from alignkit.studies.bisect import Values
    from alignkit.studies.bisect.graph import Layer

ZERO = "the reference is zero everywhere: nothing to relate to"


def drift_of(layer: Layer, left: Values, right: Values, tolerance: float) -> LayerDrift:
    """Reference and candidate; where either is not finite is counted and left out.

    Values that are not finite on one side only, and outputs of two shapes, are past any tolerance.
    """
    if left.shape != right.shape:
        shapes = " against ".join("x".join(map(str, each.shape)) for each in (left, right))
        return LayerDrift(**layer.facts(), shape=left.shape, past=True, reason=f"shapes {shapes}")
    finite = np.isfinite(left) & np.isfinite(right)
    lost = int(finite.size - finite.sum())
    differ = not np.array_equal(left[~finite], right[~finite], equal_nan=True)
    facts = {**layer.facts(), "shape": left.shape, "non_finite": lost}
    if not finite.any():
        reason = "no value is finite on both sides" if finite.size else "the layer gives no values"
        return LayerDrift(**facts, past=differ, reason=reason)
    change, scale = _change(left, right, finite)
    greatest = float(change.max())
    relative = greatest / scale if scale else None
    return LayerDrift(
        **facts,
        max_abs=greatest,
        mean_abs=float(change.mean()),
        relative=relative,
        past=differ or (greatest > 0 if relative is None else relative > tolerance),
        reason="" if scale else ZERO,
    )


def own_error(left: Values, alone: Values) -> dict[str, Any]:
    """What the layer alone does, fed the reference's activations; as fields of a `LayerDrift`."""
    if left.shape != alone.shape:
        return {"own_reason": f"alone it gives {'x'.join(map(str, alone.shape))}"}
    finite = np.isfinite(left) & np.isfinite(alone)
    if not np.array_equal(left[~finite], alone[~finite], equal_nan=True):
        return {"own_reason": "alone it gives values that are not finite"}
    if not finite.any():
        return {"own_reason": "no value is finite on both sides"}
    change, scale = _change(left, alone, finite)
    greatest = float(change.max())
    return {
        "own_max_abs": greatest,
        "own_relative": greatest / scale if scale else None,
        "own_reason": "" if scale else ZERO,
    }


def _change(left: Values, right: Values, finite: Any) -> tuple[Any, float]:
    """|Δ| of the finite values, and the greatest of the reference's."""
    before = left[finite].astype(np.float64)
    return np.abs(right[finite].astype(np.float64) - before), float(np.abs(before).max())
