"""Stored types of evaluations: cells, their drift, the matrix, and comparisons of its entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from alignkit.record.figure_facts import FactTable, Figure, Neighbours
from alignkit.record.numeric_facts import (
    BatchCheck,
    BuildSpread,
    LogitDistance,
    MarginDrift,
    MovedImage,
    NumericDrift,
    QuantisedDrift,
)
from alignkit.record.stored import STRICT, Artifact, Count, Estimate, Placed, Real, State, Stored

DriftMetric = Literal["churn", "recall.macro", "precision.macro"]
DRIFT_METRICS: tuple[DriftMetric, ...] = get_args(DriftMetric)  # one list for types and for loops
OWN_GRAPH = "graph"
"""Fact in ``effective`` of a cell that ran the user's own ONNX file, beside the model's weights."""
ALPHA = 0.05
"""A corrected p-value below it is significant."""


class ClassCounts(Stored):
    """Confusion counts of one class."""

    name: str
    true_positive: Count
    false_positive: Count
    false_negative: Count


@dataclass(frozen=True, slots=True)
class ClassDrift:
    """Drift of one class; ``None`` with its reason if a side does not define a ratio."""

    __pydantic_config__ = STRICT

    name: str
    support: Count
    """Images of the class; of other tasks the objects, labels or pixels."""
    recall: Estimate
    precision: Estimate
    others: dict[str, Estimate] = field(default_factory=dict)
    """The task's further metrics by class: ``iou``, ``ap50``."""
    images: Count | None = None
    """Images, or groups of those that depend on each other, that show the class, where they are not
    as many as ``support``."""

    @property
    def drawn(self) -> int:
        """These images or groups."""
        return self.support if self.images is None else self.images


@dataclass(frozen=True, slots=True)
class StandardError:
    """Standard errors of an estimate, as fractions."""

    __pydantic_config__ = STRICT

    images: Real
    """Standard error over the choice of images."""
    seeds: Real
    """Standard error over the choice of seeds; 0 for a single seed, which has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Paired differences of a cell from the aligned cell of its row, joined over seeds."""

    __pydantic_config__ = STRICT

    n: Count
    """Images that both decoded, times seeds if several are joined."""
    metrics: dict[str, Estimate]
    """Changes of the task's metrics: ``top1``, ``recall.macro``, ``map50``, ``miou``, …"""
    churn: Estimate
    """Share of images whose answer is another one; 1 − top-1 agreement of classes."""
    right_to_wrong: Count | None
    """Images whose answer is worse, by the task's ``quality``. ``None``, as the next three, if the
    images have no labels: ``metrics`` say so."""
    wrong_to_right: Count | None
    """Better."""
    wrong_to_wrong: Count | None
    """Changed and as good or bad: wrong before and after, with another class."""
    detectable: Real | None
    """Smallest change of the mean quality of an answer (of classes: top-1) that this sample detects
    with 80 % power at the 5 % level."""
    measures: dict[str, Estimate] = field(default_factory=dict)
    """The task's differences that are no change of a metric: ``boxes.lost``, ``pixel_churn``, …"""
    asked: Count | None = None
    """Images of ``n`` whose answers were compared, where they are not all."""
    defined_by: dict[str, Count] = field(default_factory=dict)
    """Metric or measure → images, or groups, that it is made of, where they are not all: those with
    a box, of a share of boxes."""
    groups: Count | None = None
    """Groups of images that a resample draws whole, such as the images of an identity; ``None`` if
    it draws images."""
    p_values: dict[str, Real] = field(default_factory=dict)
    """Two-sided p-values of no change in ``metrics``, not corrected for other comparisons."""
    mcnemar_p: Real | None
    """Exact and two-sided. With several seeds, an image counts once: for the direction in which it
    flipped in more of them."""
    logits: LogitDistance
    margins: MarginDrift | None = None
    """``None`` where no logits are known."""
    moved: tuple[MovedImage, ...] = ()
    """The images nearest to another class, or with another one: the greatest share of the margin
    lost first, at most 20, each in the seed in which it loses most."""
    classes: tuple[ClassDrift, ...] = ()
    non_finite: Count = 0
    """Images with a NaN or infinite output."""
    non_finite_once: Count = 0
    """Images whose output is finite on one side only."""
    non_finite_changed: Count = 0
    """Images whose output is finite on one side only and whose answer changed."""
    errors: dict[str, StandardError] = field(default_factory=dict)
    """Standard errors of ``metrics`` and of ``churn``."""
    holm: dict[str, Real] = field(default_factory=dict)
    """``p_values`` corrected (Holm) for the comparisons of the matrix, each metric for itself."""
    figures: tuple[Figure, ...] = ()
    """Figures that the task gives; most tasks give none."""
    tables: tuple[FactTable, ...] = ()
    remarks: tuple[str, ...] = ()
    """Advice that the task gives, each a sentence or two."""
    neighbours: tuple[Neighbours, ...] = ()
    """Images whose most similar one is another, the worst first."""

    @property
    def compared(self) -> int:
        """Images whose answers were compared, times seeds: churn is a share of them."""
        return self.n if self.asked is None else self.asked

    @property
    def changed(self) -> int | None:
        """Images whose predicted class differs; ``None`` if churn, their share, is not known."""
        return None if self.churn.value is None else round(self.churn.value * self.compared)

    def of(self, metric: str) -> Estimate:
        """Return the change in one of ``metrics``, one of ``measures``, or the churn."""
        if metric == "churn":
            return self.churn
        return self.measures[metric] if metric in self.measures else self.metrics[metric]

    def is_significant(self, metric: str) -> bool | None:
        """Return whether its change is more than chance explains; ``None`` if it was not tested."""
        return self.holm[metric] < ALPHA if metric in self.holm else None


