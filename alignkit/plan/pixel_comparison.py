"""`PixelComparison`: two paths to be compared over the evaluation images, before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignkit.preprocess import Preprocess, stage_identity
from alignkit.version import DIFFERENCE_LAYERS, code_version
from alignkit.workspace import PlannedWork


@dataclass(frozen=True, slots=True)
class PixelComparison(PlannedWork):
    """The reference path and another, stage by stage over the evaluation images."""

    kind = "comparisons"
    reference: Preprocess
    candidate: Preprocess
    images: str
    """Fingerprint of the evaluation images."""

    @property
    def parts(self) -> dict[str, Any]:
        """What the differences depend on."""
        return {
            "samples": self.images,
            "reference": _identity(self.reference),
            "candidate": _identity(self.candidate),
            "code": code_version(DIFFERENCE_LAYERS),
        }

    @property
    def label(self) -> str:
        """In words, the same whatever the options are."""
        return f"compare {self.reference.name} with {self.candidate.name}"

    @property
    def skipped(self) -> str:
        """Why it cannot be done here; empty if it can."""
        return self.reference.missing() or self.candidate.missing()


def _identity(path: Preprocess) -> dict[str, Any]:
    from alignkit.prepare import pixel_identity

    return {**pixel_identity(path), "normalise": stage_identity(path.normalise)}
