"""Types that are stored: documents such as `RunRecord`, and the facts in them, pictures included.

The `record.json` of a run alone renders its report. Arrays and pictures lie beside it; an
`Artifact` names each by relative path and SHA-256. Counts are stored, ratios derived from them; a
value that could not be computed is ``null`` beside its reason.
"""

from __future__ import annotations

from typing import Literal

from alignkit.record.bench_facts import ServingOption
from alignkit.record.blame_facts import (
    AdviceFacts,
    AttributionFacts,
    FactorShare,
    FlippedFacts,
    KnownEffect,
    Mechanism,
    MitigationFacts,
    Subgroup,
)
from alignkit.record.cell_facts import (
    Cell,
    ClassCounts,
    ClassDrift,
    Drift,
    DriftChange,
    EngineFacts,
    MatrixEntry,
    MixFacts,
    NoiseFloor,
    SizeCurve,
    SizePoint,
    StandardError,
)
from alignkit.record.drawn_facts import Drawn, DrawnBox, DrawnPair, PictureMap
from alignkit.record.figure_facts import (
    FactRow,
    FactTable,
    Figure,
    Mark,
    Neighbour,
    Neighbours,
    Series,
)
from alignkit.record.numeric_facts import (
    BatchCheck,
    BuildSpread,
    LogitDistance,
    MarginDrift,
    MovedImage,
    NumericDrift,
    QuantisedDrift,
)
from alignkit.record.outside_facts import BaselineDrift, BaselineFacts, BaselineStage
from alignkit.record.path_facts import (
    Coverage,
    CoverageDiff,
    DataFacts,
    Environment,
    Epoch,
    NotDecoded,
    PathFacts,
    PretrainedFacts,
    StageFacts,
    TrainingFacts,
)
from alignkit.record.pixel_facts import (
    ImageTableFacts,
    PixelStage,
    PlaneStage,
    ServedPredictions,
    ShownImage,
    ShownPair,
    ShownStage,
    Thumbnail,
)
from alignkit.record.spatial_facts import SpatialFacts
from alignkit.record.stored import (
    Artifact,
    Command,
    Count,
    Estimate,
    Real,
    State,
    Stored,
    VerdictState,
)
from alignkit.record.verdict_facts import Action, Control, Finding, GroupFacts, RuleOutcome, Verdict
from alignkit.task_facts import CLASSIFICATION, MetricFacts, TaskFacts


class RunRecord(Stored):
    """Everything a report or a gate needs of a run."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    alignkit: str
    """Version that wrote it."""
    name: str
    question: str
    key: str
    """Content hash of the plan."""
    command: Command
    """Shell command that reproduces the run."""
    yaml: str
    overrides: tuple[str, ...]
    quick: tuple[str, ...] = ()
    """Each value that ``--quick`` made smaller, in words; empty for the experiment as it is."""
    started: str
    """UTC, ISO 8601."""
    seconds: Real
    """Duration of this invocation, without the work that was stored before."""
    partial: bool
    """Whether it was interrupted before every cell was done."""
    environment: Environment
    data: DataFacts
    task: TaskFacts = CLASSIFICATION
    paths: tuple[PathFacts, ...]
    """Reference first."""
    coverage: tuple[Coverage, ...]
    trainings: tuple[TrainingFacts, ...]
    cells: tuple[Cell, ...]
    matrix: tuple[MatrixEntry, ...]
    noise_floor: tuple[NoiseFloor, ...]
    controls: tuple[Control, ...]
    pixels: tuple[PixelStage, ...]
    shown: tuple[ShownImage, ...]
    shown_pairs: tuple[ShownPair, ...] = ()
    """The pairs of paths between which predictions were compared."""
    thumbnails: tuple[Thumbnail, ...] = ()
    """Of images that ``neighbours`` of a drift name, as many as fit."""
    verdict: Verdict
    attributions: tuple[AttributionFacts, ...] = ()
    spatial: tuple[SpatialFacts, ...] = ()
    """Where each pair's stages differ on the same input, and by which mechanism."""
    flipped: tuple[FlippedFacts, ...] = ()
    """For each candidate path, the kinds of image that flip more often than others."""
    advice: tuple[AdviceFacts, ...] = ()
    """Advised configurations, with the drift expected and confirmed after each."""
    coverage_diffs: tuple[CoverageDiff, ...] = ()
    baseline: BaselineFacts | None = None
    images: tuple[ImageTableFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    training_sizes: tuple[SizeCurve, ...] = ()
    """Curves of the entries that were measured with several shares of the training images."""
    mixes: tuple[MixFacts, ...] = ()
    """Drift of models trained on a mix of paths."""
    stages: Artifact | None = None
    """Lines of a baseline, which a later gate compares with; see `alignkit.baseline`."""
    cell_table: Artifact | None = None
    """``cells`` as Parquet; see `alignkit.record.cell_table`."""

    @property
    def labelled(self) -> bool:
        """Whether the metrics of the task have values: the images have labels, or need none."""
        return bool(self.data.classes) or not self.task.needs_labels
