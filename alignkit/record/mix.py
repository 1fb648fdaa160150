"""What is stored of models trained on a mix of paths."""

from __future__ import annotations

from typing import Literal

from alignkit.record.stored import Estimate, Stored


class MixFacts(Stored):
    """The drift of a mix's models beside that of its first path's own, served with another path."""

    metric: Literal["churn", "recall.macro", "precision.macro"]
    mix: str
    """The row."""
    alone: str
    """The row of the mix's first path."""
    evaluated_with: str
    in_mix: bool
    """Whether training images of the mix came from that path too."""
    backend: str
    precision: str
    mixed: Estimate
    single: Estimate
    change: Estimate
    """``mixed`` less ``single``, paired by seed and image."""
