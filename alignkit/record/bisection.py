"""What a bisection found, as it is printed and written."""

from __future__ import annotations

from typing import Literal

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
    past: bool = False
    """Relative difference above the tolerance, values finite on one side only, or two shapes."""
    reason: str = ""
    """Why a number is missing."""
    own_max_abs: float | None = None
    """Of the layer alone, fed what the reference computed."""
    own_relative: float | None = None
    own_reason: str = ""
    """Why a number of the layer alone is missing."""


class Bisection(Stored):
    """Layer by layer, in the order of the graph."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    model: str
    reference: str
    candidate: str
    images: Count
    tolerance: float
    first: str | None
    """The first layer past the tolerance; ``null`` if none is."""
    layers: tuple[LayerDrift, ...]
    unmatched: tuple[str, ...] = ()
    """Layers that only one side has."""
    command: str = ""
    """Does it again."""
