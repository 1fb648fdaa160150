"""Labels of an image that are more than one class, and pairs of images.

Coordinates are pixels of the oriented image, as a viewer shows it: the centre of its first pixel is
(0.5, 0.5), and its corners are (0, 0) and (width, height).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from alignkit.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import FloatArray, Labels

IGNORED = 255
"""Value of a mask's pixels that count for nothing, as Pascal VOC has it."""
PAIR_FOLDS = 10
"""Parts of a cross-validation of pairs, as Labeled Faces in the Wild has them."""


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """The objects of an image; none is allowed."""

    truth: ClassVar[Literal["boxes"]] = "boxes"

    corners: FloatArray
    """(objects, 4): left, top, right, bottom in pixels; finite, right > left, bottom > top."""
    classes: Labels
    """(objects,), index into the data's classes."""
    crowd: npt.NDArray[np.bool_]
    """(objects,), whether it is a group of objects: a detection inside counts for nothing."""

    def __post_init__(self) -> None:
        count = len(self.classes)
        if self.corners.shape != (count, 4) or self.crowd.shape != (count,):
            raise DataError(
                f"{count} objects need corners ({count}, 4) and crowd ({count},), not "
                f"{self.corners.shape} and {self.crowd.shape}"
            )

    def __len__(self) -> int:
        return len(self.classes)

    def present(self) -> tuple[int, ...]:
        """List the classes of the objects, ascending, each once."""
        import numpy as np

        return tuple(np.unique(self.classes).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The class of every pixel of an image; read on demand."""

    truth: ClassVar[Literal["mask"]] = "mask"

    read: Callable[[], npt.NDArray[np.uint8]]
    """Returns (height, width): index into the data's classes, or `IGNORED`. Raises `DataError`."""

    def present(self) -> tuple[int, ...]:
        """List the classes of the pixels, ascending, each once; reads the mask."""
        import numpy as np

        return tuple(each for each in np.unique(self.read()).tolist() if each != IGNORED)


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Every label of an image; none is allowed."""

    truth: ClassVar[Literal["labels"]] = "labels"

    labels: tuple[int, ...]
    """Indices into the data's classes, ascending."""

    def present(self) -> tuple[int, ...]:
        """Return the labels."""
        return self.labels


Annotation: TypeAlias = Boxes | Mask | LabelSet


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of images that data gives for verification, with their folds."""

    first: Labels
    """(pairs,), index of a sample."""
    second: Labels
    """(pairs,), index of another sample."""
    same: npt.NDArray[np.bool_]
    """(pairs,), whether both images have the same identity."""
    fold: Labels
    """(pairs,), 0 to 9: the tenth of a cross-validation that the pair belongs to."""

    def __post_init__(self) -> None:
        import numpy as np

        count = len(self.first)
        if any(each.shape != (count,) for each in (self.first, self.second, self.same, self.fold)):
            raise DataError(f"{count} pairs need as many second images, answers and folds")
        if (self.first == self.second).any():
            at = int(np.flatnonzero(self.first == self.second)[0])
            raise DataError(f"pair {at} has the same image twice, number {int(self.first[at])}")
        if count and not (self.fold.min() >= 0 and self.fold.max() < PAIR_FOLDS):
            raise DataError(f"folds of pairs are numbered from 0 to {PAIR_FOLDS - 1}")

    def __len__(self) -> int:
        return len(self.first)

    def take(self, indices: Sequence[int]) -> Pairs:
        """Keep the pairs whose images are both at ``indices``, with their places in that list.

        The pairs keep their order. An image may not be taken twice: raise `DataError`.
        """
        import numpy as np

        if len(set(indices)) != len(indices):
            raise DataError("pairs cannot be kept where an image is taken twice")
        most = max([*indices, *self.first.tolist(), *self.second.tolist()], default=-1)
        place = np.full(most + 1, -1, np.int64)
        place[list(indices)] = np.arange(len(indices))
        first, second = place[self.first], place[self.second]
        kept = (first >= 0) & (second >= 0)
        return Pairs(first[kept], second[kept], self.same[kept], self.fold[kept])
