"""What an endpoint says of a model: which tensors go in and out, and whether the data fits them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignkit.errors import BackendError

KINDS = {"files": "BYTES", "tensors": "FP32"}
"""What is sent → the protocol's type."""
ANSWERS = ("FP32", "FP16", "FP64")
UNKNOWN = (-1, 0)
"""How servers write a dimension that is free."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output, as the endpoint declares it."""

    name: str
    kind: str = ""
    """Empty where it is not declared."""
    shape: tuple[int, ...] = ()

    def told(self) -> str:
        """``FP32 ?x3x224x224``."""
        shape = "x".join("?" if each in UNKNOWN else str(each) for each in self.shape)
        return f"{self.kind} {shape}"

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a shape agrees in everything after the number of images."""
        return not self.shape or (
            len(self.shape) == len(shape)
            and all(
                has in (*UNKNOWN, want) for has, want in zip(self.shape[1:], shape[1:], strict=True)
            )
        )


def chosen(found: dict[str, Any], role: str, name: str) -> Tensor:
    """The tensor of that name among the ``inputs`` or ``outputs``; without a name, the only one.

    Raises `BackendError` if there is none, or if it has to be named.
    """
    declared = [
        Tensor(each["name"], each["datatype"], tuple(int(n) for n in each.get("shape", ())))
        for each in found.get(f"{role}s") or ()
    ]
    if not declared and name:
        return Tensor(name)
    if not declared:
        raise BackendError(f"the endpoint declares no {role}s of the model; name one as '{role}'")
    named = [each for each in declared if name in ("", each.name)]
    if len(named) == 1:
        return named[0]
    names = ", ".join(each.name for each in declared)
    raise BackendError(f"the endpoint's model has the {role}s {names}; name one as '{role}'")


def require_input(tensor: Tensor, sends: str, size: tuple[int, int]) -> None:
    """Raise `BackendError` unless the model takes what is sent."""
    if tensor.kind not in ("", KINDS[sends]):
        other = "tensors" if sends == "files" else "files"
        raise BackendError(
            f"the endpoint's model takes {tensor.told()} as {tensor.name!r}, and {sends} are "
            f"{KINDS[sends]}; set 'sends: {other}' if it takes those"
        )
    if sends == "files":
        return
    wanted = (-1, 3, *size)
    if len(tensor.shape) == 4 and tensor.shape[3] == 3 and tensor.shape[1] != 3:
        raise BackendError(
            f"the endpoint's model takes {tensor.told()}: channels last; alignkit's tensors have "
            "channels first"
        )
    if not tensor.fits(wanted):
        raise BackendError(
            f"the endpoint's model takes {tensor.told()}, and the path gives "
            f"{Tensor('', 'FP32', wanted).told()}; change the path's size"
        )


def require_output(tensor: Tensor, classes: int) -> None:
    """Raise `BackendError` unless the model gives one number for each class."""
    if tensor.kind not in ("", *ANSWERS) or not tensor.fits((-1, classes)):
        raise BackendError(
            f"the endpoint's model gives {tensor.told()} as {tensor.name!r}, and the data has "
            f"{classes} classes"
        )