@dataclass(frozen=True, slots=True)
class DriftChange:
    """A drift that was measured twice, of the same images and seeds; fractions."""

    __pydantic_config__ = STRICT

    before: Estimate
    """Drift in one of the metrics of `Drift`, or churn."""
    after: Estimate
    change: Estimate
    """``after`` less ``before``, paired by image and seed."""
    p: Real | None = None
    """Two-sided p-value of no change; ``None`` where it was not tested."""

    @property
    def is_shown(self) -> bool:
        """Whether the change is more than chance explains."""
        return self.p is not None and self.p < ALPHA


class EngineFacts(Stored):
    """An engine that was built here and not run: nothing is known of its predictions."""

    library: str
    """Distribution and version that built it."""
    sha256: str
    """Of the file ``model.engine``: the engine that a machine with a GPU must run."""
    size: Count
    """Bytes of the file."""
    layers: dict[str, dict[str, Count]]
    """Type → kind of layer → layers that compute on it, as the library names them; a layer that
    reads several types counts for each."""
    moving: Count
    """Layers that only copy, convert or synchronise."""
    fingerprint: str
    """SHA-256 of all layers in order, without the library's names: kinds, operations, types, shapes
    and ONNX nodes. Two builds of a graph may differ in bytes and not in their layers."""


REFERENCE_ENDED = "the cell it is compared with did not run: "
"""Beginning of the reason of an entry whose reference ended so."""


class Evaluated(Placed):
    """The outcome of one evaluation, or of those of all seeds."""

    aligned: bool
    state: State
    reason: str = ""
    simulation: str = ""
    """How its numbers were simulated, and what is unknown of them; empty if a runtime computed in
    its precision, or if it did not run."""

    @property
    def ran(self) -> bool:
        """Whether it has numbers, measured or simulated."""
        return self.state in ("measured", "simulated")


