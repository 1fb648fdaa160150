"""`RunRecord`: what a run leaves behind. `record.json` alone renders the report.

Arrays and pictures lie beside it; an `Artifact` names each by relative path and SHA-256. Counts are
stored, ratios derived from them; what could not be computed is ``null`` with its reason beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alignkit.errors import RecordError

FORMAT: Final = 1
# 1: 2026-11, first format.

State = Literal["measured", "skipped", "failed"]
VerdictState = Literal["pass", "warn", "fail", "inconclusive", "error"]
Count = Annotated[int, Field(ge=0)]


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Artifact(_Stored):
    """A file beside the record."""

    path: str
    """Relative to the record's folder."""
    sha256: str


class Estimate(_Stored):
    """A paired difference, candidate minus reference, as a fraction (0.01 is one point)."""

    value: float | None
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    reason: str = ""
    """Why there is no value or interval."""


class StageFacts(_Stored):
    """One stage of a path as it ran."""

    stage: str
    label: str
    """One line for a person, e.g. ``opencv linear 48x48``."""
    options: dict[str, Any]
    version: str
    """The library that really ran; empty for alignkit's own stages."""


class PathFacts(_Stored):
    """One preprocessing path."""

    name: str
    stages: tuple[StageFacts, ...]
    surrogate_of: str = ""
    calibration: str = ""
    """What is known of a surrogate's distance to the real stack, e.g. ``not yet calibrated``."""
    skipped: str = ""


class NotDecoded(_Stored):
    """An image a path did not decode cleanly."""

    id: str
    outcome: Literal["corrupt", "failed", "unsupported"]
    reason: str


class Coverage(_Stored):
    """How the decodes of one split ended on one path."""

    preprocess: str
    split: Literal["train", "eval"]
    ok: Count
    corrupt: Count
    failed: Count
    unsupported: Count
    examples: tuple[NotDecoded, ...] = ()
    """Every image that is not ``ok``, at most 50."""


class Epoch(_Stored):
    """One line of a training's log."""

    epoch: int
    loss: float
    accuracy: float
    """On the training images as augmented."""
    learning_rate: float
    images_per_second: float


class TrainingFacts(_Stored):
    """One training."""

    preprocess: str
    seed: int
    key: str
    state: State
    reason: str = ""
    epochs: tuple[Epoch, ...] = ()
    images: Count = 0
    """Training images: those that every path decoded, or the share of them that was used."""
    fraction: float = 1.0
    """That share."""


class ClassCounts(_Stored):
    """Confusion counts of one class."""

    name: str
    true_positive: Count
    false_positive: Count
    false_negative: Count


class LogitDistance(_Stored):
    """Distance of two models' outputs on the same images."""

    max_abs: float | None
    mean_abs: float | None
    cosine: float | None
    """Mean over images."""
    reason: str = ""


class ClassDrift(_Stored):
    """Drift of one class."""

    name: str
    support: Count
    recall: Estimate
    precision: Estimate


class DriftFacts(_Stored):
    """Paired differences of a cell from the aligned cell of its row."""

    n: Count
    """Images both decoded, times seeds where several are joined."""
    metrics: dict[str, Estimate]
    """``top1``, ``recall.macro``, ``recall.micro``, ``recall.weighted``, ``precision.…``."""
    churn: Estimate
    """1 − top-1 agreement."""
    right_to_wrong: Count
    wrong_to_right: Count
    wrong_to_wrong: Count
    """Wrong before and after, with another class."""
    mcnemar_p: float | None
    detectable: float | None
    """Smallest change of top-1 that this sample would show with 80 % power at the 5 % level."""
    logits: LogitDistance
    classes: tuple[ClassDrift, ...] = ()
    non_finite: Count = 0
    """Images with a NaN or infinite output."""


class Cell(_Stored):
    """One evaluation: a training's model under a path, a backend and a precision."""

    trained_with: str
    seed: int
    evaluated_with: str
    backend: str
    precision: str
    aligned: bool
    key: str
    state: State
    reason: str = ""
    traceback: str = ""
    n: Count = 0
    metrics: dict[str, float | None] = {}
    """Absolute values of the metrics that ``DriftFacts`` compares."""
    counts: tuple[ClassCounts, ...] = ()
    effective: dict[str, str] = {}
    """What really ran: provider, precision, TF32, inserted casts."""
    predictions: Artifact | None = None
    drift: DriftFacts | None = None
    """Against the aligned cell of the same row and seed; ``None`` for that cell itself."""
    fraction: float = 1.0
    """Share of the training images its model saw; ``trained_with`` names it too."""


