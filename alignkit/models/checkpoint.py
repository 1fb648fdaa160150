"""`Checkpoint`, a trained model on disk, and `EngineSource`, all that an engine is built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alignkit.tasks import usual_task

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.tasks import ScoreScale, Task

CheckpointFormat = Literal["weights", "torchscript", "exported", "onnx"]
"""``state_dict``, TorchScript file, archive of ``torch.export.save``, ONNX file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights, and all that is needed to rebuild the module around them."""

    model: str
    """Name for `alignkit.models.architectures.build_model`; any name if the file holds a graph."""
    classes: int
    """Number of outputs that are scores of classes; 0 for an embedding."""
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
    """Index of the output of each of the data's classes, then of each further output; empty if the
    outputs come in that order."""
    outside: tuple[str, ...] = ()
    """Names of the further outputs: classes that the data has not."""
    onnx: Path | None = None
    """The user's own ONNX file beside the weights, which ONNX runtimes run as it is."""
    outputs: tuple[str, ...] = ()
    """Names of the wanted outputs, in the order in which sessions return them; empty for the only
    output of the model."""
    embedding: int = 0
    """Length of the vector that a model trained here gives; 0 if it gives scores of classes."""
    scale: ScoreScale = ""
    """Scale of its first wanted output, if its file says it."""
    task: Task = field(default_factory=usual_task, hash=False)
    """The work of the model; an option of it may have no hash."""

    @property
    def graph(self) -> Path | None:
        """The user's own ONNX file; ``None`` if the model is exported."""
        return self.weights if self.format == "onnx" else self.onnx


CALIBRATION = "calibration.txt"
"""File beside an engine that describes its calibration images."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Training images for int8 scales, prepared along the path the model was trained with."""

    key: str
    """Content hash of the images and of everything done to them."""
    images: Callable[[], Batch]
    """Returns (n, 3, height, width) float32, normalised; they are prepared by the call."""
    described: str = ""
    """Description of the images in words."""


def read_calibration(engine: Path) -> str:
    """Describe in words the images with which the engine in a folder was calibrated."""
    return (engine / CALIBRATION).read_text()


@dataclass(frozen=True, slots=True)
class EngineSource:
    """Checkpoint, graph and calibration images of an engine."""

    checkpoint: Checkpoint
    onnx: Path
    """The exported, checked graph."""
    calibration: Calibration | None = None
    """Only for an engine that takes its scales from images."""
