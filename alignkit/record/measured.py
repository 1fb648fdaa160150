"""What is stored of measurements that only a gate's rules ask for: subgroups and latency."""

from __future__ import annotations

from typing import Literal

from alignkit.record.cell import MatrixEntry
from alignkit.record.path import CoverageDiff
from alignkit.record.pixels import PixelStage
from alignkit.record.stored import Count, Stored


class GroupFacts(Stored):
    """The images of a rule's ``where``, measured by themselves."""

    where: dict[str, str]
    images: Count
    pixels: tuple[PixelStage, ...] = ()
    coverage: tuple[CoverageDiff, ...] = ()
    matrix: tuple[MatrixEntry, ...] = ()


class LatencyFacts(Stored):
    """How long one side takes for an image, over rounds in which all sides take turns."""

    part: Literal["preprocess", "inference"]
    """Decode to normalised tensor, or a batch of one image through the model."""
    path: str = ""
    """Of ``preprocess``."""
    backend: str = ""
    """Of ``inference``."""
    precision: str = ""
    reference: bool
    """What the others are compared with."""
    images: Count = 0
    p50: tuple[float, ...] = ()
    """Milliseconds an image, one number a round."""
    p95: tuple[float, ...] = ()
    reason: str = ""
    """Why it could not be measured."""
