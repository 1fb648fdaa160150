"""Types that an engine's layers compute in, from the JSON of TensorRT's engine inspector.

A tensor's type is in ``Format/Datatype`` in TensorRT 10, e.g. ``Half`` or ``Channel major FP16
format where channel % 8 == 0``, and in ``DataType``, e.g. ``Half``, in TensorRT 11.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.backends import Precision

_TYPES = {
    "float": "float32", "fp32": "float32", "half": "float16", "fp16": "float16",
    "bfloat16": "bfloat16", "bf16": "bfloat16", "int8": "int8", "fp8": "float8",
    "int32": "", "int64": "", "bool": "", "uint8": "",
}  # fmt: skip
"""The inspector's word → its type; empty for types that no network computes in."""
_TYPE_OF_PRECISION = {"fp32": "float32", "tf32": "float32", "fp16": "float16"}
_MOVES = frozenset(
    {"Reformat", "NoOp", "Constant", "Shuffle", "ShapeHostToDevice", "Signal", "Wait"}
)
"""Layers that copy or convert, so their types say nothing of the arithmetic."""


def layers_by_type(information: str) -> dict[str, Counter[str]]:
    """Count the kinds of layers that read each type; ``information`` is an engine's JSON.

    Raises `BackendError` if the engine was built without details or a type is unknown, because the
    precision is then not verified.
    """
    layers: dict[str, Counter[str]] = {}
    for layer in json.loads(information)["Layers"]:
        if not isinstance(layer, dict):
            raise BackendError("TensorRT's inspector gives names alone; nothing says the precision")
        if layer["LayerType"] in _MOVES:
            continue
        for kind in {_type_of(tensor) for tensor in layer["Inputs"]} - {""}:
            layers.setdefault(kind, Counter())[layer["LayerType"]] += 1
    return layers


def require(precision: Precision, layers: dict[str, Counter[str]]) -> None:
    """Raise `BackendError` unless layers compute in the precision, and none in a narrower one."""
    wanted = _TYPE_OF_PRECISION[precision]
    if wanted not in layers:
        kinds = ", ".join(sorted(layers)) or "nothing"
        raise BackendError(f"tensorrt {precision}: no layer computes in {wanted}, but in {kinds}")
    if others := sorted(layers.keys() - {wanted, "float32"}):
        raise BackendError(f"tensorrt {precision}: layers compute in {', '.join(others)}")


def facts_of(layers: dict[str, Counter[str]]) -> dict[str, str]:
    """Describe for a report the layers that compute in each type."""
    return {
        f"{kind} layers": f"{names.total()}: {', '.join(sorted(names))}"
        for kind, names in sorted(layers.items())
    }


def _type_of(tensor: dict[str, Any]) -> str:
    text = str(tensor.get("DataType") or tensor.get("Format/Datatype", ""))
    for word in re.findall(r"\w+", text.lower()):
        if word in _TYPES:
            return _TYPES[word]
    raise BackendError(f"TensorRT's inspector names the type {text!r}, which alignkit cannot read")
