"""Documents of studies: two runs compared (`comparison.json`), two models bisected by layers, and
engines that were built.

``before`` and ``after`` are the two runs. A flip is a prediction that differs from that of the
aligned cell of its row, in the same run and with the same seed.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alignkit.record.cell_facts import EngineFacts
from alignkit.record.drift_facts import DriftChange
from alignkit.record.path_facts import PathFacts
from alignkit.record.stored import Command, Count, Placed, Real, Stored, VerdictState
from alignkit.task_facts import CLASSIFICATION, TaskFacts

Change = Literal["new", "worse", "fixed", "better", "no change shown", "unchanged", "not compared"]
"""``unchanged``: every value is equal. ``no change shown``: so many images show none."""


class ComparedRun(Stored):
    """One of the two runs."""

    folder: str
    """The folder's own name, without the folders above it."""
    name: str
    key: str
    started: str
    verdict: VerdictState
    sentence: str
    images: Count
    """Evaluation images."""
    paths: tuple[PathFacts, ...]
    """Its paths; a name may be a surrogate's in one run and a real stack's in the other."""
    simulations: dict[str, str] = {}
    """Simulated runtime → its label."""
    quick: tuple[str, ...] = ()
    """Each value that ``--quick`` made smaller, in words; empty for the experiment as it is."""
    task: TaskFacts = CLASSIFICATION


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
    """Of its churn; of an aligned cell's macro recall. Each by the p-value in ``metrics``."""
    reason: str = ""
    """Why it was not compared."""
    n: Count = 0
    """Images that both runs have, times the seeds that both have."""
    seeds: Count = 0
    """Seeds that both runs have."""
    before: Count = 0
    """Flips; for an aligned cell, wrong predictions."""
    after: Count = 0
    appeared: Count = 0
    """Flips that only the later run has; for an aligned cell, right → wrong."""
    gone: Count = 0
    """Flips that only the earlier run has; for an aligned cell, wrong → right."""
    metrics: dict[str, DriftChange] = {}
    """Metric, or ``churn`` → its drift in both runs; of an aligned cell its value, and no churn.
    p-values are adjusted for the number of entries (Holm), each metric for itself."""
    images: tuple[ImageChange, ...] = ()


class StageChange(Stored):
    """A stage's own difference between two paths, in both runs."""

    reference: str
    candidate: str
    stage: str
    change: Change
    before: Real | None
    """Mean absolute difference in grey levels; for ``normalise``, in normalised units."""
    after: Real | None
    reason: str = ""


class PixelImage(Stored):
    """An image whose pixels differ more, or less, between two paths than they did."""

    id: str
    change: Literal["new", "worse", "fixed", "better"]
    before: Real
    """Mean absolute difference of the last pixels, grey levels."""
    after: Real


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


class LayerDrift(Stored):
    """One layer's output on both sides, over all images."""

    name: str
    operator: str
    """ONNX operator."""
    tensor: str
    """The output's name in the graph."""
    shape: tuple[int, ...] = ()
    """Images first."""
    max_abs: Real | None = None
    mean_abs: Real | None = None
    relative: Real | None = None
    """Greatest |Δ| over the reference's greatest absolute value."""
    non_finite: Count = 0
    """Values that are NaN or infinite on either side."""
    # JSON keeps the names that were published with the first format
    exceeds_tolerance: bool = Field(default=False, serialization_alias="past")
    """Relative difference above the tolerance, values finite on one side only, or two shapes."""
    reason: str = ""
    """Why a number is missing."""
    isolated_max_abs: Real | None = Field(default=None, serialization_alias="own_max_abs")
    """Greatest |Δ| of the layer alone, fed the reference's activations."""
    isolated_relative: Real | None = Field(default=None, serialization_alias="own_relative")
    isolated_reason: str = Field(default="", serialization_alias="own_reason")
    """Why a number of the isolated layer is missing."""


class Bisection(Stored):
    """Two models compared layer by layer, in the order of the graph."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    model: str
    reference: str
    candidate: str
    images: Count
    tolerance: Real
    first: str | None
    """The first layer that exceeds the tolerance; ``null`` if none does."""
    layers: tuple[LayerDrift, ...]
    unmatched: tuple[str, ...] = ()
    """Layers that only one side has."""
    outputs: tuple[str, ...] = ()
    """Outputs of the candidate's graph that were not compared."""
    command: str = ""
    """Shell command that reproduces this."""


class BuiltEngine(Stored):
    """An engine of one model in one runtime; without ``engine`` it could not be built."""

    trained_with: str
    seed: int
    backend: str
    precision: str
    engine: EngineFacts | None = None
    key: str = ""
    """Content hash of everything that the engine depends on."""
    folder: str = ""
    """Folder below ``--reports`` that holds it; a run finds it there on any machine."""
    reason: str = ""
    """Why there is no engine."""
    missing: bool = False
    """Whether this machine lacks something that the build needs; otherwise it failed."""


class EngineBuilds(Stored):
    """Engines that `alignkit run --engines-only` made; none of them was run."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    alignkit: str
    """Version that wrote it."""
    name: str
    file: str
    command: Command
    engines: tuple[BuiltEngine, ...]
