"""Boxes of one image as a reader found them → `Boxes` inside the image, and notes on corrections.

A box that reaches outside its image is clipped and counted, as annotation programs write such boxes
at borders. A box of no area, or wholly outside, is dropped and counted: no detection could match
it. A coordinate that is no finite number is an error of the reader: nobody meant it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from alignkit.datasets.annotated import Part
from alignkit.datasets.regular_file import escaped_name
from alignkit.decoders.exif import exif_orientation
from alignkit.errors import DataError
from alignkit.limits import IMAGE_BYTES
from alignkit.preprocess.image_header import LOOKED_AT, declared_size, image_format
from alignkit.stored_file import open_regular, stamp_of

if TYPE_CHECKING:
    from alignkit.annotations import Boxes
    from alignkit.arrays import FloatArray

COORDINATE_ROUNDING = 0.02
"""Pixels by which a box may leave its image uncounted: formats round coordinates."""


@dataclass(frozen=True, slots=True)
class FileBoxes:
    """The boxes of an image as its file gives them."""

    name: str
    """Of the image, relative to the data's root."""
    size: tuple[int, int]
    """Width and height of the oriented image."""
    corners: Sequence[Sequence[float]] | FloatArray
    """(boxes, 4): left, top, right, bottom, in pixels of the oriented image; no NaN."""
    classes: Sequence[int]
    crowd: Sequence[bool]


class _Tally:
    """Boxes that were corrected, and the first image with one."""

    def __init__(self, text: str) -> None:
        self.text, self.count, self.first = text, 0, ""

    def add(self, count: int, name: str) -> None:
        if count and not self.count:
            self.first = f", the first in {escaped_name(name)}"
        self.count += count

    def notes(self) -> tuple[str, ...]:
        return (f"{self.text}: {self.count}{self.first}",) if self.count else ()


def boxes_part(
    classes: tuple[str, ...], found: Iterable[FileBoxes], notes: Sequence[str] = ()
) -> Part:
    """Return the part of these images, sorted by name, with ``notes`` and those on corrections."""
    clipped = _Tally("boxes that reach outside their image, clipped")
    dropped = _Tally("boxes of no area or outside their image, dropped")
    empty = _Tally("images without objects")
    ordered = sorted(found, key=lambda each: each.name)
    annotations = []
    for each in ordered:
        boxes, outside = _inside(each)
        clipped.add(outside, each.name)
        dropped.add(len(each.classes) - len(boxes), each.name)
        empty.add(not len(boxes), each.name)
        annotations.append(boxes)
    return Part(
        classes=classes,
        names=tuple(each.name for each in ordered),
        annotations=tuple(annotations),
        identities=tuple(map(box_identity, annotations)),
        notes=(*notes, *clipped.notes(), *dropped.notes(), *empty.notes()),
    )


def box_identity(boxes: Boxes) -> str:
    """Compute the SHA-256 over corners, classes and crowds, in hex; the same on every machine."""
    parts = (boxes.corners.astype("<f8"), boxes.classes.astype("<i8"), boxes.crowd)
    return hashlib.sha256(b"".join(each.tobytes() for each in parts)).hexdigest()


def _inside(found: FileBoxes) -> tuple[Boxes, int]:
    """Clip and drop boxes; return also how many reach outside and remain."""
    import numpy as np

    from alignkit.annotations import Boxes

    corners = np.asarray(found.corners, np.float64).reshape(-1, 4)
    inside = np.clip(corners, 0, (*found.size, *found.size))
    kept = (inside[:, 2:] > inside[:, :2]).all(1)
    outside = (np.abs(inside - corners) > COORDINATE_ROUNDING).any(1) & kept
    boxes = Boxes(
        corners=inside[kept],
        classes=np.asarray(found.classes, np.int64)[kept],
        crowd=np.asarray(found.crowd, np.bool_)[kept],
    )
    return boxes, int(outside.sum())


class ShownSize(NamedTuple):
    """Sides of the oriented image, in pixels, and the orientation that the file asks for."""

    width: int
    height: int
    orientation: int = 1
    """EXIF's, 1..8."""


def shown_size(path: Path) -> ShownSize | None:
    """Read the size of an image; ``None`` if its header does not tell, or it cannot be read."""
    try:
        return _shown_size(os.fspath(path), stamp_of(path.stat()))
    except OSError:  # the image's reader says why
        return None


@lru_cache(maxsize=1 << 17)
def _shown_size(path: str, stamp: tuple[int, int, int]) -> ShownSize | None:
    del stamp  # of the cache's key alone
    with open_regular(Path(path), IMAGE_BYTES) as file:
        encoded = file.read(LOOKED_AT)
        # other formats may keep the orientation behind the pixels
        if image_format(encoded) != "JPEG" or declared_size(encoded) is None:
            encoded += file.read()
    size = declared_size(encoded)
    if not size or not all(size):
        return None
    orientation = exif_orientation(encoded)
    height, width = size if orientation < 5 else size[::-1]
    return ShownSize(width, height, orientation)


def required_size(path: Path, reason: str) -> ShownSize:
    """Read the size of an image; raise `DataError` if it cannot be known, with ``reason``."""
    size = shown_size(path)
    if size is None:
        raise DataError(
            f"{path}: its header does not tell its size, and {reason}; save it as JPEG or PNG, or "
            "remove it"
        )
    return size