class MatrixEntry(_Stored):
    """The cells of all seeds joined."""

    trained_with: str
    evaluated_with: str
    backend: str
    precision: str
    aligned: bool
    state: State
    reason: str = ""
    seeds: tuple[int, ...] = ()
    metrics: dict[str, float | None] = {}
    """Mean over seeds of the absolute values."""
    drift: DriftFacts | None = None
    """Joined over seeds, images resampled together; ``None`` for the aligned entry."""
    fraction: float = 1.0


class NoiseFloor(_Stored):
    """What changing only the seed does to a path's aligned cell."""

    preprocess: str
    seeds: tuple[int, ...]
    metrics: dict[str, float]
    """Metric → greatest minus least value over seeds."""
    churn: float
    """Mean disagreement of two seeds' models on the same images."""


class Control(_Stored):
    """A check of the measurement itself, made with the run."""

    name: str
    expected: str
    observed: str
    passed: bool


class PixelStage(_Stored):
    """How far one stage's output differs between two paths, over the evaluation images."""

    reference: str
    candidate: str
    stage: str
    mode: Literal["isolated", "cumulative"]
    images: Count
    """Images compared."""
    identical: Count
    """Images equal in every value."""
    shape_mismatches: Count = 0
    max_abs: float | None = None
    """In grey levels 0..255; for ``normalise`` in normalised units."""
    mean_abs: float | None = None
    bias: tuple[float, float, float] | None = None
    """Candidate minus reference, per channel R, G, B."""
    share_differing: float | None = None
    """Of pixels; a pixel differs if any channel does."""
    share_above: dict[str, float] = {}
    """Level → share of values that differ by more."""
    p99: float | None = None
    p99_9: float | None = None
    psnr: float | None = None
    """dB; ``None`` where images are identical."""
    ssim: float | None = None
    reason: str = ""
    """Why there are no numbers."""


class CoverageDiff(_Stored):
    """Which images only one of two paths, or of a baseline and a path, decodes."""

    reference: str
    """A path, or ``baseline``."""
    candidate: str
    images: Count
    only_reference: Count
    only_candidate: Count
    examples: tuple[str, ...] = ()
    """Ids of such images, at most 20."""


class BaselineStage(_Stored):
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


class BaselineFacts(_Stored):
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
    metrics: dict[str, dict[str, float | None]] = {}
    """``trained with|evaluated with|backend|precision`` → approved metrics."""


class WorstImage(_Stored):
    """An image shown with both paths' pixels and their amplified difference."""

    reference: str
    candidate: str
    id: str
    label: str
    stage: str
    """The stage whose output is shown."""
    max_abs: float
    mean_abs: float
    flipped: str = ""
    """In words, how predictions of the reference model changed; empty if they did not."""
    amplification: float
    a: Artifact
    b: Artifact
    difference: Artifact
    """min(|candidate − reference| · amplification, 255)."""
    pixels: Artifact | None = None
    """Both sides' exact values, as a script that the page's viewer loads."""


class ImageTableFacts(_Stored):
    """Every image of a comparison; see `alignkit.compare.image_table` for the columns."""

    reference: str
    candidate: str
    table: Artifact
    """Parquet."""


class ShareFacts(_Stored):
    """What one factor causes of a drift."""

    factor: str
    """A stage, ``resize+crop``, ``decode.chroma``, ``backend`` or ``precision``."""
    effect: Estimate
    """Its share: with the interaction beside them or within, the shares add up to the total."""
    alone: Estimate
    """Its effect with everything else as in the reference."""


class AttributionFacts(_Stored):
    """One metric's drift between two paths and runtimes, divided among what differs."""

    reference: str
    """The path models were trained with."""
    candidate: str
    backend: str = ""
    """The candidate's runtime; empty where no model is involved."""
    precision: str = ""
    metric: str
    """``pixels``, ``logits``, ``churn``, ``top1``, ``recall.macro``, ``precision.macro``; with the
    suffix ``.decode`` where only the decoders' own switches are told apart."""
    unit: Literal["fraction", "grey levels", "logits"]
    method: Literal["shapley", "one-at-a-time"]
    images: Count
    """Images that every mixture of the paths could prepare."""
    left_out: Count = 0
    shares: tuple[ShareFacts, ...] = ()
    interaction: Estimate
    """The total less what each factor does alone; divided among the shares for ``shapley``."""
    total: Estimate
    sentence: str = ""
    notes: tuple[str, ...] = ()
    """Why some stages are not told apart."""
    reason: str = ""
    """Why there are no shares."""


