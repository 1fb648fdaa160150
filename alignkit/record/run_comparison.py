"""`RunComparison`: the changes from one run to another; ``comparison.json``.

``before`` and ``after`` are the two runs. A flip is a prediction that differs from that of the
aligned cell of its row, in the same run and with the same seed.
"""

from __future__ import annotations

from typing import Literal

from alignkit.record.stored import Count, Placed, Stored

Change = Literal["new", "worse", "fixed", "better", "unchanged", "not compared"]


class ComparedRun(Stored):
    """One of the two runs."""

    folder: str
    """The folder's own name, without the folders above it."""
    name: str
    key: str
    started: str
    verdict: str
    sentence: str


class Difference(Stored):
    """A difference between the runs that may be the cause."""

    what: str
    before: str
    after: str


class ImageChange(Stored):
    """An image that flips in one run and not in the other, or flips to another class."""

    id: str
    label: str
    change: Literal["new", "fixed", "other class"]
    seeds: Count
    """The number of shared seeds in which it changes."""
    before: str
    """Predicted class or classes, of the first such seed: aligned → this cell."""
    after: str


class EntryChange(Placed):
    """A place of the matrix in both runs."""

    aligned: bool
    change: Change
    reason: str = ""
    """Why it was not compared."""
    n: Count = 0
    """Images that both runs have, times the seeds that both have."""
    before: Count = 0
    """Flips; for an aligned cell, wrong predictions."""
    after: Count = 0
    appeared: Count = 0
    """Flips that only the later run has; for an aligned cell, right → wrong."""
    gone: Count = 0
    """Flips that only the earlier run has; for an aligned cell, wrong → right."""
    p: float | None = None
    """Two-sided exact sign test over images, adjusted for the number of entries (Holm)."""
    images: tuple[ImageChange, ...] = ()


class StageChange(Stored):
    """A stage's own difference between two paths, in both runs."""

    reference: str
    candidate: str
    stage: str
    change: Change
    before: float | None
    """Mean absolute difference in grey levels; for ``normalise``, in normalised units."""
    after: float | None
    reason: str = ""


class PixelImage(Stored):
    """An image whose pixels differ more, or less, between two paths than they did."""

    id: str
    change: Literal["new", "worse", "fixed", "better"]
    before: float
    """Mean absolute difference of the last pixels, grey levels."""
    after: float


class PixelChange(Stored):
    """The images of a pair of paths by how their last pixels' difference changed."""

    reference: str
    candidate: str
    images: Count
    new: Count
    """Images that were equal before and differ now."""
    worse: Count
    fixed: Count
    better: Count
    unchanged: Count
    not_compared: Count
    """Images in one run only, or not decoded by both paths."""
    greatest: tuple[PixelImage, ...]
    """The greatest changes, at most 20."""


class RunComparison(Stored):
    """A comparison of two runs."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    alignkit: str
    command: str
    before: ComparedRun
    after: ComparedRun
    forced: tuple[str, ...]
    """Reasons not to compare the two that the user overruled."""
    differences: tuple[Difference, ...]
    entries: tuple[EntryChange, ...]
    stages: tuple[StageChange, ...]
    pixels: tuple[PixelChange, ...]
