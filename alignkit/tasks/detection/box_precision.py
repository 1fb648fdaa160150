"""Average precision of weighted images: that of a data set which has each image so many times.

The definition is COCO's: the precision is made monotone from the right and read at 101 recalls. A
resample is weights of the images, and its value is exactly the one that `pycocotools` computes of
the drawn images, except where scores are tied: equal scores of copies are taken together, as a box
taken three times is three boxes in a row, whereas the files' order would mix them with those of
other images. Between two true positives the precision falls, so only its values at true
positives count, and the other boxes enter as sums over the gaps between them: one sparse product of
a class's gaps with the draws serves all ten IoU thresholds.

Four boxes of a class by score, of the images 0, 1, 0 and 1, of which the second and the third are
true positives: these are the knots, with gaps of 2 boxes (one of each image) and 1 (of image 0).
The draw that takes image 0 twice and image 1 once has 3 and then 2 boxes in them, so its precision
is 1/3 at the first knot and 3/5 at the second, and 3/5 at both once it is monotone. The fourth box
follows the last true positive and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.tasks.detection.truth_matches import THRESHOLDS, TruthMatches

if TYPE_CHECKING:
    from scipy import sparse

RECALLS = np.linspace(0.0, 1.0, 101)
_PART_BYTES = 16 << 20  # of an array (knots, draws) of one class at a time
_MANY_DRAWS = 64


@dataclass(frozen=True, slots=True, eq=False)
class ClassCurve:
    """All that the precision of one class depends on."""

    images: Labels
    """(knots,): the image of each box that is a true positive at some threshold, by score."""
    hits: npt.NDArray[np.bool_]
    """(`THRESHOLDS`, knots): whether it is one at this threshold."""
    gaps: sparse.csr_matrix
    """(knots, images): boxes after the knot before and up to this one."""
    ignored: tuple[sparse.csr_matrix | None, ...]
    """At each threshold those of ``gaps`` that count for nothing; ``None`` for no box."""


def class_curves(matches: TruthMatches, *, images: int, classes: int) -> tuple[ClassCurve, ...]:
    """Build the curve of each class."""
    ends = np.searchsorted(matches.classes, np.arange(classes + 1)).tolist()
    return tuple(_curve(matches, slice(*both), images) for both in pairwise(ends))


def _curve(matches: TruthMatches, own: slice, images: int) -> ClassCurve:
    matched, ignored = matches.matched[:, own], matches.ignored[:, own]
    of_box = matches.images[own]
    knots = np.flatnonzero(matched.any(axis=0))
    # of each box the knot that follows it, or that it is
    gap = np.searchsorted(knots, np.arange(len(of_box)))
    before = gap < len(knots)
    shape = (len(knots), images)

    def counted(chosen: npt.NDArray[np.bool_]) -> sparse.csr_matrix:
        chosen = chosen & before
        return _counts(gap[chosen], of_box[chosen], shape)

    return ClassCurve(
        images=of_box[knots],
        hits=matched[:, knots],
        gaps=counted(np.ones(len(of_box), np.bool_)),
        ignored=tuple(counted(each) if (each & before).any() else None for each in ignored),
    )


def _counts(rows: Labels, columns: Labels, shape: tuple[int, int]) -> sparse.csr_matrix:
    """Count how often each place occurs."""
    from scipy import sparse

    ones = np.ones(len(rows), np.float32)
    return sparse.csr_matrix((ones, (rows, columns)), shape=shape)


def average_precisions(
    curves: Sequence[ClassCurve], weights: npt.NDArray[np.float32], objects: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Compute each class's precision averaged over recalls, (classes, draws), two times.

    The first is at IoU 0.5, the second is the mean over all ten thresholds. ``weights``, (images,
    draws), are whole numbers, and ``objects``, (classes, draws), the objects that count under them.
    NaN where a draw has none of the class.
    """
    at_half, mean = np.full((2, *objects.shape), np.nan)
    for index, curve in enumerate(curves):
        part = max(1, _PART_BYTES // (8 * max(1, len(curve.images))))
        for start in range(0, weights.shape[1], part):
            own = slice(start, start + part)
            found = _of_class(curve, weights[:, own], objects[index, own])
            at_half[index, own], mean[index, own] = found[0], found.mean(axis=0)
    return at_half, mean


def _of_class(
    curve: ClassCurve, weights: npt.NDArray[np.float32], objects: FloatArray
) -> FloatArray:
    """Compute (`THRESHOLDS`, draws) of one class."""
    found = np.where(objects > 0, np.zeros((THRESHOLDS, len(objects))), np.nan)
    if not len(curve.images):
        return found
    reached = _ReachedRecalls.of(objects)
    boxes = _cumulated(curve.gaps @ weights)
    drawn = weights[curve.images]
    for threshold, hits in enumerate(curve.hits):
        if not hits.any():
            continue
        true, counted = _cumulated(drawn[hits]), boxes[hits]
        if (without := curve.ignored[threshold]) is not None:
            counted -= _cumulated(without @ weights)[hits]
        counted += np.spacing(1)  # as pycocotools does, where nothing was found yet
        precision = np.divide(true, counted, out=counted)
        _accumulate(np.maximum, precision[::-1])
        steps = np.diff(reached.count(true), axis=0, prepend=np.int8(0))
        found[threshold] += np.einsum("kd,kd->d", steps, precision) / len(RECALLS)
    return found


def _cumulated(counts: npt.NDArray[np.float32]) -> FloatArray:
    """Add up (knots, draws) from knot to knot."""
    sums: FloatArray = counts.astype(np.float64)
    _accumulate(np.add, sums)
    return sums


def _accumulate(operation: np.ufunc, rows: FloatArray) -> None:
    """Accumulate along the first axis, in place."""
    if rows.shape[1] < _MANY_DRAWS:
        operation.accumulate(rows, axis=0, out=rows)
        return
    # NumPy goes column by column, which takes six times as long
    for before, after in pairwise(rows):
        operation(before, after, out=after)


@dataclass(frozen=True, slots=True, eq=False)
class _ReachedRecalls:
    """How many of the 101 recalls some true positives reach."""

    table: npt.NDArray[np.int8]
    """One row after the other, for each number of objects: by the number of true positives."""
    rows: Labels
    """(draws,): where the row of each draw's number of objects begins."""

    @classmethod
    def of(cls, objects: FloatArray) -> _ReachedRecalls:
        numbers, inverse = np.unique(objects, return_inverse=True)
        true = np.arange(int(numbers[-1]) + 1)
        # no object: no value, whatever is reached
        recall = true / np.maximum(numbers, 1)[:, None]
        table = np.searchsorted(RECALLS, recall, side="right").astype(np.int8)
        return cls(table.ravel(), inverse * len(true))

    def count(self, true: FloatArray) -> npt.NDArray[np.int8]:
        """Look up (knots, draws) numbers of true positives."""
        reached: npt.NDArray[np.int8] = self.table.take(true.astype(np.int64) + self.rows)
        return reached
