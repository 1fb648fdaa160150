"""The first layer at which two runtimes of one model differ: every layer's output compared.

A layer's output is read from the graph cut off behind it, so that everything before it is fused and
placed as in the whole graph; tapping all layers of one graph at once would prevent the very fusions
that may cause a difference. A difference there was either made by the layer or came in with its
inputs, so the candidate also runs the isolated layer on the reference's activations. One cut runs
at a time, on one side at a time; the reference's activations are kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import BackendError, NothingCompared
from alignkit.record.bisection import Bisection, LayerDrift
from alignkit.studies.bisect.layer_graph import Activations

if TYPE_CHECKING:
    from alignkit.studies.bisect.layer_graph import Layer, Values
    from alignkit.studies.bisect.layer_sides import ONNXSide, TorchSide

_ZERO = "the reference is zero everywhere: nothing to relate to"


def bisect(
    reference: TorchSide | ONNXSide,
    candidate: ONNXSide,
    layers: Sequence[Layer],
    *,
    model: str,
    images: int,
    tolerance: float,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Bisection:
    """Compare layer by layer and name the first that exceeds the tolerance.

    ``tolerance`` limits the relative difference. ``progress`` is called with (layers compared,
    layers). Raises `NothingCompared` if the sides have no layer in common.
    """
    compared, unmatched, held = [], [], Activations()
    for number, layer in enumerate(layers, 1):
        drift = _compared(reference, candidate, layer, held, tolerance)
        if drift is None:
            unmatched.append(layer.name)
        else:
            compared.append(drift)
        if progress:
            progress(number, len(layers))
    if all(each.reason and not each.exceeds_tolerance for each in compared):
        why = f": {compared[0].reason}" if compared else ""
        raise NothingCompared(
            f"{reference.name} and {candidate.name} have no layer to compare{why}"
        )
    return Bisection(
        model=model,
        reference=reference.name,
        candidate=candidate.name,
        images=images,
        tolerance=tolerance,
        first=next((each.name for each in compared if each.exceeds_tolerance), None),
        layers=tuple(compared),
        unmatched=tuple(unmatched),
        command=command,
    )


def _compared(
    reference: TorchSide | ONNXSide,
    candidate: ONNXSide,
    layer: Layer,
    held: Activations,
    tolerance: float,
) -> LayerDrift | None:
    try:
        left, right = reference.values(layer), candidate.values(layer)
    except BackendError as error:
        return LayerDrift(**layer.facts(), reason=str(error))
    if left is None or right is None:
        return None
    drift = drift_of(layer, left, right, tolerance)
    try:
        isolated = candidate.isolated(layer, held)
    except BackendError as error:
        return drift.model_copy(update={"isolated_reason": str(error)})
    finally:
        # later layers are fed it, also where this one cannot run in isolation
        held.keep(layer.tensor, left)
    return drift.model_copy(update=isolated_error(left, isolated))


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
