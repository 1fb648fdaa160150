"""Types that are stored: documents such as `RunRecord`, and the facts in them, pictures included.

The `record.json` of a run alone renders its report. Arrays and pictures lie beside it; an
`Artifact` names each by relative path and SHA-256. Counts are stored, ratios derived from them; a
value that could not be computed is ``null`` beside its reason.
"""

from __future__ import annotations

from typing import Literal, Self

from alignkit.place import Column, Place, Row, first_of
from alignkit.record.blame_facts import (
    AdviceFacts,
    AttributionFacts,
    FactorShare,
    FlippedFacts,
    KnownEffect,
    Mechanism,
    MitigationFacts,
    SpatialFacts,
    Subgroup,
)
from alignkit.record.cell_facts import (
    Cell,
    ClassCounts,
    EngineFacts,
    MatrixEntry,
    MixFacts,
    NoiseFloor,
    SizeCurve,
    SizePoint,
)
from alignkit.record.drift_facts import (
    BatchCheck,
    BuildSpread,
    ClassDrift,
    Drift,
    DriftChange,
    FactRow,
    FactTable,
    Figure,
    LogitDistance,
    MarginDrift,
    Mark,
    MovedImage,
    Neighbour,
    Neighbours,
    NumericDrift,
    QuantisedDrift,
    Series,
    StandardError,
)
from alignkit.record.path_facts import (
    Coverage,
    CoverageDiff,
    DataFacts,
    Environment,
    Epoch,
    NotDecoded,
    PathFacts,
    StageFacts,
    TrainingFacts,
)
from alignkit.record.pixel_facts import (
    Drawn,
    DrawnBox,
    DrawnPair,
    ImageTableFacts,
    PictureMap,
    PixelStage,
    PlaneStage,
    ServedPredictions,
    ShownImage,
    ShownPair,
    ShownStage,
    Thumbnail,
)
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
from alignkit.record.verdict_facts import Control, Finding, NextStep, RuleOutcome, Verdict
from alignkit.task_facts import CLASSIFICATION, TaskFacts


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


