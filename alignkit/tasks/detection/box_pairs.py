"""Matches of the boxes that two models found on the same images.

A box counts if its score reaches the threshold. Boxes that count on both sides are matched first
within their class, then across classes; a counted box that is left is looked for among those of its
class below the other side's threshold: it crossed. Each match has an IoU of at least 0.5, and the
greatest is made first; equal ones by the place of the box on the first side, then on the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.tasks.detection.box_tables import FoundBoxes

LEAST_IOU = 0.5
_CELLS = 1 << 20  # pairs of boxes whose overlap is computed at a time


@dataclass(frozen=True, slots=True, eq=False)
class BoxPairs:
    """The matches of the boxes that count; all indices are places in the tables of boxes."""

    first: Labels
    """(matches,): boxes of the first side …"""
    second: Labels
    """… and those of the second that they match."""
    ious: FloatArray
    shifts: FloatArray
    """(matches,): pixels that the corner coordinate moves which moves most."""
    lost: Labels
    """Boxes of the first side that match none that counts on the second."""
    won: Labels
    """Boxes of the second side that match none that counts on the first."""
    lost_below: npt.NDArray[np.bool_]
    """Of each lost box, whether it matches one below the second side's threshold: it crossed."""
    won_below: npt.NDArray[np.bool_]


def match_boxes(first: FoundBoxes, second: FoundBoxes, threshold: float) -> BoxPairs:
    """Match the boxes of both sides, of the same images in the same order."""
    counts = first.scores >= threshold, second.scores >= threshold
    one, two, ious = _overlapping(first, second, counts[0], counts[1])
    same = first.classes[one] == second.classes[two]
    chosen = _greedy(one[same], two[same], ious[same])
    matches = np.flatnonzero(same)[chosen]
    free = ~np.isin(one, one[matches]) & ~np.isin(two, two[matches])
    across = np.flatnonzero(free)
    across = across[_greedy(one[free], two[free], ious[free])]
    matches = np.sort(np.concatenate([matches, across]))
    a, b = one[matches], two[matches]
    moved = second.corners[b].astype(np.float64) - first.corners[a]
    lost = np.setdiff1d(np.flatnonzero(counts[0]), a)
    won = np.setdiff1d(np.flatnonzero(counts[1]), b)
    return BoxPairs(
        first=a,
        second=b,
        ious=ious[matches],
        shifts=np.abs(moved).max(axis=1, initial=0.0),
        lost=lost,
        won=won,
        lost_below=_crossed(first, second, lost, ~counts[1]),
        won_below=_crossed(second, first, won, ~counts[0]),
    )


def _crossed(
    own: FoundBoxes, other: FoundBoxes, boxes: Labels, below: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Tell of each of ``boxes`` whether it matches one of its class ``below`` the threshold."""
    wanted = np.zeros(len(own.scores), np.bool_)
    wanted[boxes] = True
    one, two, ious = _overlapping(own, other, wanted, below)
    same = own.classes[one] == other.classes[two]
    chosen = _greedy(one[same], two[same], ious[same])
    return np.isin(boxes, one[same][chosen])


def _overlapping(
    first: FoundBoxes,
    second: FoundBoxes,
    of_first: npt.NDArray[np.bool_],
    of_second: npt.NDArray[np.bool_],
) -> tuple[Labels, Labels, FloatArray]:
    """Return every two chosen boxes of one image that overlap enough, and their IoU, by place."""
    one, two = np.flatnonzero(of_first), np.flatnonzero(of_second)
    begins = np.searchsorted(two, second.starts)
    images = first.images[one]
    partners = np.diff(begins)[images]
    ends = partners.cumsum()
    found = []
    start = 0
    while start < len(one):
        done = ends[start] - partners[start]
        stop = max(start + 1, int(np.searchsorted(ends, done + _CELLS, side="right")))
        part = slice(start, stop)
        left = np.repeat(np.arange(start, stop), partners[part])
        right = np.arange(len(left)) + np.repeat(
            begins[images[part]] - (ends[part] - partners[part] - done), partners[part]
        )
        a, b = one[left], two[right]
        ious = iou(first.corners[a], second.corners[b])
        near = ious >= LEAST_IOU
        found.append((a[near], b[near], ious[near]))
        start = stop
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    first_boxes, second_boxes, overlaps = zip(*found, strict=True)
    return np.concatenate(first_boxes), np.concatenate(second_boxes), np.concatenate(overlaps)


def iou(one: npt.NDArray[np.float32], two: npt.NDArray[np.float32]) -> FloatArray:
    """Divide the intersection of boxes (n, 4), each with that in its row, by their union: (n,).

    Equal boxes have exactly 1. pycocotools' function takes sides for corners, whose rounding would
    move even equal boxes apart.
    """
    a, b = one.T.astype(np.float64), two.T.astype(np.float64)
    width = np.minimum(a[2], b[2]) - np.maximum(a[0], b[0])
    height = np.minimum(a[3], b[3]) - np.maximum(a[1], b[1])
    shared = width.clip(0) * height.clip(0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    overlaps: FloatArray = shared / union
    return overlaps


def _greedy(one: Labels, two: Labels, ious: FloatArray) -> Labels:
    """Choose matches, each box at most once, the greatest IoU first; return their places."""
    left = np.lexsort((two, one, -ious))
    chosen = []
    while len(left):
        # a pair that is the first of both its boxes is certain, whatever the others are
        certain = _is_first(one[left]) & _is_first(two[left])
        taken = left[certain]
        chosen.append(taken)
        left = left[~np.isin(one[left], one[taken]) & ~np.isin(two[left], two[taken])]
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)


def _is_first(boxes: Labels) -> npt.NDArray[np.bool_]:
    """Mark where each number occurs for the first time."""
    first = np.zeros(len(boxes), np.bool_)
    first[np.unique(boxes, return_index=True)[1]] = True
    return first
