"""Two arrays of one layer → `LayerDrift`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.record.study_documents import LayerDrift

if TYPE_CHECKING:
    from alignkit.studies.bisect import Values
    from alignkit.studies.bisect.graph import Layer

_ZERO = "the reference is zero everywhere: nothing to relate to"


def drift_of(layer: Layer, left: Values, right: Values, tolerance: float) -> LayerDrift:
    """Compare reference and candidate; values that are not finite are counted and left out.

    Values that are finite on one side only, and outputs of two shapes, exceed any tolerance.
    """
    if left.shape != right.shape:
        shapes = " against ".join("x".join(map(str, each.shape)) for each in (left, right))
        return LayerDrift(
            **layer.facts(), shape=left.shape, exceeds_tolerance=True, reason=f"shapes {shapes}"
        )
    finite = np.isfinite(left) & np.isfinite(right)
    lost = int(finite.size - finite.sum())
    differ = not np.array_equal(left[~finite], right[~finite], equal_nan=True)
    facts = {**layer.facts(), "shape": left.shape, "non_finite": lost}
    if not finite.any():
        reason = "no value is finite on both sides" if finite.size else "the layer gives no values"
        return LayerDrift(**facts, exceeds_tolerance=differ, reason=reason)
    change, scale = _change(left, right, finite)
    greatest = float(change.max())
    relative = greatest / scale if scale else None
    return LayerDrift(
        **facts,
        max_abs=greatest,
        mean_abs=float(change.mean()),
        relative=relative,
        exceeds_tolerance=differ or (greatest > 0 if relative is None else relative > tolerance),
        reason="" if scale else _ZERO,
    )


def isolated_error(left: Values, isolated: Values) -> dict[str, Any]:
    """Compare the isolated layer with the reference; return fields of a `LayerDrift`."""
    if left.shape != isolated.shape:
        return {"isolated_reason": f"alone it gives {'x'.join(map(str, isolated.shape))}"}
    finite = np.isfinite(left) & np.isfinite(isolated)
    if not np.array_equal(left[~finite], isolated[~finite], equal_nan=True):
        return {"isolated_reason": "alone it gives values that are not finite"}
    if not finite.any():
        return {"isolated_reason": "no value is finite on both sides"}
    change, scale = _change(left, isolated, finite)
    greatest = float(change.max())
    return {
        "isolated_max_abs": greatest,
        "isolated_relative": greatest / scale if scale else None,
        "isolated_reason": "" if scale else _ZERO,
    }


def _change(left: Values, right: Values, finite: Any) -> tuple[Any, float]:
    """Return |Δ| of the finite values, and the reference's greatest absolute value."""
    before = left[finite].astype(np.float64)
    return np.abs(right[finite].astype(np.float64) - before), float(np.abs(before).max())
