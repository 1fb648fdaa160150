"""Candidates of one image → the boxes that are kept of it, in pixels of the oriented image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Labels
from alignkit.errors import BackendError
from alignkit.tasks.detection.box_formats import Candidates
from alignkit.text.numbers import significant

if TYPE_CHECKING:
    from alignkit.preprocess.geometry import Geometry

_MOST_SUPPRESSED = 30_000  # the best candidates that suppression looks at, as Ultralytics has it


@dataclass(frozen=True, slots=True, eq=False)
class BoxRecord:
    """The boxes of an image, the greatest score first."""

    corners: npt.NDArray[np.float32]
    """(k, 4), in pixels of the oriented image, inside of it, with an area."""
    scores: npt.NDArray[np.float32]
    """(k,)."""
    classes: Labels
    """(k,), index into the data's classes, then the model's others."""
    unusable: tuple[int, int]
    """Boxes that were left out: with a number that is not finite, and without an area inside the
    image."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """Non-maximum suppression by torchvision: of two boxes that overlap more, the better stays."""

    iou: float
    agnostic: bool
    """Whether boxes of two classes suppress each other."""

    def kept(self, boxes: Candidates) -> Labels:
        """Return the places of the boxes that stay; they are sorted by score."""
        import torch
        from torchvision.ops import batched_nms, nms

        corners, scores = torch.from_numpy(boxes.corners), torch.from_numpy(boxes.scores)
        if self.agnostic:
            kept = nms(corners, scores, self.iou)
        else:
            kept = batched_nms(corners, scores, torch.from_numpy(boxes.classes), self.iou)
        # equal scores come in any order
        return np.sort(kept.numpy())


def kept_boxes(
    given: Candidates,
    place: Geometry,
    *,
    classes: int,
    order: Sequence[int],
    least: float,
    most: int,
    suppression: Suppression | None,
) -> BoxRecord:
    """Keep the ``most`` best boxes whose score is above ``least``, after suppression.

    ``order`` is that of `alignkit.tasks.ClassMap`, by which the model's classes are renumbered.
    Raise `BackendError` for a class that the model does not have.
    """
    finite = np.isfinite(given.scores) & np.isfinite(given.classes)
    with np.errstate(invalid="ignore"):
        wanted = given.scores > least
    usable = finite & np.isfinite(given.corners).all(axis=1)
    not_finite = int((~finite | (wanted & ~usable)).sum())
    # stable, and so the same whatever else is in the batch
    sure = np.flatnonzero(wanted & usable)
    sure = sure[np.argsort(-given.scores[sure], kind="stable")]
    best = _taken(given, sure[:_MOST_SUPPRESSED] if suppression else sure)
    _require_known(best.classes, classes)
    if suppression:
        best = _taken(best, suppression.kept(best))
    best = _taken(best, np.arange(min(most, len(best.scores))))
    corners = _inside(best.corners, place)
    area = (corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1])
    return BoxRecord(
        corners[area],
        best.scores[area],
        _renumbered(best.classes[area].astype(np.int64), order),
        (not_finite, int((~area).sum())),
    )


def _taken(given: Candidates, places: Labels) -> Candidates:
    return Candidates(given.corners[places], given.scores[places], given.classes[places])


def _require_known(found: npt.NDArray[np.float32], classes: int) -> None:
    wrong = (found < 0) | (found >= classes) | (found != np.floor(found))
    if wrong.any():
        raise BackendError(
            f"a box has the class {significant(float(found[wrong][0]), 6)}, and the model has "
            f"{classes}, counted from 0; name all classes that it was trained with, or set the "
            "task's first_label"
        )


def _renumbered(classes: Labels, order: Sequence[int]) -> Labels:
    if not order:
        return classes
    # the place of each of the model's classes
    places: Labels = np.argsort(order)
    return places[classes]


def _inside(corners: npt.NDArray[np.float32], place: Geometry) -> npt.NDArray[np.float32]:
    """Map boxes to the oriented image, and cut off what lies outside."""
    mapped = place.to_image(corners.astype(np.float64))
    edges = [place.width, place.height] * 2
    inside: npt.NDArray[np.float32] = mapped.clip(0, edges).astype(np.float32)
    return inside
