"""Types that are stored: documents such as `RunRecord`, and the facts in them, pictures included.

The `record.json` of a run alone renders its report. Arrays and pictures lie beside it; an
`Artifact` names each by relative path and SHA-256. Counts are stored, ratios derived from them; a
value that could not be computed is ``null`` beside its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    STRICT,
    Artifact,
    Command,
    Count,
    Estimate,
    Placed,
    Real,
    State,
    Stored,
    VerdictState,
)
from alignkit.task_facts import CLASSIFICATION, MetricFacts, TaskFacts


class Control(Stored):
    """A check of the measurement itself, made with the run."""

    name: str
    expected: str
    observed: str
    passed: bool | None
    """``None`` if it cannot be made here: ``observed`` says why."""
    failing: Literal["error", "inconclusive"] = "error"
    """The verdict's state if it does not pass, unless that is worse already."""
    traceback: str = ""
    """Traceback of the defect that prevented the check."""
    differences: dict[str, Real] = {}
    """Pixel metric → its value between the images as they are and with the planted fault."""


class RuleOutcome(Placed):
    """A gate rule applied to one matrix entry, or to two paths: these have no backend."""

    metric: str
    limit: str
    """The rule in words."""
    state: VerdictState
    observed: str
    """The measured value, with its interval."""
    not_run: bool = False
    """Whether nothing was measured, which the gate allows."""
    left_to_gate: bool = False
    """Whether a run leaves it to `alignkit gate`, which alone can measure it."""
    rule: str = ""
    """The rule's id, the same whatever its limits are."""
    cumulative: bool = False
    """Whether it is about the pixels of a stage together with all stages before it."""
    brief: str = ""
    """The value beside its limit: ``churn 7.70 %, 2 % allowed``; empty without a value."""
    excess: Real | None = None
    """The value as a multiple of its limit: a rule fails above 1; ``None`` without a value or for a
    limit of 0."""
    cause: str = ""
    """The cause, as far as it is known."""
    needed: Count | None = None
    """Images that would decide an inconclusive outcome, with as many seeds; ``None`` if none."""
    needed_of: str = "images"
    """The things that ``needed`` counts: identities, where images of one depend on each other."""
    needed_seeds: Count | None = None
    """Seeds that would, with as many images; ``None`` if no number would, or for one seed."""
    waived: str = ""
    """The day until which a failure is waived, and the reason."""
    loose: str = ""
    """Says with which planted faults the limit holds too; empty if it holds something."""
    line: Count = 0
    """Line of the rule in the file, from 1; 0 for a default rule."""


class Action(Stored):
    """A step against what a verdict says."""

    words: str
    measured: bool | None = None
    """Whether its effect was measured here; ``None`` for a step that has none."""
    command: str = ""
    """Shell command that does or measures it."""
    yaml: str = ""
    """Lines for the experiment."""


class Verdict(Stored):
    """The gate's judgement of the run, in three lines: the rule, the cause, the next step."""

    state: VerdictState
    sentence: str
    """The rules that decide it, each value beside its limit, and the place."""
    cause: str = ""
    """The stage or runtime that causes it, and the mechanism; empty if it is not known."""
    actions: tuple[Action, ...] = ()
    """Next steps, the first recommended."""
    informational: bool
    exit_code: int
    rules: tuple[RuleOutcome, ...] = ()
    overrides: tuple[str, ...] = ()
    """``--set`` arguments that replaced rules or paths of the file."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A message about a line of the gate's file: a mistake, or a waiver that ended."""

    __pydantic_config__ = STRICT

    file: str
    line: Count
    """From 1; 0 for the file as a whole."""
    column: int
    level: Literal["error", "warning"]
    rule: str
    """A stable name of the kind of finding."""
    message: str


class GroupFacts(Stored):
    """The images of a rule's ``where``, measured by themselves."""

    where: dict[str, str]
    images: Count
    pixels: tuple[PixelStage, ...] = ()
    coverage: tuple[CoverageDiff, ...] = ()
    matrix: tuple[MatrixEntry, ...] = ()


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
    """``cells`` as Parquet; see `alignkit.text.run_columns`."""

    @property
    def labelled(self) -> bool:
        """Whether the metrics of the task have values: the images have labels, or need none."""
        return bool(self.data.classes) or not self.task.needs_labels
