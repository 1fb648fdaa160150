"""What is stored of a comparison with a baseline."""

from __future__ import annotations

from alignkit.record.cell import Drift
from alignkit.record.path import CoverageDiff
from alignkit.record.pixels import PixelStage
from alignkit.record.stored import Count, Stored


class BaselineStage(Stored):
    """One stage of a path against what was approved."""

    path: str
    stage: str
    images: Count
    """Images that have an approved line."""
    changed: Count
    """Whose array is another."""
    begun: Count
    """Of these, where no earlier stage changed: the change begins here."""
    examples: tuple[str, ...] = ()
    """Ids of changed images, at most 20."""
    cause: str = ""
    """What else changed of this stage since: library, options, the image files."""
    pixels: PixelStage | None = None
    """The distance; ``None`` where a changed image has no golden tensor."""
    at_least: dict[str, float] = {}
    """Lower bounds of the distance, from the lines alone."""
    unmeasured: Count = 0
    """Changed images without a golden tensor."""


class BaselineDrift(Stored):
    """What became of the predictions that a baseline keeps of a matrix entry."""

    seeds: tuple[str, ...]
    """In which both sides predicted."""
    drift: Drift


class BaselineFacts(Stored):
    """What a run was compared with."""

    fingerprint: str
    new: Count
    """Images and paths that have no approved line."""
    gone: Count
    """Approved images that were not among the images of this run."""
    stages: tuple[BaselineStage, ...]
    coverage: tuple[CoverageDiff, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Paths that were not looked at: images, code, libraries and options are the approved ones."""
    begins: dict[str, str] = {}
    """Path → the first stage that was looked at, where the same holds of those before it."""
    metrics: dict[str, dict[str, float | None]] = {}
    """``trained with|evaluated with|backend|precision`` → approved metrics."""
    drifts: dict[str, BaselineDrift] = {}
    """The same → drift since, paired image by image, where predictions were kept."""
