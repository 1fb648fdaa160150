"""`Voc`: a folder as Pascal VOC has it: an XML file of boxes for each image, and lists of sets.

The format is that of the VOC2012 development kit. Its pixels are counted from 1 and a box holds its
last pixel, so the box 1, 1, 1, 1 is the corners 0, 0, 1, 1. ``difficult`` objects count for
nothing, as in VOC's own evaluation.

A document type is refused, and with it every entity: the files need none, and a stranger's could
grow without bound.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from alignkit.datasets.annotated import EVAL_SETS, TRAIN_SET, Annotated, Part, by_stem
from alignkit.datasets.read_boxes import FileBoxes, boxes_part, shown_size
from alignkit.datasets.regular_file import escaped_name, read_text
from alignkit.errors import DataError
from alignkit.limits import ANNOTATION_BYTES, TABLE_BYTES
from alignkit.stored_file import read_regular, stamp_of

if TYPE_CHECKING:
    from alignkit.samples import Truth

_SETS = "ImageSets/Main"
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True, kw_only=True)
class Voc(Annotated):
    """Images and XML files below ``root``; classes are the names of objects, in sorted order."""

    truth: ClassVar[Truth] = "boxes"

    images_dir: str = "JPEGImages"
    """Folder below ``root`` with the images."""
    annotations_dir: str = "Annotations"
    """Folder below ``root`` with an XML file for each image, of the image's name."""
    train_set: str = TRAIN_SET
    """List of the training images: ``ImageSets/Main/<train_set>.txt``."""
    eval_set: str = ""
    """List of the evaluated images; by default the first that exists of ``val``, ``valid``,
    ``validation``, ``eval``, ``test``."""
    classes: tuple[str, ...] = ()
    """Classes in the order of a model's outputs; by default every name in ``annotations_dir``."""
    first_pixel: Literal[0, 1] = 1
    """Number of an image's first pixel: 1 as VOC counts; with 0, corners are taken as they are."""

    def sources(self) -> tuple[str | None, str]:
        """Return the names of the sets; ``""`` is every image, where there are no lists."""
        sets = self.folder / _SETS
        wanted = (self.eval_set,) if self.eval_set else EVAL_SETS
        found = [name for name in wanted if (sets / f"{name}.txt").is_file()]
        train = self.train_set if (sets / f"{self.train_set}.txt").is_file() else None
        if not found and (self.eval_set or train):
            raise DataError(f"{sets} has no {' or '.join(wanted)}.txt; name a list with 'eval_set'")
        return train, found[0] if found else ""

    def named(self, source: str) -> str:
        """Return the path of the list, or of the folder."""
        return str(self.folder / _SETS / f"{source}.txt" if source else self.folder)

    def class_names(self) -> tuple[str, ...]:
        """Return ``classes``, or every name in the XML files."""
        return self.classes or (self._all_classes() if self.folder.exists() else ())

    def part(self, source: str) -> Part:
        """Read the XML files of a set; an image without one has no objects."""
        images = by_stem(self.folder, self.images_dir)
        described = self._described()
        stems = self._set(source) if source else [*images]
        wanted = described if not source else described.keys() & {*stems}
        if alone := sorted({*wanted, *stems} - images.keys()):
            where = self.folder / (self.annotations_dir if alone[0] in described else _SETS)
            raise DataError(
                f"{len(alone)} images that {where} names are not in "
                f"{self.folder / self.images_dir}, the first {escaped_name(alone[0])}"
            )
        classes = self.classes or self._all_classes()
        found = [self._found(images[each], described.get(each), classes) for each in stems]
        without = sum(each not in described for each in stems)
        notes = [f"images without an XML file, taken as without objects: {without}"] * bool(without)
        return boxes_part(classes, found, notes)

    def _set(self, name: str) -> list[str]:
        """List the stems in a set's file; the lists of a class have a second column."""
        file = self.folder / _SETS / f"{name}.txt"
        try:
            lines = read_text(file, TABLE_BYTES).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read {file}: {error}") from error
        return list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))

    def _described(self) -> dict[str, Path]:
        folder = self.folder / self.annotations_dir
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder; name that of the XML files")
        files = sorted(each for each in folder.rglob("*.xml") if not each.name.startswith("."))
        return {each.relative_to(folder).with_suffix("").as_posix(): each for each in files}

    def _all_classes(self) -> tuple[str, ...]:
        files = self._described().values()
        names = sorted({each.name for file in files for each in _described(file).objects})
        if not names:
            raise DataError(f"no object in {self.folder / self.annotations_dir}; name 'classes'")
        return tuple(names)

    def _found(self, name: str, file: Path | None, classes: tuple[str, ...]) -> FileBoxes:
        shown = shown_size(self.folder / name)
        if file is None:
            return FileBoxes(name, shown[:2] if shown else (0, 0), [], [], [])
        described = _described(file)
        size = shown[:2] if shown else described.size
        # some programs write 0 for a size that they do not know
        if all(described.size) and size != described.size:
            raise DataError(
                f"{file} is of an image of {described.size[0]}x{described.size[1]}, and "
                f"{escaped_name(name)} is {size[0]}x{size[1]} as a viewer shows it"
            )
        objects = described.objects
        if unknown := [each.name for each in objects if each.name not in classes]:
            raise DataError(f"{file}: {unknown[0]!r} is none of 'classes'")
        first = self.first_pixel
        return FileBoxes(
            name=name,
            size=size,
            corners=[(x - first, y - first, right, below) for x, y, right, below in
                     (each.corners for each in objects)],
            classes=[classes.index(each.name) for each in objects],
            crowd=[each.difficult for each in objects],
        )  # fmt: skip


