"""`DiffRecord`: the result of `alignkit diff`. Its JSON alone renders the page.

Counts and sums are of the images of which both paths of a pair gave pixels. The coverage, which
comes first, says how many those are and which are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alignkit.record import (
    Count,
    Coverage,
    CoverageDiff,
    Environment,
    KnownEffect,
    Mechanism,
    PathFacts,
    PixelStage,
    PlaneStage,
    ShownImage,
    SpatialFacts,
    Stored,
)
from alignkit.record.document import document_text, stored_document
from alignkit.record.drift_facts import LogitDistance, MarginDrift, MovedImage
from alignkit.record.pixel_facts import OfShapes, PixelTotals, added_totals
from alignkit.record.stored import Estimate, Real
from alignkit.stored_file import write_atomically
from alignkit.task_facts import CLASSIFICATION, TaskFacts


class ImageSet(Stored):
    """The images compared."""

    source: str
    """The images as the command line names them, and from how many ``--limit`` drew them."""
    images: Count
    fingerprint: str
    """SHA-256 hex over names and contents."""
    copies: Count = 0
    """Images that the reference decodes to the pixels of an earlier one."""


class KindCount(Stored):
    """The number of images of a kind."""

    dimension: str
    """``subsampling``, ``quality``, …: see `alignkit.preprocess.image_kinds`."""
    kind: str
    images: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceFacts(OfShapes, PixelTotals):
    """How far images are apart at one stage, in grey levels 0..255."""

    shape_mismatches: Count = 0
    """Images whose two arrays differ in shape: not compared."""

    def __add__(self, other: DistanceFacts) -> DistanceFacts:
        """Add another group of images."""
        mismatches = self.shape_mismatches + other.shape_mismatches
        return DistanceFacts(**added_totals(self, other), shape_mismatches=mismatches)


class KindDrift(KindCount):
    """One kind of image on a pair of paths, of which ``images`` may not all be compared."""

    decode: DistanceFacts
    last: DistanceFacts
    """Of the pixels before normalisation: resized, cropped, in the model's colours."""


class ImageDrift(Stored):
    """One image on a pair of paths."""

    id: str
    mean_abs: Real
    """Like ``max_abs``, of the pixels before normalisation."""
    max_abs: Real
    decode_mean_abs: Real | None
    """``None`` if the decodes differ in shape."""
    ssim: Real | None
    kinds: dict[str, str]
    """Dimension → kind."""


class StageCause(Stored):
    """A stage that gives other pixels for the same input, and the options that differ in it."""

    stage: str
    begun: Count
    """Images that this stage is the first to change, each path on its own."""
    change: str
    """Implementation or options, reference → candidate; empty if both paths have the same."""


class StageFlips(Stored):
    """The reference path with one part taken from the candidate."""

    factor: str
    """A stage, or stages that cannot be taken apart."""
    flips: Count
    churn: Estimate
    mean_abs: Real | None
    """Mean |Δ logit|; ``None`` if no output is finite, or without class scores."""


class ClassFlips(Stored):
    """Images whose predicted class changes from one class to another."""

    before: str
    after: str
    images: Count


class PredictionDrift(Stored):
    """A model's predictions along a candidate path against those along the reference."""

    n: Count
    """Images predicted on both paths, with finite outputs."""
    non_finite: Count = 0
    """Images with a NaN or infinite output on either path: they are not judged."""
    left_out: Count
    """Images that some mixture of the paths cannot prepare."""
    left_out_reason: str = ""
    """Of the first of them."""
    flips: Count
    """Images whose predicted class, or answer, changes."""
    churn: Estimate
    """Share of ``n``, with its 95 % interval over images."""
    logits: LogitDistance
    margins: MarginDrift | None
    """``None`` for a task without class scores."""
    measures: dict[str, Estimate] = {}
    """Name → difference of the answers that the task measures, such as the share of lost boxes."""
    stages: tuple[StageFlips, ...]
    """Each part in turn; empty if the paths differ in one alone, or in none."""
    classes: tuple[ClassFlips, ...]
    """Most frequent first."""
    moved: tuple[MovedImage, ...]
    """The images that flip, then those that lose most of their margin."""


