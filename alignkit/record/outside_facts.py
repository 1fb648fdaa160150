"""Stored types of the comparison of a run with a baseline."""

from __future__ import annotations

from alignkit.record.cell_facts import Drift
from alignkit.record.path_facts import CoverageDiff
from alignkit.record.pixel_facts import PixelStage
from alignkit.record.stored import Count, Real, Stored


class BaselineStage(Stored):
    """One stage of a path compared with the approved one."""

    path: str
    stage: str
    images: Count
    """Images that have an approved line."""
    changed: Count
    """Images whose array differs."""
    begun: Count
    """Changed images in which no earlier stage changed: the change begins here."""
    examples: tuple[str, ...] = ()
    """Ids of changed images, at most 20."""
    cause: str = ""
    """Changes of this stage since: library, options, the image files."""
    pixels: PixelStage | None = None
    """The distance; ``None`` if a changed image has no golden tensor."""
    at_least: dict[str, Real] = {}
    """Lower bounds of the distance, from the lines alone."""
    unmeasured: Count = 0
    """Changed images without a golden tensor."""


class BaselineDrift(Stored):
    """The drift of a matrix entry since the predictions that a baseline keeps of it."""

    seeds: tuple[str, ...]
    """The seeds in which both sides predicted."""
    drift: Drift


class BaselineFacts(Stored):
    """The comparison of a run with a baseline."""

    fingerprint: str
    new: Count
    """Images, counted once for each path, of which a stage has no approved line."""
    gone: Count
    """Approved images, of tapped paths, that this run does not have."""
    untapped: tuple[str, ...] = ()
    """Approved paths that were not looked at: the file no longer has them, or they cannot run."""
    stages: tuple[BaselineStage, ...]
    coverage: tuple[CoverageDiff, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Paths that were not compared: images, code, libraries and options are the approved ones."""
    begins: dict[str, str] = {}
    """Path → the first stage that was compared, if the earlier ones are as approved."""
    metrics: dict[str, dict[str, Real | None]] = {}  # keyed by text, since JSON has no other keys
    """``trained with|evaluated with|backend|precision`` → approved metrics."""
    drifts: dict[str, BaselineDrift] = {}
    """The same keys → drift since, paired image by image, if predictions were kept."""
