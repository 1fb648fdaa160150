"""Lists of images with their identities: ``label.txt``, a line ``path label`` for each image.

The last space or tab of a line divides it, so that paths may hold spaces; with the columns in the
other order, the first. Labels are whole numbers or names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from alignkit.datasets.identity_images import IdentityImages, in_order, require_once
from alignkit.datasets.listed_images import FileReads, ImageFile, list_files
from alignkit.datasets.regular_file import escaped_name, read_text
from alignkit.errors import DataError
from alignkit.limits import LABEL_CHARACTERS, LIST_BYTES

IMAGE_FIRST = ("image", "label")
"""Usual order of the columns of a line."""


def read_list(file: Path, folder: Path, columns: Sequence[str] = IMAGE_FIRST) -> IdentityImages:
    """Read a list of images below ``folder``; the images are hashed when they are needed.

    Raise `DataError` with the line for one that has no label, for an image that is listed twice or
    that is not there.
    """
    names, labels, lines = [], [], []
    longest = LABEL_CHARACTERS()
    for number, line in enumerate(text_of(file).splitlines(), 1):
        if not line.strip():
            continue
        name, label = _divided(line.strip(), columns)
        if not (name and label):
            wanted = " ".join("path" if each == "image" else each for each in columns)
            raise DataError(
                f"{file}, line {number}: {escaped_name(line.strip()[:80])!r} is not '{wanted}'"
            )
        if len(label) > longest:
            LABEL_CHARACTERS.require(len(label), f"{file}, line {number}: its label has")
        names.append(os.path.normpath(name.replace("\\", "/")).replace(os.sep, "/"))
        labels.append(label)
        lines.append(number)
    if not names:
        raise DataError(f"{file} lists no image; a line is 'path label'")
    require_once(names, lambda index: f"{file}, line {lines[index]}")
    for name, number in zip(names, lines, strict=True):
        if not os.path.lexists(folder / name):
            raise DataError(
                f"{file}, line {number}: {escaped_name(name)} is not in {folder}; name the folder "
                "at which its paths begin with 'images', or remove the line"
            )
    return files_of(folder, names, labels, gaps(str(file), labels))


def files_of(
    folder: Path, names: Sequence[str], identities: Sequence[str], notes: Sequence[str] = ()
) -> IdentityImages:
    """Return image files below a folder, with their identities; they are hashed when needed."""

    @cache
    def files() -> tuple[ImageFile, ...]:
        return list_files(folder, names)

    return IdentityImages(
        names=tuple(names),
        identities=tuple(identities),
        contents=lambda: tuple(each.identity for each in files()),
        reads=lambda: FileReads(folder, tuple(names), files()),
        notes=tuple(notes),
    )


def _divided(line: str, columns: Sequence[str]) -> tuple[str, str]:
    """Return the path and the label of a line."""
    if tuple(columns) == IMAGE_FIRST:
        found = re.fullmatch(r"(.*\S)[ \t]+(\S+)", line)
        return (found[1], found[2]) if found else (line, "")
    label, *rest = re.split(r"[ \t]+", line, maxsplit=1)
    return (rest[0] if rest else ""), label


def gaps(file: str, labels: Sequence[str]) -> list[str]:
    """Say which numbers between the labels of a file have no image, as a trainer may count on."""
    known = {*labels}
    if not all(each.isascii() and each.isdigit() for each in known):
        return []
    greatest = int(in_order(known)[-1])
    used = {int(each) for each in known}
    absent = greatest + 1 - len(used)
    if not absent:
        return []
    first = next(each for each in range(greatest + 1) if each not in used)
    return [f"{file}: {absent} of the labels 0 to {greatest} have no image, the first {first}"]


def text_of(file: Path) -> str:
    """Read a text file; raise `DataError` with the line if it is not UTF-8."""
    try:
        return read_text(file, LIST_BYTES)
    except UnicodeDecodeError as error:
        line = bytes(error.object[: error.start]).count(b"\n") + 1
        raise DataError(f"{file}, line {line}: it is not UTF-8 text; convert it") from error
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
