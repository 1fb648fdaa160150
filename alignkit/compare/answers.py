"""`Answers`: all that a comparison asks of one model's stored answers to images, for every task.

Everything that is compared is a function of weights of the images: ones give the measured value,
and each column of a resample's draws gives its value in that resample. So pairing, intervals, noise
floors and attribution are the same for every task, whether its metrics are ratios of sums over
images or not.

Two answers to the same images are compared by several questions:

| member | question about each image | asked by |
|---|---|---|
| `changed` | is the answer another one, as the task defines it? | `churn`, lists of images, kinds |
| `differs` | may it move any metric? | the number of images behind a p-value |
| `apart` | how far did the answer move? | the order of lists, logits in the attribution |
| `quality` | how good is the answer? | worse and better, the sign test, detectable effects |
| `finite` | are all outputs finite? | the count of images with NaN or infinity |
| `unlike` | may the two be compared? asked once, of all images | `aligned`, before all else |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.metrics import ClassCountArrays, ratio
from alignkit.errors import DataError, NothingCompared
from alignkit.record import Estimate, LogitDistance, NoiseFloor

Weights = npt.NDArray[np.float32]
"""(images, draws): how often a draw takes each image."""


class Weighted(Protocol):
    """A number that weights of images decide."""

    def of(self, weights: Weights) -> FloatArray:
        """Compute it, (draws,), under weights (n, draws); NaN where it is undefined."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RatioOfSums:
    """A ratio of sums over images, such as a share of lost boxes or their mean shift."""

    above: FloatArray
    """(n,), what each image adds to the numerator."""
    below: FloatArray | None = None
    """(n,), and to the denominator; ``None`` for a mean over images."""

    def of(self, weights: Weights) -> FloatArray:
        """Compute the ratio, (draws,), under weights; NaN where its denominator is 0."""
        # a draw takes as many images as there are
        below = float(len(self.above)) if self.below is None else _weighted(self.below, weights)
        return ratio(_weighted(self.above, weights), np.asarray(below))

    @classmethod
    def joined(cls, parts: Sequence[RatioOfSums]) -> RatioOfSums:
        """Join the sums of different images, in the order given."""
        below = [part.below for part in parts if part.below is not None]
        above = np.concatenate([part.above for part in parts])
        return cls(above, np.concatenate(below) if below else None)


def _weighted(values: FloatArray, weights: Weights) -> FloatArray:
    # mostly few images differ, and the others add nothing
    some = np.flatnonzero(values)
    total: FloatArray = values[some] @ weights[some]
    return total


