"""What OpenVINO's CPU plugin can compute in on this processor, and what a compiled model did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.backends import Precision

HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""int8 is in the graph; the hint is for what it leaves in floating point."""
INTEGERS = frozenset({"i8", "u8"})
NEEDS = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16"}),
}
"""Precision → the processor's flags, one of which OpenVINO needs for it."""
WEIGHTED = ("Convolution", "FullyConnected", "MatMul", "GroupConvolution")
"""Layers that multiply by weights: what a precision is judged by."""


def executed_layers(compiled: Any) -> dict[str, Counter[str]]:
    """Type → the layers with weights that compute in it, from the runtime's own graph."""
    found: dict[str, Counter[str]] = {}
    for operator in compiled.get_runtime_model().get_ops():
        facts = operator.get_rt_info()
        if facts["layerType"].value in WEIGHTED:
            kind = facts["runtimePrecision"].value
            found.setdefault(kind, Counter())[facts["layerType"].value] += 1
    return found


def require(precision: Precision, chosen: str, layers: dict[str, Counter[str]]) -> None:
    """Raise `BackendError` unless the plugin and every layer with weights keep the precision."""
    wanted = HINTS[precision]
    if chosen != wanted:
        raise BackendError(
            f"openvino {precision}: this CPU's plugin chose {chosen} in its place; ask for "
            "fp32 or bf16, or run where the CPU has the instructions"
        )
    if precision == "int8":
        if not layers.keys() & INTEGERS:
            raise BackendError("openvino int8: no layer with weights computes in integers")
        layers = {kind: names for kind, names in layers.items() if kind not in INTEGERS}
    if others := sorted(layers.keys() - {wanted}):
        raise BackendError(f"openvino {precision}: layers compute in {', '.join(others)}")