class Cell(Evaluated):
    """One evaluation: a training's model under a path, a backend and a precision."""

    seed: int
    key: str
    traceback: str = ""
    n: Count = 0
    metrics: dict[str, Real | None] = {}
    """Absolute values of the metrics that ``Drift`` compares; ``None`` of images without labels."""
    counts: tuple[ClassCounts, ...] = ()
    class_values: dict[str, tuple[Real | None, ...]] = {}
    """The task's further metrics by class, in the order of ``counts``."""
    effective: dict[str, str] = {}
    """Settings that really ran: provider, precision, TF32, inserted casts."""
    predictions: Artifact | None = None
    drift: Drift | None = None
    """Against the aligned cell of the same row and seed; ``None`` for that cell itself."""
    fraction: Real = 1.0
    """Share of the training images its model saw; ``trained_with`` names it too."""
    inputs: str = ""
    """XXH3, 128 bits, of the backend's input tensors, image by image in the data's order."""
    non_finite: Count = 0
    """Images with a NaN or infinite output."""
    batch: BatchCheck | None = None
    numeric: NumericDrift | None = None
    """Against the same model and path in the row's reference runtime; ``None`` for that itself."""
    quantised: QuantisedDrift | None = None
    """``numeric`` divided; only for an int8 graph that was also executed unfused."""
    builds: BuildSpread | None = None
    """If the experiment asks for several; on the path that the model was trained with."""
    engine: EngineFacts | None = None
    """In the state ``built``."""
    unsuited: bool = False
    """Skipped on every machine: the backend does not run this kind of model, or the endpoint serves
    another. Nothing is missing, and no rule applies."""


class MatrixEntry(Evaluated):
    """The cells of all seeds joined."""

    seeds: tuple[int, ...] = ()
    metrics: dict[str, Real | None] = {}
    """Mean over seeds of the absolute values."""
    drift: Drift | None = None
    """Joined over seeds, images resampled together; ``None`` for the aligned entry."""
    fraction: Real = 1.0
    numeric: NumericDrift | None = None
    """Drift from the runtime alone, joined over seeds; ``None`` in the reference runtime."""
    quantised: QuantisedDrift | None = None
    """As `Cell.quantised`, joined over seeds."""
    non_finite: Count = 0
    """Images with a NaN or infinite output, summed over seeds."""
    batch: BatchCheck | None = None
    """The check of the seed in which batch size matters most."""
    builds: BuildSpread | None = None
    """The builds of the seed whose builds differ most."""
    engines: tuple[EngineFacts, ...] = ()
    """Engines of the seeds in the state ``built``, in the order of the cells."""
    unsuited: bool = False
    """As `Cell.unsuited`, in every seed."""
    warning: str = ""
    """Warning of the first session whose logits are valid on this machine alone."""

    @property
    def churn(self) -> float:
        """Share of predictions that change; 0 where none were compared."""
        # a number always, so that entries can be sorted
        return (self.drift and self.drift.churn.value) or 0.0

    @property
    def changes(self) -> bool:
        """Whether an answer or a metric is another than in the aligned entry."""
        drift = self.drift
        return bool(self.churn or (drift and any(each.value for each in drift.metrics.values())))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Differences of a path's aligned cell between trainings that differ only in their seed."""

    __pydantic_config__ = STRICT

    preprocess: str
    seeds: tuple[int, ...]
    metrics: dict[str, Real]
    """Metric that every seed's model defines → greatest minus least value over seeds."""
    churn: Real
    """Mean disagreement of two seeds' models on the same images."""


class SizePoint(Stored):
    """The drift of models trained on so many images."""

    fraction: Real
    images: Count
    seeds: Count
    drift: Estimate
    """The matrix entry's own."""


class SizeCurve(Placed):
    """One entry of the matrix over the shares of the training images; its row has all of them."""

    metric: DriftMetric
    points: tuple[SizePoint, ...]
    """By growing training set, two or more."""
    change: Estimate
    """Drift with the fewest images less that with the most, paired by seed and image."""


class MixFacts(Stored):
    """The drift of a mix's models beside that of its first path's own, served with another path."""

    metric: DriftMetric
    mix: str
    """The row."""
    alone: str
    """The row of the mix's first path."""
    evaluated_with: str
    in_mix: bool
    """Whether training images of the mix came from that path too."""
    backend: str
    precision: str
    mixed: Estimate
    single: Estimate
    change: Estimate
    """``mixed`` less ``single``, paired by seed and image."""
