"""`Checkpoint`, a trained model on disk, and `EngineSource`, all that an engine is built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from alignkit.arrays import Batch

CheckpointFormat = Literal["weights", "torchscript", "exported", "onnx"]
"""A ``state_dict``; a TorchScript file; an archive of ``torch.export.save``; an ONNX file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights and what is needed to rebuild the module around them."""

    model: str
    """Known to `alignkit.models.architectures.build_model`; any name where a file holds its own
    graph."""
    classes: int
    """Outputs."""
    height: int
    """Input height in pixels."""
    width: int
    """Input width in pixels."""
    weights: Path
    """The file; a ``state_dict`` is loaded with ``weights_only=True``."""
    key: str
    """Content hash of everything the weights depend on."""
    format: CheckpointFormat = "weights"
    order: tuple[int, ...] = ()
    """Output of each of the data's classes; empty if the model has them in the data's order."""


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
class EngineSource:
    """What an engine is built from."""

    checkpoint: Checkpoint
    onnx: Path
    """The exported, checked graph."""
    calibration: Calibration | None = None
    """For an engine that takes its scales from images."""
