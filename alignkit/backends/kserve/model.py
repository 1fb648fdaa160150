"""Inputs and outputs that an endpoint declares for a model, checked against the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignkit.errors import BackendError

PROTOCOL_TYPES = {"files": "BYTES", "tensors": "FP32"}
"""Content of a request → the protocol's type."""
ANSWER_TYPES = ("FP32", "FP16", "FP64")
_FREE = (-1, 0)
"""Numbers that servers write for a free dimension."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output, as the endpoint declares it."""

    name: str
    kind: str = ""
    """The protocol's type; empty if the endpoint does not declare it."""
    shape: tuple[int, ...] = ()

    def text(self) -> str:
        """Return type and shape as in ``FP32 ?x3x224x224``."""
        shape = "x".join("?" if size in _FREE else str(size) for size in self.shape)
        return f"{self.kind} {shape}"

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether a shape agrees in every axis after the first, the number of images."""
        return not self.shape or (
            len(self.shape) == len(shape)
            and all(
                has in (*_FREE, want) for has, want in zip(self.shape[1:], shape[1:], strict=True)
            )
        )


def declared_tensor(model: dict[str, Any], role: str, name: str) -> TensorSpec:
    """Find the tensor of a name among a model's ``inputs`` or ``outputs``; no name: the only one.

    ``role`` is ``input`` or ``output``. Raises `BackendError` if there is no such tensor, or if
    there are several and no name.
    """
    declared = [
        TensorSpec(each["name"], each["datatype"], tuple(int(n) for n in each.get("shape", ())))
        for each in model.get(f"{role}s") or ()
    ]
    if not declared and name:  # the protocol lets a server leave them out
        return TensorSpec(name)
    if not declared:
        raise BackendError(f"the endpoint declares no {role}s of the model; name one as '{role}'")
    named = [each for each in declared if name in ("", each.name)]
    if len(named) == 1:
        return named[0]
    names = ", ".join(each.name for each in declared)
    raise BackendError(f"the endpoint's model has the {role}s {names}; name one as '{role}'")


def require_input(tensor: TensorSpec, sends: str, size: tuple[int, int]) -> None:
    """Raise `BackendError` unless the model takes the ``sends``, tensors of ``size``."""
    if tensor.kind not in ("", PROTOCOL_TYPES[sends]):
        other = "tensors" if sends == "files" else "files"
        raise BackendError(
            f"the endpoint's model takes {tensor.text()} as {tensor.name!r}, and {sends} are "
            f"{PROTOCOL_TYPES[sends]}; set 'sends: {other}' if it takes those"
        )
    if sends == "files":
        return
    wanted = (-1, 3, *size)
    if len(tensor.shape) == 4 and tensor.shape[3] == 3 and tensor.shape[1] != 3:
        raise BackendError(
            f"the endpoint's model takes {tensor.text()}: channels last; alignkit's tensors have "
            "channels first"
        )
    if not tensor.fits(wanted):
        raise BackendError(
            f"the endpoint's model takes {tensor.text()}, and the path gives "
            f"{TensorSpec('', 'FP32', wanted).text()}; change the path's size"
        )


def require_output(tensor: TensorSpec, classes: int) -> None:
    """Raise `BackendError` unless the model gives one number for each class."""
    if tensor.kind not in ("", *ANSWER_TYPES) or not tensor.fits((-1, classes)):
        raise BackendError(
            f"the endpoint's model gives {tensor.text()} as {tensor.name!r}, and the data has "
            f"{classes} classes"
        )
