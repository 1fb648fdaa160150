"""Files of pairs: LFW's ``pairs.txt``, and lines of two images with 0 or 1."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from alignkit.annotations import PAIR_FOLDS
from alignkit.datasets.identity_images import ImagePair, folds_in_order
from alignkit.datasets.identity_list import text_of
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError

_HEADS = ("first", "image1", "a", "path1", "img1")
"""First words of a line that names columns."""
_DIGITS = 9
"""Of the greatest number: more than any file has pairs, folds or images of a person."""
_MARKS = {"1": True, "0": False, "true": True, "false": False}


def read_pairs(file: Path, names: Sequence[str]) -> tuple[ImagePair, ...]:
    """Read pairs of the images with these names.

    LFW's form begins with the number of folds and of pairs, or of pairs alone; then each fold lists
    same pairs, ``name number number``, and different ones, ``name number name number``, of
    ``name/name_0001.jpg``. Other files have a line ``first second same`` for each pair, and perhaps
    its fold, 0 to 9, apart by commas, tabs or spaces; without folds these are tenths in order.
    Raise `DataError` with the line that is wrong.
    """
    lines = [
        (number, each) for number, each in enumerate(text_of(file).splitlines(), 1) if each.strip()
    ]
    if not lines:
        raise DataError(f"{file} is empty; a line is 'first second 0' or 'first second 1'")
    found = _Names(file, names)
    head = lines[0][1].split()
    is_lfw = len(head) <= 2 and all(map(_is_number, head))
    pairs = tuple((_of_lfw if is_lfw else _of_lines)(file, lines, found))
    if not pairs:
        raise DataError(f"{file} has no pair; a line is 'first second 0' or 'first second 1'")
    return pairs


class _Names:
    """Images by name, with or without the suffix."""

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        self.file = file
        self.index = {name: at for at, name in enumerate(names)}
        stems = [os.path.splitext(name)[0] for name in names]  # noqa: PTH122
        counts = Counter(stems)
        self.by_stem = {stem: at for at, stem in enumerate(stems) if counts[stem] == 1}
        self.twice = {stem for stem, count in counts.items() if count > 1}

    def of(self, name: str, number: int) -> int:
        """Return the index of an image; raise `DataError` if there is none of that name."""
        at = self.index.get(name, self.by_stem.get(name))
        if at is None and name in self.twice:
            raise DataError(
                f"{self.file}, line {number}: several images are called {escaped_name(name)}; "
                "write their suffix"
            )
        if at is None:
            raise DataError(
                f"{self.file}, line {number}: no image {escaped_name(name)}; names begin at the "
                "folder of the images"
            )
        return at


def _pair(where: str, first: int, second: int, *, same: bool, fold: int) -> ImagePair:
    if first == second:
        raise DataError(f"{where}: the image is paired with itself; remove the line")
    return ImagePair(first, second, same, fold)


def _of_lfw(file: Path, lines: list[tuple[int, str]], names: _Names) -> Iterator[ImagePair]:
    head = [int(each) for each in lines[0][1].split()]
    folds, size = head if len(head) == 2 else (1, head[0])
    if folds > PAIR_FOLDS:
        raise DataError(f"{file}, line 1: {folds} folds; {PAIR_FOLDS} at most")
    wanted = 2 * folds * size
    if len(lines) - 1 != wanted:
        raise DataError(
            f"{file}, line 1: it promises {folds} folds of {size} same and {size} different pairs, "
            f"{wanted} lines, and {len(lines) - 1} follow; was the file cut off?"
        )
    spread = [*folds_in_order(size)]
    for at, (number, line) in enumerate(lines[1:]):
        where = f"{file}, line {number}"
        parts = line.split("\t") if "\t" in line else line.split()
        same = at // size % 2 == 0
        if len(parts) != (3 if same else 4):
            wanted_form = "name number number" if same else "name number name number"
            raise DataError(f"{where}: expected '{wanted_form}'")
        people = (parts[0], parts[0], parts[1], parts[2]) if same else (
            parts[0], parts[2], parts[1], parts[3])  # fmt: skip
        if not all(_is_number(each.strip()) for each in people[2:]):
            raise DataError(f"{where}: the number of an image is none")
        first, second = (
            names.of(f"{person}/{person}_{int(image):04d}", number)
            for person, image in ((people[0], people[2]), (people[1], people[3]))
        )
        fold = at // (2 * size) if folds > 1 else spread[at % size]
        yield _pair(where, first, second, same=same, fold=fold)


def _of_lines(file: Path, lines: list[tuple[int, str]], names: _Names) -> Iterator[ImagePair]:
    rows = [(number, _fields(line)) for number, line in lines]
    head = rows[0][1]
    if head[0].lower() in _HEADS and (len(head) < 3 or head[2].lower() not in _MARKS):
        rows = rows[1:]
    spread = [*folds_in_order(len(rows))]
    for at, (number, fields) in enumerate(rows):
        where = f"{file}, line {number}"
        if len(fields) not in (3, 4) or fields[2].lower() not in _MARKS:
            raise DataError(f"{where}: expected 'first second 1' for the same identity, else 0")
        if len(fields) == 4 and not (_is_number(fields[3]) and int(fields[3]) < PAIR_FOLDS):
            raise DataError(f"{where}: fold {fields[3][:80]!r}; 0 to {PAIR_FOLDS - 1}")
        fold = int(fields[3]) if len(fields) == 4 else spread[at]
        first, second = names.of(fields[0], number), names.of(fields[1], number)
        yield _pair(where, first, second, same=_MARKS[fields[2].lower()], fold=fold)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _fields(line: str) -> list[str]:
    if "\t" in line:
        return [each.strip() for each in line.split("\t")]
    if "," in line:
        return [each.strip() for each in next(csv.reader([line]))]
    return line.split()