class GivenModel(Stored):
    """The model that predicted."""

    name: str
    sha256: str
    """Of its file; empty for published weights by name."""
    runtime: str
    """The runtime as it ran, with its precision."""
    outputs: Count
    size: tuple[Count, Count] | None = None
    """(height, width) of its input, if its file fixes them."""
    recognised: str = ""
    """Which outputs are decoded, and how, in words; empty for a classifier."""


class PairDiff(Stored):
    """A candidate path against the reference."""

    reference: str
    candidate: str
    state: Literal["measured", "skipped"]
    reason: str = ""
    """Why nothing was measured."""
    compared: Count = 0
    """Images that both decoded."""
    sentence: str = ""
    """The stages that differ first and most, and by how much, in words."""
    first: str | None = None
    """The first stage that differs on the same input."""
    largest: str | None = None
    """The stage with the greatest mean difference on the same input."""
    stages: tuple[PixelStage, ...] = ()
    spatial: tuple[SpatialFacts, ...] = ()
    """Where stages differ on the same input, and by which mechanism."""
    planes: tuple[PlaneStage, ...] = ()
    """Empty unless they were asked for."""
    kinds: tuple[KindDrift, ...] = ()
    worst: tuple[ImageDrift, ...] = ()
    """Greatest mean difference first."""
    causes: tuple[StageCause, ...] = ()
    """Stages that change anything, in their order."""
    mechanism: Mechanism | None = None
    """The known mechanism that explains most; ``None`` if the paths differ in no known one."""
    predictions: PredictionDrift | None = None
    """``None`` without a model."""
    matter: tuple[str, ...] = ()
    """Whether it matters, in sentences: flips of the model, or known effects of about this size."""
    effects: tuple[KnownEffect, ...] = ()
    """Those effects; empty with a model."""

    @property
    def shows_nothing(self) -> bool:
        """Whether no image was compared, or no change of the model's answers could show."""
        return not self.compared or bool(self.predictions and self.predictions.churn.value is None)


class StressDiff(Stored):
    """The same comparison after the images were encoded again."""

    name: str
    """``4:2:0 q90``."""
    encoder: str
    """The library that encoded, from the pixels that the reference path decodes."""
    pairs: tuple[PairDiff, ...]


class DiffRecord(Stored):
    """Everything a page or a script needs of a comparison."""

    format: Literal[2] = 2
    # 1: 2026-11, first format. 2: 2026-11, kinds of images have sums instead of ratios.
    kind: Literal["diff"] = "diff"  # a run's record has no kind, so the two cannot be mistaken
    alignkit: str
    """Version that wrote it."""
    command: str
    """Shell command that reproduces it."""
    started: str
    """UTC, ISO 8601."""
    seconds: Real
    environment: Environment
    data: ImageSet
    limits: dict[str, Real]
    """``max_pixels``, ``seconds`` an image may take on a path, ``memory`` in bytes."""
    paths: tuple[PathFacts, ...]
    """Reference first."""
    coverage: tuple[Coverage, ...]
    """Coverage of ``eval``, which holds all images."""
    coverage_diffs: tuple[CoverageDiff, ...]
    census: tuple[KindCount, ...]
    pairs: tuple[PairDiff, ...]
    stress: tuple[StressDiff, ...] = ()
    model: GivenModel | None = None
    task: TaskFacts = CLASSIFICATION
    """Of the model."""
    shown: tuple[ShownImage, ...] = ()
    """With pictures, which lie beside a page; empty in a JSON file alone."""

    @property
    def covers_alike(self) -> bool:
        """Whether every path gives pixels of the same images."""
        return not any(each.only_reference or each.only_candidate for each in self.coverage_diffs)


def write_diff_record(record: DiffRecord, path: Path) -> None:
    """Write the JSON, atomically."""
    write_atomically(path, document_text(record))


def read_diff_record(path: Path) -> DiffRecord:
    """Read one back; raises `RecordError` if it is missing, damaged, newer or another record."""
    missing = f"{path} does not exist; write it with --out json={path}"
    return stored_document(path, DiffRecord, missing=missing, again="run the comparison again")
