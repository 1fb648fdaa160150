"""Kernels that an ONNX Runtime session ran, read from its own profile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.backends import Precision

_TYPES = {
    "float": "float32", "float16": "float16", "bfloat16": "bfloat16", "double": "float64",
    "int8": "int8", "uint8": "int8",
}  # fmt: skip
"""Type in the profile → type in the report; a node that has none of these only computes shapes."""
_NARROWEST = ("int8", "bfloat16", "float16", "float32", "float64")
_CONVERSIONS = frozenset({"Cast", "QuantizeLinear", "DequantizeLinear", "Transpose", "Reshape"})
"""Operators that multiply nothing: an int8 graph with no other in int8 is int8 in name only."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Counts of the nodes that one image went through, by type and provider."""

    counts: Counter[tuple[str, str, str]]
    """(operator, provider, type) → nodes; for a ``Cast`` the type that it writes."""
    assigned: Counter[str] = field(default_factory=Counter)
    """Provider → nodes, including those that compute shapes."""

    def require(self, provider: str, precision: Precision) -> None:
        """Raise `BackendError` if another provider computed, or another type was used."""
        elsewhere = {operator for operator, who, _ in self.counts if who != provider}
        if elsewhere:
            raise BackendError(
                f"{provider} left {', '.join(sorted(elsewhere))} to another provider; this model "
                "cannot be measured on it"
            )
        if precision == "int8" and not self._computing_in("int8").keys() - _CONVERSIONS:
            raise BackendError(
                "int8: every layer computes in float32, with weights and activations that are only "
                "rounded to int8; set 'optimisation: all', which fuses them"
            )
        other = {operator for operator, _, kind in self.counts if kind != "float32"}
        if precision in ("fp32", "tf32") and other:
            raise BackendError(
                f"{precision}: {', '.join(sorted(other))} did not compute in float32"
            )

    def facts(self, precision: Precision) -> dict[str, str]:
        """Describe for a report the nodes that computed in each type, and the casts."""
        facts = {}
        for kind in sorted({kind for _, _, kind in self.counts}):
            if nodes := self._computing_in(kind):
                facts[f"{kind} kernels"] = f"{nodes.total()}: {', '.join(sorted(nodes))}"
        casts = Counter[str]()
        for (operator, _, kind), count in self.counts.items():
            if operator == "Cast":
                casts[kind] += count
        if precision == "fp16" and not self._computing_in("float16"):
            rounded = "weights and some activations are" if casts["float16"] else "weights are"
            facts["float16"] = f"storage only: {rounded} rounded to it, every kernel is float32's"
        to_each = ", ".join(f"{count} to {kind}" for kind, count in sorted(casts.items()))
        placed = ", ".join(f"{count} on {who}" for who, count in sorted(self.assigned.items()))
        return {**facts, "casts": to_each or "none", "nodes": placed}

    def _computing_in(self, kind: str) -> Counter[str]:
        nodes = Counter[str]()
        for (operator, _, each), count in self.counts.items():
            if each == kind and operator != "Cast":
                nodes[operator] += count
        return nodes


def kernels_in(events: Iterable[dict[str, Any]]) -> Kernels:
    """Count the nodes of an ONNX Runtime profile that write floating-point or 8-bit tensors.

    Single numbers (an attention's scale, from a shape) are left out: every provider leaves the
    arithmetic of shapes to the CPU.
    """
    counts, assigned = Counter[tuple[str, str, str]](), Counter[str]()
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        facts = event["args"]
        assigned[facts["provider"]] += 1
        written = _tensors(facts["output_type_shape"])
        if any(math.prod(shape) > 1 for shape in written.values()):
            read = {} if facts["op_name"] == "Cast" else _tensors(facts["input_type_shape"])
            # a fused integer kernel reads or writes float32 as well: its narrowest type counts
            kinds = sorted({*written, *read}, key=_NARROWEST.index)
            counts[facts["op_name"], facts["provider"], kinds[0]] += 1
    return Kernels(counts, assigned)


def _tensors(tensors: list[dict[str, list[int]]]) -> dict[str, list[int]]:
    """Map each type to the shape of one tensor of that type."""
    return {_TYPES[kind]: each[kind] for each in tensors for kind in each if kind in _TYPES}
