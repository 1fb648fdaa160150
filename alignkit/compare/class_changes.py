"""Changes of averages over classes, as resamples see them.

A resample of few images a class misses classes, and a mean over those that it has is no draw of the
mean over all: with one image a class its variance is 0.58 of the right one. So an average of ratios
of counts is drawn by image. An image adds to a change what the change would lose if this image had
kept its answer, and a draw that takes the image twice adds that twice. For top-1, and for macro
recall of classes of equal size, these are the draws of plain sums.

An average precision has no counts that an image adds to. There, a class weighs in the mean as often
as a draw takes its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import (
    Answers,
    AnyAnswers,
    RatioOfSums,
    Tallies,
    Weighted,
    Weights,
)
from alignkit.compare.bootstrap import (
    MeanOverSeeds,
    SharedDraws,
    drawn_units,
    joined_groups,
    mean_over_seeds,
)
from alignkit.compare.metrics import ratio
from alignkit.compare.statistics import Moved

Counts: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""True positives, predictions and support, (classes, …) each."""
_ROUNDING = 1e-12
_BLOCK = 1 << 18
"""Counts of classes that are made at a time."""


class ImageCounts(Protocol):
    """Counts by class of each image."""

    def __len__(self) -> int: ...

    def weighted(self, weights: Weights) -> Counts:
        """Add up the images by weight, (images, draws): (classes, draws) each."""
        ...

    def picked(self, images: Labels) -> Counts:
        """Return those of some images, (classes, images) each."""
        ...

    def differing(self, other: Self) -> Labels:
        """Find the images whose counts are others there, with the same truth."""
        ...


@runtime_checkable
class CountedTallies(Protocol):
    """Tallies with metrics that are ratios of counts by class."""

    @property
    def sums(self) -> ImageCounts:
        """Counts by class of each image; of no class without labels."""
        ...

    def ratios(
        self, true_positive: FloatArray, predicted: FloatArray, support: FloatArray
    ) -> Mapping[str, FloatArray]:
        """Compute these metrics, (draws,) each, of `Counts` (classes, draws)."""
        ...


