"""The first layer at which two runtimes of one model differ: every layer's output compared.

A layer's output is read from the graph cut off behind it, so that everything before it is fused and
placed as in the whole graph; tapping all layers of one graph at once would prevent the very fusions
that may cause a difference. A difference there was either made by the layer or came in with its
inputs, so the candidate also runs the isolated layer on the reference's activations. One cut runs
at a time, on one side at a time; the reference's activations are kept on disk. `as_text` is the
result as a terminal shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any

import numpy as np

from alignkit.errors import BackendError, NothingCompared
from alignkit.record.study_documents import Bisection, LayerDrift
from alignkit.report.table import Table
from alignkit.studies.bisect.layer_graph import (
    Activations,
    Layer,
    Values,
    layers_of,
    outputs_of,
)
from alignkit.studies.bisect.layer_sides import ONNXSide, TorchSide
from alignkit.text.column import Fact
from alignkit.text.numbers import count, significant

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
    known = {each.tensor for each in layers}
    unmatched += [each.name for each in layers_of(candidate.graph) if each.tensor not in known]
    given = {each.tensor for each in compared if each.max_abs is not None}
    # outputs of two shapes have a reason too, but they are a finding
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
        outputs=tuple(each for each in outputs_of(candidate.graph) if each not in given),
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
        return LayerDrift(**asdict(layer), reason=str(error))
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
            **asdict(layer), shape=left.shape, exceeds_tolerance=True, reason=f"shapes {shapes}"
        )
    finite = np.isfinite(left) & np.isfinite(right)
    lost = int(finite.size - finite.sum())
    differ = not np.array_equal(left[~finite], right[~finite], equal_nan=True)
    facts = {**asdict(layer), "shape": left.shape, "non_finite": lost}
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
    # in float64, so that the subtraction adds no error of its own
    before = left[finite].astype(np.float64)
    return np.abs(right[finite].astype(np.float64) - before), float(np.abs(before).max())


_LAYERS: tuple[Fact[LayerDrift], ...] = (
    Fact("Layer", lambda each: f"{'>' if each.exceeds_tolerance else ' '} {each.name}"),
    Fact("Operator", attrgetter("operator")),
    Fact("Shape", lambda each: "x".join(map(str, each.shape))),
    Fact("Max |Δ|", attrgetter("max_abs"), "value", note=attrgetter("reason")),
    Fact("Mean |Δ|", attrgetter("mean_abs"), "value", note=attrgetter("reason")),
    Fact("Relative", attrgetter("relative"), "value", note=attrgetter("reason")),
    Fact("Alone", attrgetter("isolated_relative"), "value", note=attrgetter("isolated_reason")),
    Fact("Non-finite", attrgetter("non_finite"), "count"),
)


def as_text(found: Bisection) -> str:
    """Return the table of layers, and a sentence on the first that exceeds the tolerance."""
    sides = f"{found.reference} against {found.candidate}"
    head = f"{found.model}, {count(found.images, 'image')}: {sides}"
    lines = [head, "", *Table.made("", _LAYERS, found.layers).text(), ""]
    if found.unmatched:
        some = ", ".join(found.unmatched[:3]) + (", …" if len(found.unmatched) > 3 else "")
        lines.append(f"{count(len(found.unmatched), 'layer')} only one side has: {some}")
    return "\n".join([*lines, _sentence(found)])


def _sentence(found: Bisection) -> str:
    if found.first is None:
        compared = sum(each.max_abs is not None for each in found.layers)
        left = len(found.layers) - compared + len(found.unmatched)
        some = f"none of {compared} compared layers differs" if left else "no layer differs"
        said = f"{some} by more than {found.tolerance:g} of its greatest value"
        if not found.outputs:
            return said
        return (
            f"{said}; not compared, so that the answers may differ: the output "
            f"{', '.join(found.outputs)}. Name its tensor alike in both graphs"
        )
    first = next(each for each in found.layers if each.name == found.first)
    start = f"it starts at {first.name} ({first.operator}): {_difference(first)}"
    return f"{start} (tolerance {found.tolerance:g})\n{_blamed(first, found)}"


def _difference(first: LayerDrift) -> str:
    if first.max_abs is None or (first.non_finite and not first.relative):
        return first.reason or "values that are not finite"
    share = (
        "" if first.relative is None else f", {significant(first.relative)} of its greatest value"
    )
    lost = f", {count(first.non_finite, 'value')} not finite" if first.non_finite else ""
    return f"max |Δ| {significant(first.max_abs)}{share}{lost}"


def _blamed(first: LayerDrift, found: Bisection) -> str:
    """Say whether the layer or its inputs cause the difference."""
    if first.isolated_relative is None:
        return f"alone: {first.isolated_reason}" if first.isolated_reason else "alone: not measured"
    error = significant(first.isolated_relative)
    isolated = f"fed the reference's values, this layer alone differs by {error}"
    if first.isolated_relative > found.tolerance:
        return f"{isolated}: the layer itself is to blame"
    # the reader's next suspect where this layer is not to blame
    worst = max(found.layers, key=lambda each: each.isolated_relative or 0)
    most = f"; most alone: {worst.name}, {significant(worst.isolated_relative or 0)}"
    return (
        f"{isolated}: what came in, summed up over the layers before, or what the runtime fuses "
        f"with it is to blame{most}"
    )
