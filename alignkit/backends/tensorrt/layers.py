"""Which types an engine's layers compute in, from the JSON of TensorRT's engine inspector.

Its tensors say so in ``Format/Datatype`` in TensorRT 10, e.g. ``Half`` or ``Channel major FP16
format where channel % 8 == 0``, and in ``DataType``, e.g. ``Half``, in 11.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.backends import Precision

KINDS = {
    "float": "float32", "fp32": "float32", "half": "float16", "fp16": "float16",
    "bfloat16": "bfloat16", "bf16": "bfloat16", "int8": "int8", "fp8": "float8",
    "int32": "", "int64": "", "bool": "", "uint8": "",
}  # fmt: skip
"""A word of the inspector's → the type it names; empty for those that no network computes in."""
WANTED = {"fp32": "float32", "tf32": "float32", "fp16": "float16"}
MOVES = frozenset(
    {"Reformat", "NoOp", "Constant", "Shuffle", "ShapeHostToDevice", "Signal", "Wait"}
)
"""Layers that copy or convert: what they write is no arithmetic."""


def layers_by_type(information: str) -> dict[str, Counter[str]]:
    """Type → the kinds of layers that read it, and how many; ``information`` is an engine's JSON.

    Raises `BackendError` if the engine was built without details or a type is unknown: a precision
    that cannot be read is not a precision that was verified.
    """
    found: dict[str, Counter[str]] = {}
    for layer in json.loads(information)["Layers"]:
        if not isinstance(layer, dict):
            raise BackendError("TensorRT's inspector gives names alone; nothing says the precision")
        if layer["LayerType"] in MOVES:
            continue
        kinds = {_kind(tensor) for tensor in layer["Inputs"]} - {""}
        for kind in kinds:
            found.setdefault(kind, Counter())[layer["LayerType"]] += 1
    return found


def require(precision: Precision, layers: dict[str, Counter[str]]) -> None:
    """Raise `BackendError` unless layers compute in the precision, and none in a narrower one."""
    wanted = WANTED[precision]
    if wanted not in layers:
        kinds = ", ".join(sorted(layers)) or "nothing"
        raise BackendError(f"tensorrt {precision}: no layer computes in {wanted}, but in {kinds}")
    if others := sorted(layers.keys() - {wanted, "float32"}):
        raise BackendError(f"tensorrt {precision}: layers compute in {', '.join(others)}")


def facts_of(layers: dict[str, Counter[str]]) -> dict[str, str]:
    """For a report: how many layers compute in each type, and which."""
    return {
        f"{kind} layers": f"{names.total()}: {', '.join(sorted(names))}"
        for kind, names in sorted(layers.items())
    }


def _kind(tensor: dict[str, Any]) -> str:
    told = str(tensor.get("DataType") or tensor.get("Format/Datatype", ""))
    for word in re.findall(r"\w+", told.lower()):
        if word in KINDS:
            return KINDS[word]
    raise BackendError(f"TensorRT's inspector names the type {told!r}, which alignkit cannot read")