@runtime_checkable
class RankedTallies(CountedTallies, Protocol):
    """Tallies with means over classes that are no ratios of counts."""

    class_means: ClassVar[Mapping[str, str]]
    """Mean → the metric by class of which it is the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeByImage:
    """The change of a metric, and what images add to it."""

    change: float
    images: Labels
    added: FloatArray
    """By each of ``images``; the others add nothing."""
    grouped: bool
    """Whether a draw takes groups, so that it has more or fewer images than there are."""

    def of(self, weights: Weights) -> FloatArray:
        """Compute the change, (draws,), under weights (n, draws)."""
        more = weights[self.images].astype(np.float64) - 1
        draws = self.change + self.added @ more
        if self.grouped:  # as a ratio of sums, whose denominator varies too
            draws -= self.added.sum() * (weights.mean(axis=0, dtype=np.float64) - 1)
        return _cleared(draws)

    def by_image(self, count: int) -> FloatArray:
        """Return, (count,) images, what each adds."""
        found = np.zeros(count)
        found[self.images] = _cleared(self.added)
        return found


def changes_by_image(
    one: Tallies, other: Tallies, *, grouped: bool = False
) -> dict[str, ChangeByImage]:
    """Divide the changes of all `CountedTallies.ratios` among the images; empty without any.

    An image's part is the mean of two changes: of the metric if this image alone changes its
    answer, and of the change of all if this image alone keeps its own.
    """
    if not isinstance(one, CountedTallies) or not isinstance(other, CountedTallies):
        return {}
    images = one.sums.differing(other.sums)
    classes = len(one.sums.picked(images[:1])[0])
    if not classes:
        return {}
    # NumPy sums the classes of a single column in another order than those of several
    whole = np.ones((len(one.sums), 2), np.float32)
    before, after = (each.sums.weighted(whole) for each in (one, other))
    ends = [{k: v[0] for k, v in one.ratios(*each).items()} for each in (before, after)]
    added: dict[str, list[FloatArray]] = {name: [] for name in ends[0]}
    for part in np.array_split(images, len(images) * classes // _BLOCK + 1):
        own, theirs = (each.sums.picked(part) for each in (one, other))
        moved = [new - old for old, new in zip(own, theirs, strict=True)]
        first = one.ratios(*(sums[:, :1] + each for sums, each in zip(before, moved, strict=True)))
        last = one.ratios(*(sums[:, :1] - each for sums, each in zip(after, moved, strict=True)))
        for name, found in added.items():
            both = np.stack([first[name] - ends[0][name], ends[1][name] - last[name]])
            # of an image that alone defines the metric, one of them is unknown
            found.append(np.where(np.isnan(both), 0.0, both).mean(axis=0))
    return {
        name: ChangeByImage(
            float(_cleared(ends[1][name] - ends[0][name])), images, np.concatenate(found), grouped
        )
        for name, found in added.items()
    }


def _cleared(changes: FloatArray) -> FloatArray:
    """Write 0 for what rounding alone leaves of it: an interval may end there."""
    return np.where(np.abs(changes) < _ROUNDING, 0.0, changes)


def resampled(tallies: Tallies, weights: Weights) -> dict[str, FloatArray]:
    """Compute `Tallies.metrics_of` resamples, with classes in a mean as often as they were drawn.

    With a weight of 1 for each image, these are the metrics.
    """
    found = dict(tallies.metrics_of(weights))
    if not found or not isinstance(tallies, RankedTallies):
        return found
    whole = tallies.sums.weighted(np.ones((len(weights), 1), np.float32))[2]
    drawn = ratio(tallies.sums.weighted(weights)[2], whole)
    for name, of_class in tallies.class_means.items():
        known = ~np.isnan(found[of_class])
        share = np.where(known, drawn, 0.0)
        values = np.where(known, found[of_class], 0.0)
        found[name] = ratio((share * values).sum(axis=0), share.sum(axis=0))
    return found


def of_groups(each: Weighted, images: int) -> Weighted:
    """Give a mean over images its denominator: a draw of groups has more or fewer of them."""
    if isinstance(each, RatioOfSums) and each.below is None:
        return replace(each, below=np.ones(images))
    return each


def between_answers(a: AnyAnswers, b: AnyAnswers, groups: Labels | None) -> dict[str, Weighted]:
    """Return what is no difference of two metrics under weights: ``churn``, measures, and changes.

    A change takes the place of the difference of its metric. ``groups`` are those that are drawn.
    """
    changes = changes_by_image(a.tallies(), b.tallies(), grouped=groups is not None)
    found: dict[str, Weighted] = {"churn": a.churn(b), **changes, **a.measures_of(b)}
    return found if groups is None else {k: of_groups(each, len(a)) for k, each in found.items()}


@dataclass(frozen=True, eq=False)
class PairedSides(Generic[AnyAnswers]):
    """Pairs of answers, one for each seed, and what all their numbers are drawn and counted by."""

    pairs: Sequence[tuple[AnyAnswers, AnyAnswers]]
    groups: Labels | None
    """(n,): `groups_of` the images."""
    between: Sequence[Mapping[str, Weighted]]
    """`between_answers` of each pair."""
    moved: Mapping[str, Moved]
    """The images, or groups, that move each metric and ``churn`` in some seed."""
    units: int
    """Images or groups that a resample draws."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[AnyAnswers, AnyAnswers]], draws: SharedDraws) -> Self:
        """Compare pairs of the same images."""
        first = pairs[0][0]
        groups = groups_of(first, draws)
        between = [between_answers(*pair, groups) for pair in pairs]
        moved = _moved_images(pairs, between, groups)
        return cls(pairs, groups, between, moved, drawn_units(len(first), groups))

    @property
    def first(self) -> AnyAnswers:
        """The reference's answers of the first seed."""
        return self.pairs[0][0]

    def mean(self, name: str, values: tuple[FloatArray, FloatArray], seed: int) -> MeanOverSeeds:
        """Average a value over seeds: observed (seeds, …), and drawn (seeds, …, resamples)."""
        moved = self.moved.get(name)
        return mean_over_seeds(*values, images=self.units, seed=seed, moved=moved)


