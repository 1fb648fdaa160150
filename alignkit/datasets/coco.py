"""`Coco`: images and boxes of a COCO file: a JSON object of images, annotations and categories.

The format is that of https://cocodataset.org/#format-data: ``bbox`` is left, top, width and height
in pixels, counted from the image's corner, and an annotation with ``iscrowd`` is a group.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from pydantic import BaseModel, FiniteFloat, ValidationError

from alignkit.datasets.annotated import Annotated, Part, require_files
from alignkit.datasets.read_boxes import FileBoxes, ShownSize, boxes_part, shown_size
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError
from alignkit.stored_file import read_regular, stamp_of

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray
    from alignkit.samples import Truth

_Id: TypeAlias = int | str


class _Image(BaseModel):
    id: _Id
    file_name: str
    width: int
    height: int


class _Annotation(BaseModel):
    image_id: _Id
    category_id: _Id
    bbox: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    iscrowd: bool = False


class _Category(BaseModel):
    id: _Id
    name: str


class _Content(BaseModel):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]


class CocoSource(NamedTuple):
    """A COCO file, and the folder below the root that its file names begin at."""

    file: Path
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coco(Annotated):
    """Images below ``root`` with the boxes of a COCO file; classes in the order of category ids."""

    truth: ClassVar[Truth] = "boxes"

    annotations: Path
    """COCO file of the evaluated images; without ``train_annotations`` it is divided."""
    train_annotations: Path | None = None
    """COCO file of the training images."""
    eval_dir: str = ""
    """Folder below ``root`` that the file names in ``annotations`` begin at, such as val2017."""
    train_dir: str = ""
    """The same of ``train_annotations``."""
    oriented: bool = True
    """Whether boxes are of the image as a viewer shows it; false if they were made from pixels that
    were not turned by EXIF."""

    def sources(self) -> tuple[CocoSource | None, CocoSource]:
        """Return the two files, each with its folder."""
        train = self.train_annotations and CocoSource(self.train_annotations, self.train_dir)
        return train or None, CocoSource(self.annotations, self.eval_dir)

    def named(self, source: CocoSource) -> str:
        """Return the file's path."""
        return str(source.file)

    def part(self, source: CocoSource) -> Part:
        """Read the file; images without annotations have no objects."""
        file = source.file.expanduser()
        try:
            stamp = stamp_of(file.stat())
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        listed = _listed(file, stamp)
        names = [os.path.normpath(Path(source.directory, each)) for each in listed.names]
        names = [each.replace(os.sep, "/") for each in names]
        if len({*names}) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            pair = [own for own, name in zip(listed.names, names, strict=True) if name == twice]
            raise DataError(
                f"{file}: the file_names {pair[0]!r} and {pair[1]!r} are one image; join their "
                "entries"
            )
        require_files(self.folder, names, str(file))
        found = [
            self._found(file, name, size, boxes)
            for name, size, boxes in zip(names, listed.sizes, listed.boxes, strict=True)
        ]
        return boxes_part(listed.classes, found)

    def _found(self, file: Path, name: str, size: tuple[int, int], boxes: _Boxes) -> FileBoxes:
        shown = shown_size(self.folder / name) or ShownSize(*size)
        stored = shown if shown.orientation < 5 else shown._replace(
            width=shown.height, height=shown.width
        )  # fmt: skip
        if size != (shown if self.oriented else stored)[:2]:
            self._refuse_size(file, name, size, shown, stored)
        corners = boxes.corners
        if not self.oriented:
            corners = turned(corners, stored)
        return FileBoxes(name, shown[:2], corners, boxes.classes, boxes.crowd)

    def _refuse_size(
        self, file: Path, name: str, size: tuple[int, int], shown: ShownSize, stored: ShownSize
    ) -> None:
        other = stored if self.oriented else shown
        turn = f"write 'oriented: {str(not self.oriented).lower()}'"
        advice = turn if size == other[:2] else "its boxes are of another image"
        raise DataError(
            f"{file} says that {escaped_name(name)} is {size[0]}x{size[1]}, and as a viewer shows "
            f"it, it is {shown.width}x{shown.height}; {advice}"
        )


def turned(corners: FloatArray, stored: ShownSize) -> FloatArray:
    """Turn (n, 4) corners of an image as it is stored, of that size, into those of the oriented."""
    from alignkit.preprocess.geometry import Geometry

    width, height = stored[:2] if stored.orientation < 5 else stored[1::-1]
    # a path that only leaves the turn out
    whole = Geometry(width, height, *stored[:2], 1.0, 1.0, 0, 0, stored.orientation)
    return whole.to_image(corners)


class _Boxes(NamedTuple):
    corners: FloatArray
    classes: list[int]
    crowd: list[bool]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A COCO file's content, an entry for each image."""

    classes: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    boxes: tuple[_Boxes, ...]


@lru_cache(maxsize=4)
def _listed(file: Path, stamp: tuple[int, int, int]) -> _Listed:
    """Read a COCO file; ``stamp`` is part of the cache's key."""
    del stamp
    content = _content(file)
    categories = {each.id: each.name for each in content.categories}
    ids = sorted(categories, key=lambda each: (isinstance(each, str), each))
    index = {category: place for place, category in enumerate(ids)}
    own: dict[_Id, list[_Annotation]] = {each.id: [] for each in content.images}
    for place, each in enumerate(content.annotations):
        for known, kind, key in (
            (index, "category", each.category_id),
            (own, "image", each.image_id),
        ):
            if key not in known:
                raise DataError(f"{file}: annotations.{place}: no {kind} has the id {key!r}")
        own[each.image_id].append(each)
    return _Listed(
        classes=tuple(categories[each] for each in ids),
        names=tuple(each.file_name for each in content.images),
        sizes=tuple((each.width, each.height) for each in content.images),
        boxes=tuple(_boxes(each, index) for each in own.values()),
    )


def _boxes(annotations: list[_Annotation], index: dict[_Id, int]) -> _Boxes:
    import numpy as np

    sides = np.array([each.bbox for each in annotations], np.float64).reshape(-1, 4)
    with np.errstate(over="ignore"):  # clipped to the image, as any other that leaves it
        corners = np.concatenate([sides[:, :2], sides[:, :2] + sides[:, 2:]], axis=1)
    classes = [index[each.category_id] for each in annotations]
    return _Boxes(corners, classes, [each.iscrowd for each in annotations])


def _content(file: Path) -> _Content:
    try:
        content = _Content.model_validate_json(read_regular(file))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        more = f"; {error.error_count()} errors in all" if error.error_count() > 1 else ""
        raise DataError(
            f"{file} is no COCO file of boxes: {place}{': ' * bool(place)}{first['msg']}{more}"
        ) from None
    for kind, each in (
        ("image id", [each.id for each in content.images]),
        ("file_name", [each.file_name for each in content.images]),
        ("category id", [each.id for each in content.categories]),
        ("category name", [each.name for each in content.categories]),
    ):
        if len({*each}) < len(each):
            twice = next(one for one, count in Counter(each).items() if count > 1)
            raise DataError(f"{file}: the {kind} {twice!r} is there twice; correct one")
    return content