class Measurements(Stored):
    """Everything that rules read of a run, and of any other comparison that is judged."""

    overrides: tuple[str, ...] = ()
    """``--set`` arguments, as given."""
    quick: tuple[str, ...] = ()
    """Each value that ``--quick`` made smaller, in words; empty for the experiment as it is."""
    partial: bool = False
    """Whether it was interrupted before every cell was done."""
    command: Command | Literal[""] = ""
    """Shell command that reproduces it; empty where a function compared."""
    data: DataFacts | None = None
    task: TaskFacts = CLASSIFICATION
    paths: tuple[PathFacts, ...] = ()
    """Reference first; without them, every path that was compared counts."""
    coverage: tuple[Coverage, ...] = ()
    cells: tuple[Cell, ...] = ()
    matrix: tuple[MatrixEntry, ...] = ()
    noise_floor: tuple[NoiseFloor, ...] = ()
    pixels: tuple[PixelStage, ...] = ()
    attributions: tuple[AttributionFacts, ...] = ()
    spatial: tuple[SpatialFacts, ...] = ()
    """Where each pair's stages differ on the same input, and by which mechanism."""
    advice: tuple[AdviceFacts, ...] = ()
    """Advised configurations, with the drift expected and confirmed after each."""
    coverage_diffs: tuple[CoverageDiff, ...] = ()
    baseline: BaselineFacts | None = None
    groups: tuple[GroupFacts, ...] | None = None
    """``None`` where subgroups are left to the gate."""

    @property
    def labelled(self) -> bool:
        """Whether the metrics of the task have values: the images have labels, or need none."""
        return self.data is None or bool(self.data.classes) or not self.task.needs_labels

    @property
    def own_part(self) -> Self:
        """All but the advised paths: nobody serves along them yet, and no rule is about them."""
        left_out = {each.advised for each in self.advice}

        def kept(each: Cell | MatrixEntry) -> bool:
            return not left_out & {each.evaluated_with, *each.row.preprocesses}

        return self.model_copy(
            update={
                "matrix": tuple(filter(kept, self.matrix)),
                "cells": tuple(filter(kept, self.cells)),
                "paths": tuple(path for path in self.paths if path.name not in left_out),
            }
        )

    @property
    def reference(self) -> str:
        """Name of the reference path; empty if there is none."""
        return next(iter(self._names()), "")

    @property
    def candidates(self) -> list[str]:
        """Names of the paths to be compared with it."""
        repeats = self.repeats
        return [name for name in self._names()[1:] if name not in repeats]

    @property
    def repeats(self) -> list[str]:
        """Names of paths that have the reference's stages and options, and not on purpose."""
        return [name for name in self._names()[1:] if self.alike(self.reference, name)]

    def alike(self, a: str, b: str) -> bool:
        """Return whether two paths are the same, and not on purpose."""
        known = {each.name: each for each in self.paths}
        pair = [known[name] for name in (a, b) if name in known]
        same = len({each.same_as or each.name for each in pair}) == 1
        return a == b or (len(pair) == 2 and same and not any(each.same for each in pair))

    def _names(self) -> list[str]:
        compared = (name for each in self.pixels for name in (each.reference, each.candidate))
        return list(dict.fromkeys([path.name for path in self.paths] or compared))

    @property
    def skipped(self) -> dict[str, str]:
        """Path → why it cannot run here."""
        return {path.name: path.skipped for path in self.paths if path.skipped}

    @property
    def own_row(self) -> Row | None:
        """The row whose models shares and advice are measured of, of several on the reference."""
        return first_of((each.row for each in self.matrix), self.reference)

    def aligned(self, row: Row) -> MatrixEntry | None:
        """Find a row's aligned entry; ``None`` without one."""
        return next((each for each in self.matrix if each.aligned and each.row == row), None)

    def at(self, place: Place) -> MatrixEntry | None:
        """Find the entry of a place; ``None`` without one."""
        return next((each for each in self.matrix if each.place == place), None)

    def attribution(self, place: Place, metric: str) -> AttributionFacts | None:
        """Find the shares of a metric's change at a place; ``None`` if none were measured."""
        return next(
            (
                each
                for each in self.attributions
                if place.column == Column(each.candidate, each.backend, each.precision)
                and place.row.is_only(each.reference)
                and each.metric == metric
                and each.shares
            ),
            None,
        )

    @property
    def compared(self) -> list[MatrixEntry]:
        """The entries whose predictions were compared with their row's aligned ones."""
        return [
            entry
            for entry in self.matrix
            if not entry.aligned and entry.drift and entry.drift.changed is not None
        ]


class RunRecord(Measurements):
    """Everything a report or a gate needs of a run."""

    format: Literal[3] = 3
    # 1: 2026-11, first format. 2: 2026-11, a verdict holds data instead of sentences.
    # 3: 2026-11, shares and kinds of images are without sentences.
    alignkit: str
    """Version that wrote it."""
    name: str
    question: str
    key: str
    """Content hash of the plan."""
    command: Command
    yaml: str
    started: str
    """UTC, ISO 8601."""
    seconds: Real
    """Duration of this invocation, without the work that was stored before."""
    environment: Environment
    data: DataFacts
    trainings: tuple[TrainingFacts, ...]
    controls: tuple[Control, ...]
    shown: tuple[ShownImage, ...]
    shown_pairs: tuple[ShownPair, ...] = ()
    """The pairs of paths between which predictions were compared."""
    thumbnails: tuple[Thumbnail, ...] = ()
    """Of images that ``neighbours`` of a drift name, as many as fit."""
    verdict: Verdict
    flipped: tuple[FlippedFacts, ...] = ()
    """For each candidate path, the kinds of image that flip more often than others."""
    images: tuple[ImageTableFacts, ...] = ()
    training_sizes: tuple[SizeCurve, ...] = ()
    """Curves of the entries that were measured with several shares of the training images."""
    mixes: tuple[MixFacts, ...] = ()
    """Drift of models trained on a mix of paths."""
    stages: Artifact | None = None
    """Lines of a baseline, which a later gate compares with; see `alignkit.baseline`."""
    cell_table: Artifact | None = None
    """``cells`` as Parquet; see `alignkit.text.run_columns`."""

    @property
    def headline(self) -> int | None:
        """Index of the entry that the verdict speaks of; ``None`` if it has no drift."""
        if (first := self.verdict.first) is None:
            return None
        same = (i for i, each in enumerate(self.matrix) if each.place == first.place and each.drift)
        return next(same, None)