def _moved_images(
    pairs: Sequence[tuple[AnyAnswers, AnyAnswers]],
    between: Sequence[Mapping[str, Weighted]],
    groups: Labels | None,
) -> dict[str, Moved]:
    first = pairs[0][0]

    def counted(marks: Sequence[npt.NDArray[np.bool_]]) -> Moved:
        return Moved.alike(units_of(np.any(marks, axis=0), groups))

    found = {"churn": counted([a.changed(b) for a, b in pairs])}
    any_metric = counted([a.differs(b) for a, b in pairs])
    for name in first.metric_names:
        changes = [each for own in between if isinstance(each := own.get(name), ChangeByImage)]
        if changes:
            added = np.stack([each.by_image(len(first)) for each in changes])
            parts = added.mean(axis=0)
            parts = parts if groups is None else np.bincount(groups, weights=parts)
            found[name] = Moved.by_parts(counted([*(added != 0)]).images, np.asarray(parts))
        else:
            own = [some for a, b in pairs if (some := a.moves(b, name)) is not None]
            found[name] = counted(own) if own else any_metric
    return found


def groups_of(answers: Answers, draws: SharedDraws) -> Labels | None:
    """Number, (n,), the groups that a draw takes whole; ``None`` if it draws images."""
    if not draws.copies:  # ids of answers are unique, and to sort them takes longer than to compare
        return answers.groups()
    return joined_groups(answers.ids, answers.groups(), draws.copies)


def of_different_images(answers: AnyAnswers, copies: Mapping[str, str]) -> AnyAnswers:
    """Keep the first of images with the same pixels: exact tests take independent ones."""
    seen = [copies.get(each, each) for each in answers.ids]
    first = np.sort(np.unique(seen, return_index=True)[1])
    return answers if len(first) == len(seen) else answers.rows(first)


def drawn_classes(first: Answers, groups: Labels | None) -> tuple[list[int], npt.NDArray[np.bool_]]:
    """Count the images, or groups, that show each class, and tell, (n,), which images show any.

    A mask has thousands of pixels of a class, and is one image all the same.
    """
    drawn, some = [], np.zeros(len(first), np.bool_)
    for shown in _shown_classes(first):
        drawn.append(units_of(shown, groups))
        some |= shown
    return drawn, some


def _shown_classes(first: Answers) -> Iterable[npt.NDArray[np.bool_]]:
    """Tell of each class, (n,), which images show it; nothing without labels."""
    classes = len(first.classes)
    labels = np.asarray(getattr(first, "labels", ()), np.int64)
    if len(labels):  # one class an image: no table of all of them is needed
        return [labels == index for index in range(classes)]
    tallies, images = first.tallies(), np.arange(len(first))
    if not classes or not isinstance(tallies, CountedTallies):
        return ()
    parts = np.array_split(images, len(images) * classes // _BLOCK + 1)
    return np.concatenate([tallies.sums.picked(part)[2] > 0 for part in parts], axis=1)


def defined_by(
    between: Sequence[Mapping[str, Weighted]], some: npt.NDArray[np.bool_], groups: Labels | None
) -> dict[str, int]:
    """Count the images, or groups, that a ratio of sums is made of, where they are not all.

    Lost boxes are a share of boxes, and an image without any says nothing about them. ``some``
    tells which images show a class.
    """
    marks: dict[str, npt.NDArray[np.bool_]] = {}
    for name, each in (pair for own in between for pair in own.items()):
        if isinstance(each, RatioOfSums) and each.below is not None:
            marks[name] = marks.get(name, False) | (each.below > 0)
    if some.any():
        marks |= dict.fromkeys(("recall.micro", "pixel_accuracy"), some)
    return {name: units_of(each, groups) for name, each in marks.items() if not each.all()}


def units_of(images: npt.NDArray[np.bool_], groups: Labels | None) -> int:
    """Count the groups that have one of the images marked, (n,), or these images."""
    return int(images.sum()) if groups is None else len(np.unique(groups[images]))


def moved_in_one(
    earlier: Sequence[tuple[Answers, Answers]],
    later: Sequence[tuple[Answers, Answers]],
    metric: str,
    groups: Labels | None,
) -> int:
    """Count the images that may add to a change: in some seed they flip in one drift alone.

    To a metric other than churn, an image adds also if it flips otherwise. Where a resample draws
    groups, those that have such an image are counted.
    """

    def moves(one: Answers, other: Answers) -> npt.NDArray[np.bool_]:
        own = one.moves(other, metric)
        return one.differs(other) if own is None else own

    found = []
    for (a, b), (c, d) in zip(earlier, later, strict=True):
        if metric == "churn":
            found.append(a.changed(b) != c.changed(d))
        else:
            found.append((moves(a, b) | moves(c, d)) & (moves(a, c) | moves(b, d)))
    return units_of(np.any(found, axis=0), groups)
