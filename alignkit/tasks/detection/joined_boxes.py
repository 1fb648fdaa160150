"""Boxes of images, one record each, joined with the truth about the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from alignkit.annotations import Boxes
from alignkit.arrays import Labels
from alignkit.errors import DataError
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, no_objects, starts_of
from alignkit.tasks.detection.detection_answers import DetectionAnswers

if TYPE_CHECKING:
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap
    from alignkit.tasks.detection.box_decoding import BoxRecord


def joined_boxes(
    ids: Sequence[str],
    records: Sequence[BoxRecord],
    samples: Samples,
    classes: ClassMap,
    score: float,
) -> DetectionAnswers:
    """Join the boxes of images with their objects; raise `DataError` for other annotations."""
    labelled = bool(samples.annotations)
    names = classes.classes if labelled else ()
    return DetectionAnswers(
        ids=tuple(ids),
        found=_found(records),
        truth=_truth(ids, samples, len(names)) if labelled else no_objects(len(ids)),
        unusable=np.array([each.unusable for each in records], np.int64).reshape(-1, 2),
        classes=names,
        outside=classes.outside if labelled else classes.classes + classes.outside,
        score=score,
    )


def _found(records: Sequence[BoxRecord]) -> FoundBoxes:
    # an empty array first, so that no image is none too
    return FoundBoxes(
        starts_of([len(each.scores) for each in records]),
        np.concatenate([np.zeros((0, 4), np.float32), *(each.corners for each in records)]),
        np.concatenate([np.zeros(0, np.float32), *(each.scores for each in records)]),
        np.concatenate([np.zeros(0, np.int64), *(each.classes for each in records)]),
    )


def _truth(ids: Sequence[str], samples: Samples, classes: int) -> TrueBoxes:
    known = dict(zip(samples.ids, samples.annotations, strict=True))
    boxes = []
    for name in ids:
        given = known[name]
        if not isinstance(given, Boxes):
            raise DataError(f"{name}: a {type(given).__name__} is no list of boxes; choose another "
                            "task")  # fmt: skip
        _require_known(name, given.classes, classes)
        boxes.append(given)
    return TrueBoxes(
        starts_of([len(each) for each in boxes]),
        np.concatenate([np.zeros((0, 4)), *(each.corners for each in boxes)]),
        np.concatenate([np.zeros(0, np.int64), *(each.classes for each in boxes)]),
        np.concatenate([np.zeros(0, np.bool_), *(each.crowd for each in boxes)]),
    )


def _require_known(name: str, found: Labels, classes: int) -> None:
    wrong = found[(found < 0) | (found >= classes)]
    if len(wrong):
        raise DataError(f"{name}: an object has the class {wrong[0]}, not in 0..{classes - 1}")
