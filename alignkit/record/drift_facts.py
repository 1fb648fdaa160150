"""Stored types of a comparison of two cells: distances of outputs, figures, tables, and drift."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from alignkit.record.stored import STRICT, Count, Estimate, Real, Stored

DriftMetric = Literal["churn", "recall.macro", "precision.macro"]
DRIFT_METRICS: tuple[DriftMetric, ...] = get_args(DriftMetric)  # one list for types and for loops
ALPHA = 0.05
"""A corrected p-value below it is significant."""
Scale: TypeAlias = Literal["linear", "log"]
FigureSide: TypeAlias = Literal["reference", "candidate", ""]
"""The side of the comparison that a line describes; empty for neither."""
CellUnit: TypeAlias = Literal["share", "points", "value"]
"""A fraction shown in percent, a difference of fractions shown in points, a number as it is."""


@dataclass(frozen=True, slots=True)
class LogitDistance:
    """Distance of two models' outputs on the same images; |Δ| is taken logit by logit."""

    __pydantic_config__ = STRICT

    max_abs: Real | None
    mean_abs: Real | None
    cosine: Real | None
    """Mean over images whose logits are not all zero."""
    reason: str = ""
    """Why a distance is ``None``."""
    p50: Real | None = None
    p99: Real | None = None
    p99_9: Real | None = None
    """Quantiles of |Δ|, linear between order statistics."""
    compared: Count = 0
    """Images whose outputs are finite on both sides."""
    inside: dict[str, Count] = field(default_factory=dict)
    """Tolerance → images none of whose logits differ by more."""
    same_top: dict[str, Count] = field(default_factory=dict)
    """k → images whose k most likely classes are the same, in any order; only for k less than the
    number of classes."""


class NumericDrift(Stored):
    """Drift from the runtime alone: compared with the reference runtime on the same tensors."""

    n: Count
    """Images, times seeds if several are joined."""
    flips: Count
    """Images whose predicted class differs."""
    non_finite: Count
    """Images with a NaN or infinite output on either side."""
    logits: LogitDistance


class QuantisedDrift(Stored):
    """The drift of a runtime's own int8, divided at the same graph executed unfused in float32."""

    unfused: str
    """The runtime that executed it unfused, as in a column's name."""
    quantisation: NumericDrift
    """From the reference runtime to the unfused graph."""
    kernel: NumericDrift
    """From the unfused graph to the kernels of this runtime."""


@dataclass(frozen=True, slots=True)
class MarginDrift:
    """Margins that another path or runtime leaves: how near images are to another class.

    The margin is the logit of the class that the reference predicts less the greatest other one. Of
    it an image loses a share: 1 or more if its class changes, less than 0 if it grows.
    """

    __pydantic_config__ = STRICT

    compared: Count
    """Images with finite logits on both sides and a margin above 0 in the reference."""
    halved: Count
    """Images that keep their class and lose half of their margin or more."""
    p50: Real | None
    """Median of the share lost."""
    p99: Real | None
    reason: str = ""
    """Why there is no share."""


@dataclass(frozen=True, slots=True)
class MovedImage:
    """One image as the reference and the candidate predict it."""

    __pydantic_config__ = STRICT

    id: str
    before: str
    """Name of the output that the reference predicts."""
    after: str
    max_abs: Real | None
    """Greatest |Δlogit|; ``None`` if a logit is not finite, or not kept."""
    margin: Real | None
    """In the reference, in logits; see `MarginDrift`."""
    lost: Real | None
    """Share of the margin that is lost; ``None`` without one above 0, or if a logit is not kept."""


class BatchCheck(Stored):
    """The same session with one image at a time and with a batch of them."""

    images: Count = 0
    """Images that were predicted again, one at a time."""
    batch: Count = 0
    """Size of the batch that they were in."""
    max_abs: Real | None = None
    """Greatest |Δlogit|."""
    relative: Real | None = None
    """See `alignkit.predict.check_batches.dependence`."""
    flips: Count = 0
    reason: str = ""
    """Why there is no distance."""


class BuildSpread(Stored):
    """The same model exported, converted, built and loaded several times."""

    builds: Count
    images: Count = 0
    max_abs: Real | None = None
    """Greatest difference of a logit between any two builds."""
    mean_abs: Real | None = None
    """Mean over logits of the difference between the builds that are farthest apart."""
    flips: Count = 0
    """Images whose predicted class is not the same in every build."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a figure."""

    __pydantic_config__ = STRICT

    name: str
    x: tuple[Real, ...]
    """Ascending."""
    y: tuple[Real, ...]
    """As many as ``x``."""
    side: FigureSide = ""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{self.name}: {len(self.x)} x and {len(self.y)} y")


@dataclass(frozen=True, slots=True)
class Mark:
    """A position on the x axis with its words, such as a threshold."""

    __pydantic_config__ = STRICT

    x: Real
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Lines over a common x axis."""

    __pydantic_config__ = STRICT

    name: str
    """Unique among the figures of a pair, in lower case with hyphens."""
    title: str
    x_label: str
    y_label: str
    x_scale: Scale = "linear"
    """With ``log`` every x is above 0."""
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """A sentence or two below the figure."""

    def __post_init__(self) -> None:
        places = [x for each in self.series for x in each.x] + [each.x for each in self.marks]
        if self.x_scale == "log" and min(places, default=1.0) <= 0:
            raise ValueError(f"{self.name}: {min(places)} on a logarithmic axis")


@dataclass(frozen=True, slots=True)
class FactRow:
    """A row of a `FactTable`."""

    __pydantic_config__ = STRICT

    label: str
    cells: tuple[Estimate, ...]
    """One of each column."""
    unit: CellUnit = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTable:
    """Estimates in rows and columns."""

    __pydantic_config__ = STRICT

    name: str
    """Unique among the tables of a pair, in lower case with hyphens."""
    title: str
    columns: tuple[str, ...]
    """Heads of the cells; the column of labels has none."""
    rows: tuple[FactRow, ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"{self.name}, {row.label}: {len(row.cells)} cells in {len(self.columns)} "
                    "columns"
                )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An image among those most similar to another one."""

    __pydantic_config__ = STRICT

    id: str
    similarity: Real
    """1 for the same direction, −1 for the opposite."""
    right: bool | None
    """Whether it shows the same as the other image; ``None`` if that is not known."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The images most similar to one image, before and after; the most similar first."""

    __pydantic_config__ = STRICT

    query: str
    """Id of the image."""
    before: tuple[Neighbour, ...]
    """By the reference."""
    after: tuple[Neighbour, ...]
    """By the candidate."""


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
