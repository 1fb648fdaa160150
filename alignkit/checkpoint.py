"""`Checkpoint`: a trained model as it lies on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights and what is needed to rebuild the module around them."""

    model: str
    """Name known to `alignkit.models.build_model`."""
    classes: int
    """Outputs."""
    height: int
    """Input height in pixels."""
    width: int
    """Input width in pixels."""
    weights: Path
    """A ``state_dict`` written by ``torch.save``; loaded with ``weights_only=True``."""
    key: str
    """Content hash of everything the weights depend on."""