class RuleOutcome(_Stored):
    """A gate rule applied to one matrix entry."""

    metric: str
    limit: str
    """The rule in words."""
    trained_with: str
    evaluated_with: str
    backend: str
    precision: str
    state: VerdictState
    observed: str
    """The measured value, with its interval."""
    rule: str = ""
    """The rule's id, the same whatever its limits are."""
    cause: str = ""
    """What is known of why."""
    needed: Count | None = None
    """Images that would settle an inconclusive outcome."""
    waived: str = ""
    """Until when a failure is waived, and why."""
    line: Count = 0
    """Of the rule in the file, from 1; 0 for a default rule."""


class Verdict(_Stored):
    """What the gate says of the run."""

    state: VerdictState
    sentence: str
    """Effect, interval and cause in one sentence."""
    informational: bool
    exit_code: int
    rules: tuple[RuleOutcome, ...] = ()


class Environment(_Stored):
    """Where the run was made."""

    python: str
    platform: str
    cpu: str
    cores: int
    gpu: str
    """Name and driver; ``none``."""
    versions: dict[str, str]
    """Distribution → version."""
    codecs: dict[str, str]
    """Library → JPEG codec build it runs, where it says."""
    flags: dict[str, str]
    """TF32, determinism, threads: settings that change numbers."""
    git: str
    """Revision of the folder the run was started in, ``-dirty`` if changed; empty outside git."""


class DataFacts(_Stored):
    """The data set."""

    name: str
    options: dict[str, Any]
    train: Count
    eval: Count
    classes: tuple[str, ...]
    fingerprint: str
    version: str
    notes: tuple[str, ...] = ()


class RunRecord(_Stored):
    """Everything a report or a gate needs of a run."""

    format: Literal[1] = FORMAT
    alignkit: str
    """Version that wrote it."""
    name: str
    question: str
    key: str
    """Content hash of the plan."""
    command: str
    """Reproduces the run."""
    yaml: str
    overrides: tuple[str, ...]
    started: str
    """UTC, ISO 8601."""
    seconds: float
    """Of this invocation; cached work took its time before."""
    partial: bool
    """Interrupted before every cell was done."""
    environment: Environment
    data: DataFacts
    paths: tuple[PathFacts, ...]
    """Reference first."""
    coverage: tuple[Coverage, ...]
    trainings: tuple[TrainingFacts, ...]
    cells: tuple[Cell, ...]
    matrix: tuple[MatrixEntry, ...]
    noise_floor: tuple[NoiseFloor, ...]
    controls: tuple[Control, ...]
    pixels: tuple[PixelStage, ...]
    worst: tuple[WorstImage, ...]
    verdict: Verdict
    attributions: tuple[AttributionFacts, ...] = ()
    coverage_diffs: tuple[CoverageDiff, ...] = ()
    baseline: BaselineFacts | None = None
    images: tuple[ImageTableFacts, ...] = ()


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write ``record.json`` into a run's folder, atomically, and return its path."""
    from alignkit.workspace import write_atomically

    path = folder / "record.json"
    write_atomically(path, record.model_dump_json(indent=1))
    return path


def read_record(folder: Path) -> RunRecord:
    """Read a run's record, upgraded to this format.

    Raises `RecordError` if it is missing, damaged or of a newer format.
    """
    path = folder if folder.is_file() else folder / "record.json"
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        raise RecordError(
            f"no record.json in {folder}; give the folder of a finished run"
        ) from None
    except (ValueError, OSError) as error:
        raise RecordError(f"{path} cannot be read ({error}); run the experiment again") from None
    found = stored.get("format") if isinstance(stored, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise RecordError(
            f"{path} has format {found}, this alignkit reads up to {FORMAT}; update alignkit"
        )
    try:
        return RunRecord.model_validate(stored)
    except ValidationError as error:
        raise RecordError(f"{path} is damaged: {error.errors()[0]['msg']}; run it again") from None
