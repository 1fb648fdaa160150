"""Class maps of a model joined with the masks of their images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alignkit.annotations import IGNORED, Mask
from alignkit.arrays import Labels
from alignkit.errors import DataError
from alignkit.samples import Samples
from alignkit.tasks import ClassMap
from alignkit.tasks.class_sums import ClassSums
from alignkit.tasks.segmentation.class_maps import (
    Classes,
    from_png,
    has_boundary,
    joint_counts,
    to_png,
)
from alignkit.tasks.segmentation.segmentation_answers import SegmentationAnswers


class MaskRecord(NamedTuple):
    """A decoded image: its class map as PNG, and whether all its outputs are finite."""

    png: bytes
    finite: bool
    reach: tuple[float, float] = (0.0, 0.0)
    """Least and greatest output if they are taken for logits, and nothing says that they are."""


def joined(
    ids: Sequence[str],
    records: Sequence[MaskRecord],
    samples: Samples,
    classes: ClassMap,
    limit: float,
) -> SegmentationAnswers:
    """Join class maps with the masks of their images; raise `DataError` for masks that do not fit.

    Such a mask has another size than the image, or a class that the data does not name.
    """
    masks = dict(zip(samples.ids, samples.annotations, strict=True)) if samples.annotations else {}
    names = classes.classes if masks else ()
    outside = classes.outside if masks else classes.classes + classes.outside
    truths: list[bytes] = []
    sums = np.zeros((3, len(ids), len(names)), np.int64)
    pixels, bounded = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    for index, (each, record) in enumerate(zip(ids, records, strict=True)):
        predicted = from_png(record.png)
        pixels[index] = np.count_nonzero(predicted != IGNORED)
        bounded[index] = has_boundary(predicted)
        if masks:
            mask = _mask(each, masks[each], predicted, len(names))
            truths.append(to_png(mask))
            sums[:, index] = _sums(joint_counts(mask, predicted), len(names))
    return SegmentationAnswers(
        tuple(ids),
        names,
        outside,
        tuple(each.png for each in records),
        tuple(truths),
        ClassSums(*sums),
        pixels,
        bounded,
        np.array([each.finite for each in records], np.bool_),
        limit,
        np.array([each.reach for each in records], np.float64).reshape(-1, 2),
    )


def _mask(image: str, given: Any, predicted: Classes, classes: int) -> Classes:
    """Read the mask of an image and check it."""
    if not isinstance(given, Mask):
        raise DataError(f"{image}: a {type(given).__name__} is no mask; choose another task")
    mask = given.read()
    if mask.shape != predicted.shape:
        sizes = " and ".join(f"{each.shape[1]}x{each.shape[0]}" for each in (mask, predicted))
        raise DataError(
            f"{image}: mask and image have different sizes, {sizes} pixels (the image as a viewer "
            "turns it); write the mask in the size of the image"
        )
    unknown = mask[(mask >= classes) & (mask != IGNORED)]
    if len(unknown):
        raise DataError(
            f"{image}: its mask has the class {unknown[0]}, and the data names {classes} classes "
            f"(0 to {classes - 1}, {IGNORED} is ignored)"
        )
    return mask


def _sums(counts: Labels, classes: int) -> tuple[Labels, Labels, Labels]:
    """Count true positives, predictions and support, (classes,), where the mask is known.

    A pixel that the map does not know is missed: a path is not better for seeing less.
    """
    known = counts[:classes]
    right, predicted = known.diagonal(), known[:, :classes].sum(axis=0)
    return right, predicted, known.sum(axis=1)
