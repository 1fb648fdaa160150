"""Boxes of many images in one table, those of each image one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class FoundBoxes:
    """The boxes that a model found, of each image the greatest score first."""

    starts: Labels
    """(images + 1,): where the boxes of each image begin, and where the last ones end."""
    corners: npt.NDArray[np.float32]
    """(boxes, 4): left, top, right, bottom in pixels of the oriented image, inside of it."""
    scores: npt.NDArray[np.float32]
    """(boxes,)."""
    classes: Labels
    """(boxes,), index into the data's classes, then the model's others."""

    def __post_init__(self) -> None:
        _check(self.starts, self.corners, self.scores, self.classes)

    @property
    def images(self) -> Labels:
        """Return the image of each box, (boxes,)."""
        return _images(self.starts)

    def rows(self, indices: Labels) -> FoundBoxes:
        """Select images, in the order of ``indices``."""
        starts, boxes = _selection(self.starts, indices)
        return FoundBoxes(starts, self.corners[boxes], self.scores[boxes], self.classes[boxes])

    def differing(self, other: FoundBoxes) -> npt.NDArray[np.bool_]:
        """Tell, (images,), whether another side of the same images has other boxes."""
        counts = np.diff(self.starts)
        differing: npt.NDArray[np.bool_] = counts != np.diff(other.starts)
        same = np.flatnonzero(~differing)
        one, two = self.rows(same), other.rows(same)
        apart = (one.corners != two.corners).any(axis=1)
        apart |= (one.scores != two.scores) | (one.classes != two.classes)
        differing[same[one.images[apart]]] = True
        return differing


@dataclass(frozen=True, slots=True, eq=False)
class TrueBoxes:
    """The objects that the images show."""

    starts: Labels
    corners: FloatArray
    """(boxes, 4), as `alignkit.annotations.Boxes` has them."""
    classes: Labels
    crowd: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        _check(self.starts, self.corners, self.classes, self.crowd)

    @property
    def images(self) -> Labels:
        """Return the image of each box, (boxes,)."""
        return _images(self.starts)

    def rows(self, indices: Labels) -> TrueBoxes:
        """Select images, in the order of ``indices``."""
        starts, boxes = _selection(self.starts, indices)
        return TrueBoxes(starts, self.corners[boxes], self.classes[boxes], self.crowd[boxes])

    def equals(self, other: TrueBoxes) -> bool:
        """Tell whether the objects are the same ones."""
        names = ("starts", "corners", "classes", "crowd")
        return all(np.array_equal(getattr(self, each), getattr(other, each)) for each in names)


def starts_of(counts: npt.ArrayLike) -> Labels:
    """Return where each image's boxes begin, (images + 1,), from their numbers (images,)."""
    counts = np.asarray(counts, np.int64)
    starts: Labels = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
    return starts


def no_objects(images: int) -> TrueBoxes:
    """Return the truth of images of which none is known."""
    none = np.zeros(0, np.int64)
    return TrueBoxes(starts_of(np.zeros(images)), np.zeros((0, 4)), none, none.astype(np.bool_))


def _images(starts: Labels) -> Labels:
    images: Labels = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return images


def _selection(starts: Labels, indices: Labels) -> tuple[Labels, Labels]:
    """Return the starts of the chosen images' boxes, and the places of these boxes."""
    counts = np.diff(starts)[indices]
    chosen = starts_of(counts)
    boxes = np.repeat(starts[:-1][indices] - chosen[:-1], counts) + np.arange(chosen[-1])
    return chosen, boxes


def _check(
    starts: Labels, corners: npt.NDArray[np.floating], *values: npt.NDArray[np.generic]
) -> None:
    count = int(starts[-1]) if len(starts) else -1
    good = count >= 0 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
    if not good or corners.shape != (count, 4) or any(each.shape != (count,) for each in values):
        raise DataError("the boxes of the images do not fit together")