class _Object(NamedTuple):
    name: str
    corners: tuple[float, float, float, float]
    """As the file has them."""
    difficult: bool


class _Described(NamedTuple):
    """The content of an XML file."""

    size: tuple[int, int]
    """Width and height; zeros if it has none."""
    objects: tuple[_Object, ...]


def _described(file: Path) -> _Described:
    try:
        return _parsed(os.fspath(file), stamp_of(file.stat()))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error


@lru_cache(maxsize=1 << 17)
def _parsed(file: str, stamp: tuple[int, int, int]) -> _Described:
    """Parse an XML file; ``stamp`` is part of the cache's key."""
    del stamp
    try:
        root = parsed_xml(read_regular(Path(file), ANNOTATION_BYTES))
        size = (int(root.findtext("size/width", "0")), int(root.findtext("size/height", "0")))
    except (expat.ExpatError, ValueError) as error:
        raise DataError(f"{file} is no XML file of VOC: {error}") from error
    found = enumerate(root.iterfind("object"), start=1)
    return _Described(
        size, tuple(_object(f"{file}: object {place}", each) for place, each in found)
    )


def _object(where: str, element: Element) -> _Object:
    name = element.findtext("name", "").strip()
    if not name:
        raise DataError(f"{where} has no name")
    texts = [element.findtext(f"bndbox/{each}", "") for each in _CORNERS]
    try:
        left, top, right, bottom = map(float, texts)
    except ValueError:
        wrong = ", ".join(f"{key} {text!r}" for key, text in zip(_CORNERS, texts, strict=True))
        raise DataError(f"{where} ({name}) needs four numbers in bndbox: {wrong}") from None
    if not all(map(math.isfinite, (left, top, right, bottom))):
        raise DataError(f"{where} ({name}): {', '.join(texts)} are no coordinates")
    return _Object(name, (left, top, right, bottom), element.findtext("difficult", "0") == "1")


def parsed_xml(data: bytes) -> Element:
    """Parse an XML document; raise `ExpatError`, or `ValueError` if it declares a document type."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.Parse(data, True)
    return builder.close()


def _refuse_doctype(*_: object) -> None:
    raise ValueError("it declares a document type, which may define entities; remove it")
