"""`Checkpoint`: a trained model as it lies on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Format = Literal["weights", "torchscript", "exported", "onnx"]
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
    format: Format = "weights"
    order: tuple[int, ...] = ()
    """Output of each of the data's classes; empty if the model has them in the data's order."""
