"""Measures of two sides' boxes, as sums over images."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import RatioOfSums
from alignkit.tasks.detection.box_pairs import BoxPairs
from alignkit.tasks.detection.box_tables import FoundBoxes


def by_image(found: FoundBoxes, chosen: npt.NDArray[np.bool_]) -> FloatArray:
    """Count the chosen boxes of each image, (images,)."""
    return _count(found, np.flatnonzero(chosen))


def _count(found: FoundBoxes, boxes: Labels, values: FloatArray | None = None) -> FloatArray:
    """Count boxes, or add up their values, by image."""
    images = found.images[boxes]
    counted = np.bincount(images, values, minlength=len(found.starts) - 1)
    return counted.astype(np.float64)


def box_measures(
    first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs, score: float
) -> dict[str, RatioOfSums]:
    """Compute the measures of boxes; the shares are of boxes whose score is at least ``score``.

    ``boxes.lost`` of the first side's, ``boxes.won`` of the second's, ``boxes.class_changed`` of
    the first's, ``boxes.crossed`` of both sides'; ``box.shift`` in pixels and ``box.iou`` are means
    over the matches.
    """
    own = by_image(first, first.scores >= score)
    others = by_image(second, second.scores >= score)
    lost, won = _count(first, pairs.lost), _count(second, pairs.won)
    crossed = _count(first, pairs.lost[pairs.lost_below])
    crossed += _count(second, pairs.won[pairs.won_below])
    another = _another_class(first, second, pairs)
    matches = _count(first, pairs.first)
    return {
        "boxes.lost": RatioOfSums(lost, own),
        "boxes.won": RatioOfSums(won, others),
        "boxes.class_changed": RatioOfSums(_count(first, pairs.first[another]), own),
        "boxes.crossed": RatioOfSums(crossed, own + others),
        "box.shift": RatioOfSums(_count(first, pairs.first, pairs.shifts), matches),
        "box.iou": RatioOfSums(_count(first, pairs.first, pairs.ious), matches),
    }


def changed_images(first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs) -> npt.NDArray[np.bool_]:
    """Tell, (images,), whether a box was lost or won, or changed its class."""
    another = pairs.first[_another_class(first, second, pairs)]
    changes = _count(first, pairs.lost) + _count(second, pairs.won) + _count(first, another)
    changed: npt.NDArray[np.bool_] = changes > 0
    return changed


def movement(first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs) -> FloatArray:
    """Average 1 - IoU over the boxes of each image, (images,); 1 for a box alone or renamed."""
    apart = np.where(_another_class(first, second, pairs), 1.0, 1.0 - pairs.ious)
    alone = _count(first, pairs.lost) + _count(second, pairs.won)
    boxes = alone + _count(first, pairs.first)
    moved = alone + _count(first, pairs.first, apart)
    return np.divide(moved, boxes, out=np.zeros_like(boxes), where=boxes > 0)


def _another_class(first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs) -> npt.NDArray[np.bool_]:
    another: npt.NDArray[np.bool_] = first.classes[pairs.first] != second.classes[pairs.second]
    return another
