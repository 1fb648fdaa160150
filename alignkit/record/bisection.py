"""`Bisection`: the layers of two models compared, as it is printed and written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alignkit.record.stored import Count, Stored


class LayerDrift(Stored):
    """One layer's output on both sides, over all images."""

    name: str
    operator: str
    """ONNX operator."""
    tensor: str
    """The output's name in the graph."""
    shape: tuple[int, ...] = ()
    """Images first."""
    max_abs: float | None = None
    mean_abs: float | None = None
    relative: float | None = None
    """Greatest |Δ| over the reference's greatest absolute value."""
    non_finite: Count = 0
    """Values that are NaN or infinite on either side."""
    exceeds_tolerance: bool = Field(default=False, serialization_alias="past")
    """Relative difference above the tolerance, values finite on one side only, or two shapes."""
    reason: str = ""
    """Why a number is missing."""
    isolated_max_abs: float | None = Field(default=None, serialization_alias="own_max_abs")
    """Greatest |Δ| of the layer alone, fed the reference's activations."""
    isolated_relative: float | None = Field(default=None, serialization_alias="own_relative")
    isolated_reason: str = Field(default="", serialization_alias="own_reason")
    """Why a number of the isolated layer is missing."""


class Bisection(Stored):
    """Two models compared layer by layer, in the order of the graph."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    model: str
    reference: str
    candidate: str
    images: Count
    tolerance: float
    first: str | None
    """The first layer that exceeds the tolerance; ``null`` if none does."""
    layers: tuple[LayerDrift, ...]
    unmatched: tuple[str, ...] = ()
    """Layers that only one side has."""
    command: str = ""
    """Shell command that reproduces this."""
