"""Matches of found boxes with the truth, by pycocotools, as the COCO evaluation has them.

Each image and class is matched for itself, at each of ten IoU thresholds: the boxes in the order of
their scores, each with the free object of the greatest IoU. A box inside a crowd counts for nothing
where no object fits, and only the 100 best boxes of a class in an image count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.extras import require_libraries
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, starts_of

if TYPE_CHECKING:
    from pycocotools.cocoeval import COCOeval

THRESHOLDS = 10
"""IoU 0.5, 0.55, … 0.95."""
MOST_OF_CLASS = 100
"""Boxes of a class in an image that count, COCO's ``maxDets``."""


@dataclass(frozen=True, slots=True, eq=False)
class TruthMatches:
    """The boxes that count, by class and then by score, the greatest first; equal ones by image."""

    images: Labels
    """(counted,)."""
    classes: Labels
    """(counted,), ascending."""
    scores: npt.NDArray[np.float32]
    matched: npt.NDArray[np.bool_]
    """(`THRESHOLDS`, counted): whether an object is the box's own: a true positive."""
    ignored: npt.NDArray[np.bool_]
    """(`THRESHOLDS`, counted): whether it lies in a crowd alone, and counts for nothing."""

    def in_order(self) -> TruthMatches:
        """Return the same boxes in their order; equal scores of a class stay as they are."""
        order = np.lexsort((-self.scores, self.classes))
        return TruthMatches(
            self.images[order],
            self.classes[order],
            self.scores[order],
            self.matched[:, order],
            self.ignored[:, order],
        )

    @classmethod
    def joined(cls, parts: Sequence[TruthMatches], images: Sequence[int]) -> TruthMatches:
        """Join those of different images, in the order given; ``images`` are their numbers."""
        before = starts_of(images)
        numbers = [part.images + start for part, start in zip(parts, before, strict=False)]
        return cls(
            np.concatenate(numbers),
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.matched for part in parts], axis=1),
            np.concatenate([part.ignored for part in parts], axis=1),
        ).in_order()


def match_truth(found: FoundBoxes, truth: TrueBoxes, classes: int) -> TruthMatches:
    """Match boxes of the first ``classes`` classes with the truth about the same images.

    Raise `MissingDependency` without pycocotools.
    """
    require_libraries("pycocotools")
    from pycocotools.cocoeval import COCOeval

    matcher = COCOeval(iouType="bbox")
    boxes, keys = _counted(found, classes)
    true_keys = truth.images * classes + truth.classes
    # of one image and class after the other, in the order of the file
    objects = np.argsort(true_keys, kind="stable")
    true_keys = true_keys[objects]
    matched = np.zeros((THRESHOLDS, len(boxes)), np.bool_)
    ignored = np.zeros_like(matched)
    shared = np.intersect1d(keys, true_keys)
    ends = [np.searchsorted(k, shared, s) for k in (keys, true_keys) for s in ("left", "right")]
    found_corners, true_corners = _as_coco(found.corners[boxes]), _as_coco(truth.corners[objects])
    crowd = truth.crowd[objects]
    for first, last, true_first, true_last in zip(*ends, strict=True):
        own = slice(true_first, true_last)
        near, is_matched, is_ignored = _match_group(
            matcher, found_corners[first:last], true_corners[own], crowd[own]
        )
        matched[:, first + near] = is_matched
        ignored[:, first + near] = is_ignored
    return TruthMatches(
        keys // classes, keys % classes, found.scores[boxes], matched, ignored
    ).in_order()


def _counted(found: FoundBoxes, classes: int) -> tuple[Labels, Labels]:
    """Return the places of boxes by image, class and score, and image · classes + class of each."""
    known = np.flatnonzero(found.classes < classes)
    keys = found.images[known] * classes + found.classes[known]
    order = np.lexsort((-found.scores[known], keys))
    keys = keys[order]
    rank = np.arange(len(keys)) - np.searchsorted(keys, keys)
    counted = rank < MOST_OF_CLASS
    return known[order][counted], keys[counted]


def _as_coco(corners: npt.NDArray[np.floating]) -> FloatArray:
    """Return left, top, width and height, (n, 4)."""
    boxes = corners.astype(np.float64)
    boxes[:, 2:] -= boxes[:, :2]
    return boxes


def _match_group(
    matcher: COCOeval, found: FloatArray, truth: FloatArray, crowd: npt.NDArray[np.bool_]
) -> tuple[Labels, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Match the boxes of one class in one image.

    Return the places of those that are near an object, and whether each of them is matched, and
    ignored, at each threshold. All others are neither.
    """
    from pycocotools import mask

    overlaps = np.asarray(mask.iou(found, truth, crowd.astype(np.uint8)))
    # a box below the least threshold matches nothing, and takes the object of no other
    near = np.flatnonzero((overlaps >= matcher.params.iouThrs[0]).any(axis=1))
    if not len(near):
        nothing = np.zeros((THRESHOLDS, 0), np.bool_)
        return near, nothing, nothing
    # ids begin at 1, as 0 is no match; the order of the scores is that of the boxes
    matcher._dts[0, 0] = [  # noqa: SLF001 - where evaluateImg looks
        {"id": index + 1, "score": -index, "area": 0} for index in range(len(near))
    ]
    matcher._gts[0, 0] = [  # noqa: SLF001
        {"id": index + 1, "ignore": is_crowd, "iscrowd": is_crowd, "area": 0}
        for index, is_crowd in enumerate(crowd.tolist())
    ]
    matcher.ious[0, 0] = overlaps[near]
    found_here: dict[str, Any] = matcher.evaluateImg(0, 0, [0, 0], MOST_OF_CLASS)
    ignored = found_here["dtIgnore"].astype(np.bool_)
    return near, (found_here["dtMatches"] > 0) & ~ignored, ignored
