"""`LabelTable`: images with any number of labels each, from a CSV file.

Two forms are read. A file of two columns lists labels: ``image,labels``, several in a line apart by
``;``, or a line each, or none. A file of more columns has one for each class, named in the first
line, with 1 where the image has the label and 0 or nothing where it has not; so has a file of two
columns whose second holds nothing but 0 and 1, a line for each image.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from alignkit.datasets.annotated import Annotated, Part, require_files
from alignkit.datasets.image_files import is_image
from alignkit.datasets.regular_file import read_text
from alignkit.errors import ConfigError, DataError
from alignkit.limits import TABLE_BYTES
from alignkit.stored_file import stamp_of

if TYPE_CHECKING:
    from alignkit.samples import Truth

_OF_LISTS = frozenset(
    {"label", "labels", "class", "classes", "tag", "tags", "category", "categories"}
)
"""Names of a column that lists labels, and that are no class."""
_MARKS = {"1": True, "1.0": True, "0": False, "0.0": False, "": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTable(Annotated):
    """The images that a CSV file names, each with its labels."""

    truth: ClassVar[Truth] = "labels"

    annotations: Path
    """CSV file of the evaluated images; without ``train_annotations`` it is divided."""
    train_annotations: Path | None = None
    """CSV file of the training images."""
    classes: tuple[str, ...] = ()
    """Classes in the order of a model's outputs; by default the columns, or all labels of the files
    in sorted order."""
    separator: str = ";"
    """Text between two labels in a field; a space for any number of them."""
    suffix: str = ""
    """Suffix of the images, such as .jpg, if the file leaves it out."""

    def __post_init__(self) -> None:
        Annotated.__post_init__(self)
        if not self.separator:
            raise ConfigError("separator: is empty; name the text between two labels, e.g. ';'")

    def sources(self) -> tuple[Path | None, Path]:
        """Return the two files."""
        return self.train_annotations, self.annotations

    def named(self, source: Path) -> str:
        """Return the file's path."""
        return str(source)

    def class_names(self) -> tuple[str, ...]:
        """Return ``classes``, or those of the files; nothing without them."""
        return self.classes or (self._classes() if self.folder.exists() else ())

    def part(self, source: Path) -> Part:
        """Read a file; raise `DataError` for a label that is none of ``classes``."""
        from alignkit.annotations import LabelSet

        table, classes = self._table(source), self.classes or self._classes()
        index = {name: place for place, name in enumerate(classes)}
        labels = {}
        for name, found in table.rows.items():
            if unknown := sorted(found - index.keys()):
                raise DataError(f"{source}: {name} has {unknown[0]!r}, which is none of 'classes'")
            path = f"{name}{self.suffix}".replace(os.sep, "/")
            labels[path] = tuple(sorted(index[each] for each in found))
        names = sorted(labels)
        require_files(self.folder, names, str(source))
        empty = sum(not each for each in labels.values())
        return Part(
            classes=classes,
            names=tuple(names),
            annotations=tuple(LabelSet(labels[each]) for each in names),
            identities=tuple(",".join(map(str, labels[each])) for each in names),
            notes=(f"images without labels: {empty}",) if empty else (),
        )

    def _table(self, file: Path) -> _Table:
        try:
            stamp = stamp_of(file.expanduser().stat())
            return _read(file.expanduser(), stamp, self.separator, self.classes)
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error

    def _classes(self) -> tuple[str, ...]:
        files = [each for each in (self.annotations, self.train_annotations) if each]
        if self.eval_share == 1:
            files = files[:1]
        tables = [self._table(each) for each in files]
        if tables[0].columns:
            return tables[0].columns
        return tuple(
            sorted({label for each in tables for row in each.rows.values() for label in row})
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """The content of a CSV file."""

    rows: dict[str, frozenset[str]]
    """Image → its labels."""
    columns: tuple[str, ...]
    """Classes that have a column; empty for a file that lists labels."""


@lru_cache(maxsize=4)
def _read(
    file: Path, stamp: tuple[int, int, int], separator: str, classes: tuple[str, ...]
) -> _Table:
    """Read a CSV file; ``stamp`` is part of the cache's key."""
    del stamp
    try:
        reader = csv.reader(io.StringIO(read_text(file, TABLE_BYTES), newline=""), strict=True)
        lines = ((f"{file}, line {reader.line_num}", line) for line in reader)
        named = next(lines, (f"{file}, line 1", []))
        columns = _columns(*named)
        filled: Iterable[tuple[str, list[str]]] = (each for each in lines if each[1])
        if not columns:
            filled = [*filled]
            if _are_marks([line for _, line in filled]):
                columns = _one_class(*named, classes)
        rows: dict[str, frozenset[str]] = {}
        for where, line in filled:
            name, labels = _row(where, line, columns, separator)
            if columns and name in rows:
                raise DataError(f"{where}: {name} is there twice")
            rows[name] = rows.get(name, frozenset()) | labels
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 text") from error
    except csv.Error as error:
        raise DataError(f"{file}, line {reader.line_num}: {error}") from error
    return _Table(rows, columns)


def _columns(where: str, line: list[str]) -> tuple[str, ...]:
    """Return the classes that the first line names; none for a file that lists labels."""
    if len(line) < 2 or is_image(line[0]):
        raise DataError(
            f"{where}: it names no columns; write 'image,labels', or 'image' and each class"
        )
    columns = tuple(each.strip() for each in line[1:]) if len(line) > 2 else ()
    if len({*columns}) < len(columns):
        raise DataError(f"{where}: two columns have one name")
    return columns


def _are_marks(lines: list[list[str]]) -> bool:
    """Tell whether the second of two columns says of each image whether it has one label."""
    fields = [line[1].strip() for line in lines if len(line) == 2]
    # a file with a line for each label names an image several times
    images = {os.path.normpath(line[0].strip()) for line in lines}
    return len(fields) == len(images) == len(lines) and any(fields) and {*fields} <= _MARKS.keys()


def _one_class(where: str, line: list[str], classes: tuple[str, ...]) -> tuple[str, ...]:
    """Name the class of a column of 0 and 1; none if these are the names of labels."""
    if {*classes} & _MARKS.keys():
        return ()
    name = line[1].strip()
    if name.lower() in _OF_LISTS:
        if len(classes) == 1:
            return classes
        raise DataError(
            f"{where}: the column {name!r} holds 0 and 1 alone; name the class that an image of 1 "
            "has: 'classes: [NAME]', or write 'classes: [\"0\", \"1\"]' if these are two labels"
        )
    return (name,)


def _row(
    where: str, line: list[str], columns: tuple[str, ...], separator: str
) -> tuple[str, frozenset[str]]:
    """Return the image of a line, and the labels in it."""
    width = len(columns) or 1
    if len(line) != 1 + width or not line[0].strip():
        raise DataError(f"{where}: {len(line)} fields, expected an image and {width} more")
    name = os.path.normpath(line[0].strip())
    fields = [each.strip() for each in line[1:]]
    if not columns:
        return name, frozenset(
            filter(None, map(str.strip, fields[0].split(separator.strip() or None)))
        )
    if wrong := [each for each in fields if each not in _MARKS]:
        raise DataError(f"{where}: {wrong[0]!r} is no mark of a label, 1 or 0")
    return name, frozenset(each for each, mark in zip(columns, fields, strict=True) if _MARKS[mark])