class Tallies(Protocol):
    """As much of answers as their metrics need: some bytes an image, so that many are kept."""

    def metrics_of(self, weights: Weights) -> Mapping[str, FloatArray]:
        """Compute what `Answers.metrics_of` does."""
        ...

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join those of different images of one model, in the order given."""
        ...


class Answers(ABC):
    """One model's answers to images, in a fixed order, with the truth about the images.

    A task subclasses it, mostly by a frozen dataclass. Members with a body suit a task that has
    nothing to say there: without classes, measures, logits, or a picture.
    """

    ids: tuple[str, ...]
    """Unique, as answers of two models are matched by id."""
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    no_logits: ClassVar[str] = "the answers of this task are no logits"
    """Why there is no `distance`, for a task that does not compute it."""
    no_leads: ClassVar[str] = "no margin of the outputs says how much change an answer bears"
    """Why they are no `alignkit.compare.linear_answers.LinearAnswers`."""
    together: ClassVar[bool] = False
    """Whether an image's answer depends on the other images, as its nearest neighbour does. Those
    to parts of the images are then joined, by `raw_rows`, before they are compared."""

    def __post_init__(self) -> None:
        """Raise `DataError` if two images have the same id."""
        if len(set(self.ids)) != len(self.ids):
            raise DataError("the ids of answers must be unique")

    def __len__(self) -> int:
        """Count the images."""
        return len(self.ids)

    @property
    def labelled(self) -> bool:
        """Whether the truth is known, so that metrics have values."""
        return bool(self.classes)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each class that the model knows: the data's, then its others."""
        return self.classes

    @abstractmethod
    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether every output of an image is finite."""

    @abstractmethod
    def rows(self, indices: Labels) -> Self:
        """Select the images at ``indices``, in that order."""

    @abstractmethod
    def unlike(self, other: Self) -> str:
        """Say why both cannot be compared although the ids agree; empty if they can."""

    @property
    @abstractmethod
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that are one number, with labels or without."""

    @abstractmethod
    def tallies(self) -> Tallies:
        """Return what metrics need of the answers, without masks, scores of all classes, and such.

        Answers that are small themselves may return themselves.
        """

    def metrics_of(self, weights: Weights) -> Mapping[str, FloatArray]:
        """Compute the task's metrics; NaN where undefined, nothing without labels.

        Return name → (draws,) for each of `metric_names`, and name → (classes, draws) for those by
        class, of which every task with classes has ``recall`` and ``precision``.
        """
        return self.tallies().metrics_of(weights)

    def undefined(self, metric: str) -> str:  # noqa: ARG002 - all alike
        """Say why one of `metric_names`, or a measure, has no value; empty if no class defines it.

        It is asked about those that have none.
        """
        return ""

    def measures_of(self, other: Self) -> Mapping[str, Weighted]:  # noqa: ARG002 - has none
        """Compare with ``other``, of the same images: lost boxes, changed pixels; by name.

        Measures need no labels and are no differences of metrics; churn, which every task has, is
        not among them. One with the name of a metric is that metric's change over the images which
        define it on both sides, and replaces the difference of the two sides' values.
        """
        return {}

    def groups(self) -> Labels | None:
        """Number, (n,) 0 and up without gaps, the groups of images that a resample draws whole.

        ``None`` if images do not depend on each other. Copies of one are drawn together besides.
        """
        return None

    @abstractmethod
    def changed(self, other: Self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether each image's answer is another one, as the task defines it."""

    def churn(self, other: Self) -> RatioOfSums:
        """Compute the share of changed answers, among the images that the task asks about."""
        return RatioOfSums(self.changed(other).astype(np.float64))

    def rated(self, other: Self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), which images are worse, better or neither: by default the changed ones."""
        return self.changed(other)

    def differs(self, other: Self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether an image may add to a change of some metric.

        For classes that is `changed`; a score that moves may change an average precision.
        """
        return self.changed(other)

    def moves(self, other: Self, metric: str) -> npt.NDArray[np.bool_] | None:  # noqa: ARG002
        """Tell, (n,), whether an image may add to a change of this metric; ``None`` as `differs`.

        A metric of few images needs its own: a p-value rests on the images that can move it.
        """
        return None

    def misread(self, *others: Self) -> str:  # noqa: ARG002 - its outputs need no reading
        """Say that outputs are not what they were taken for, by those of all sides; else empty."""
        return ""

    def as_read(self) -> Self:
        """Return the answers of outputs that `misread` found to be what they were taken for."""
        return self

    def one_answer(self, other: Self) -> str:  # noqa: ARG002 - all alike
        """Say which answer all images have on both sides; empty if some change could show."""
        return ""

    @abstractmethod
    def quality(self) -> FloatArray:
        """Rate each image's answer, (n,), greater is better: 0 or 1 where it is right or wrong.

        NaN without labels. A changed answer is worse, better, or neither by its sign.
        """

    @abstractmethod
    def apart(self, other: Self) -> FloatArray:
        """Measure, (n,), how far each answer moved, to rank images; NaN where it is unknown."""

    def counts(self) -> ClassCountArrays:
        """Count true positives, predictions and support per class; empty without labels."""
        return ClassCountArrays((), (), ())

    def raw_rows(self) -> npt.NDArray[np.float32] | None:
        """Return each image's record, (n, …), where it is the model's raw output; else ``None``."""
        return None

    def bits(self) -> npt.NDArray[np.uint32] | None:
        """Return the bits of the raw outputs that are kept, (n, …); ``None`` if none is."""
        rows = self.raw_rows()
        return None if rows is None else rows.view(np.uint32)

    @classmethod
    def kinds_of(cls, seeds: Sequence[Self]) -> dict[str, Sequence[str] | FloatArray]:  # noqa: ARG003
        """Describe each image by its truth and the answers of all seeds, to group the changed.

        Return dimension → (n,) words, such as its class, or numbers, which are grouped in thirds.
        """
        return {}

    def commonest(self) -> int | None:
        """Count the images that the best constant answer gets right; ``None`` if there is none."""
        return None

    def above_constant(self) -> FloatArray | None:
        """Compute how much better each answer is than a constant one, (n,), if that is known."""
        return None

    def truth_said(self, index: int) -> str:  # noqa: ARG002 - all alike
        """Word the truth about an image: its class, ``3× cat, 1× dog``; empty if not known."""
        return ""

    @abstractmethod
    def said(self, index: int) -> str:
        """Word the answer to an image: a class, or ``3× cat, 1× dog``."""

    def drawn(self, index: int, beside: Self | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what the viewer draws on an image as JSON values; empty for nothing.

        ``boxes`` or ``mask``, and ``truth`` if it is known, in coordinates of
        `alignkit.annotations`; see `alignkit.record.picture_facts.write_pair`. With another
        answer to the same images ``beside`` it each box has its ``kind``: ``matched`` or ``class
        changed``, with its ``shift`` in pixels, or ``alone`` where the other has no such box.
        """
        return {}

    @abstractmethod
    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write a row for each image; ``besides`` are further columns (n,), null if not finite."""

    @classmethod
    @abstractmethod
    def from_parquet(cls, path: Path) -> Self:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""

    @classmethod
    def distance(cls, pairs: Sequence[tuple[Self, Self]]) -> LogitDistance:  # noqa: ARG003
        """Compare raw outputs over all pairs; a task without class scores gives its reason."""
        return LogitDistance(None, None, None, cls.no_logits)

    @classmethod
    def pair_facts(
        cls,
        pairs: Sequence[tuple[Self, Self]],  # noqa: ARG003 - has none
        changes: Mapping[str, Estimate],  # noqa: ARG003
        groups: Labels | None,  # noqa: ARG003
    ) -> dict[str, Any]:
        """Compute the fields of `alignkit.record.Drift` that the task alone has, over all pairs.

        ``changes`` are those of the drift, by metric and measure, and ``groups``, (n,), the images
        that a draw takes together, ``None`` if it draws images.
        """
        return {}

    def columns_beside(self, other: Self) -> dict[str, FloatArray]:
        """Compare with the reference runtime on the same tensors: columns (n,) of the table."""
        return {"runtime_apart": self.apart(other)}


AnyAnswers = TypeVar("AnyAnswers", bound=Answers)


def aligned(reference: AnyAnswers, candidate: AnyAnswers) -> tuple[AnyAnswers, AnyAnswers]:
    """Restrict both to the ids they share, in the reference's order.

    Raise `NothingCompared` if they share none, `DataError` if classes or truth disagree.
    """
    if (reference.classes, reference.outputs) != (candidate.classes, candidate.outputs):
        raise DataError("predictions of different classes cannot be compared; evaluate both models "
                        "on the same data set")  # fmt: skip
    if reference.ids != candidate.ids:
        place = {name: index for index, name in enumerate(candidate.ids)}
        shared = np.array([name in place for name in reference.ids], np.bool_)
        reference = reference.rows(np.flatnonzero(shared))
        candidate = candidate.rows(np.array([place[name] for name in reference.ids], np.int64))
    if not len(reference):
        raise NothingCompared("the two predictions share no image")
    if reason := reference.unlike(candidate):
        raise DataError(f"{reason}; evaluate both on the same data, by the same options of 'task:'")
    return reference, candidate


def plain_metrics(answers: Answers) -> dict[str, float | None]:
    """Compute each metric of all images; ``None`` where nothing defines it."""
    found = answers.metrics_of(np.ones((len(answers), 1), np.float32))
    values = {name: float(found.get(name, [math.nan])[0]) for name in answers.metric_names}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def mean_metrics(seeds: Sequence[Answers]) -> dict[str, float | None]:
    """Average each metric over seeds, to ``None`` if one does not define it; empty without any."""
    return {
        name: math.fsum(values) / len(values) if values else None
        for name, values in _metrics_of_all(seeds).items()
    }


def _metrics_of_all(seeds: Sequence[Answers]) -> dict[str, list[float]]:
    """Map each metric to its values, one for each seed; to none at all if a seed has no value."""
    metrics = [plain_metrics(each) for each in seeds]
    found = {}
    for name in metrics[0] if metrics else ():
        values = [value for each in metrics if (value := each[name]) is not None]
        # a mean or a range over fewer seeds would be that of another set of models
        found[name] = values if len(values) == len(seeds) else []
    return found


def noise_floor(preprocess: str, trainings: Mapping[int, Answers]) -> NoiseFloor:
    """Compare the models of several seeds, seed → answers, on the same images.

    Their differences come from the seeds alone; differences of rows must exceed them. A metric
    that `Answers.measures_of` pairs is taken, as in a drift, of the images which define it in both
    of two models.
    Raise `NothingCompared` for one seed or no image, `DataError` if the images are not the same in
    the same order.
    """
    models = list(trainings.values())
    if len(models) < 2:
        raise NothingCompared("one seed only: train with two seeds or more to see what a seed does")
    if any(each.ids != models[0].ids for each in models):
        raise DataError("a noise floor needs every seed's predictions of the same images")
    if not len(models[0]):
        raise NothingCompared("no image was predicted")
    whole = np.ones((len(models[0]), 1), np.float32)
    churns = [float(one.churn(other).of(whole)[0]) for one, other in combinations(models, 2)]
    return NoiseFloor(
        preprocess=preprocess,
        seeds=tuple(trainings),
        metrics=_greatest_changes(models),
        churn=sum(churns) / len(churns),
    )


def _greatest_changes(models: Sequence[Answers]) -> dict[str, float]:
    """Find the greatest |change| of each metric between two models; none if one has no value."""
    ones = np.ones((len(models[0]), 1), np.float32)
    pairs = [one.measures_of(other) for one, other in combinations(models, 2)]
    found = {}
    for name, values in _metrics_of_all(models).items():
        paired = [abs(float(each[name].of(ones)[0])) for each in pairs if name in each]
        changes = paired or [max(values) - min(values)] if values else []
        if changes and all(map(math.isfinite, changes)):
            found[name] = max(changes)
    return found
