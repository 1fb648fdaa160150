"""Source of an engine: the graph, and the images that its int8 scales come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.models.checkpoint import Checkpoint


CALIBRATION = "calibration.txt"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Real images of the training split, along the path the model was trained with."""

    key: str
    """Content hash of the images and of everything done to them."""
    images: Callable[[], Batch]
    """(n, 3, height, width) float32, normalised; prepared when asked for."""
    described: str = ""
    """In words, which images these are."""


def read_calibration(engine: Path) -> str:
    """In words, which images the engine in a folder was calibrated with."""
    return (engine / CALIBRATION).read_text()


@dataclass(frozen=True, slots=True)
class Source:
    """What an engine is built from."""

    checkpoint: Checkpoint
    onnx: Path
    """The exported, checked graph."""
    calibration: Calibration | None = None
    """For an engine that takes its scales from images."""
