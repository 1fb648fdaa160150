"""Verification sets as InsightFace and PLSC keep them: ``lfw.bin``, a pickle of images and pairs.

It holds a list of 2 n encoded images and a list of n truth values: images 2 i and 2 i + 1 are a
pair, and value i tells whether it is of one person. Folds are tenths in order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from alignkit.datasets.identity_images import IdentityImages, ImagePair, folds_in_order
from alignkit.datasets.pickled_images import PickledArray, PickledBytes, PickledReader
from alignkit.errors import ChangedImage, DataError
from alignkit.stored_file import Stamp, open_regular, stamp_of

SUFFIXES = (".bin", ".pkl", ".pickle")
"""Suffixes of files that are read as verification sets."""
_LARGEST_ARRAY = 2_400_002
"""Bytes of an array of 600,000 truth values; a literal of Python 2 has four characters for each."""


def read_bin(file: Path) -> IdentityImages:
    """Read a verification set, without running the pickle; an image that it repeats is there once.

    Raise `DataError` for any file that is not such a set.
    """
    try:
        found, digests, notes = _read(file, stamp := stamp_of(file.stat()))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    images, same = found
    first: dict[str, int] = {}
    place: list[int] = []  # of each image of the file: the first one of the same bytes
    for index, digest in enumerate(digests):
        partner = place[index - 1] if index % 2 else None
        at = first.setdefault(digest, index)
        # a pair of one image with itself keeps both
        place.append(index if partner == at else at)
    kept = sorted({*place})
    row = {index: new for new, index in enumerate(kept)}
    return IdentityImages(
        names=tuple(f"{file.name}:{index:06d}" for index in kept),
        identities=(),
        contents=lambda: tuple(digests[index] for index in kept),
        reads=lambda: BinReads(file, stamp, tuple(images[index] for index in kept)),
        pairs=tuple(
            ImagePair(row[place[2 * at]], row[place[2 * at + 1]], known, fold)
            for at, (known, fold) in enumerate(zip(same, folds_in_order(len(same)), strict=True))
        ),
        notes=notes,
    )


_Found = tuple[list[PickledBytes], list[bool]]


@lru_cache(maxsize=8)
def _read(file: Path, stamp: Stamp) -> tuple[_Found, tuple[str, ...], tuple[str, ...]]:
    """Read a file once; ``stamp`` is part of the cache's key."""
    if not stamp[0]:
        raise DataError(f"{file} is empty")
    with open_regular(file) as opened:
        reader = PickledReader(opened, stamp[0])
        try:
            images, same = _checked(reader.read(), reader)
            known = {each: _digest(reader, each) for each in dict.fromkeys(images)}
            digests = tuple(known[each] for each in images)
        except (DataError, ValueError) as error:
            raise DataError(f"{file} is no verification set: {error}") from None
    both = sum(digests[at] == digests[at + 1] for at in range(0, len(digests), 2))
    repeated = len(digests) - len({*digests})
    notes = [
        f"{file}: {repeated} of its {len(digests)} images are repeated; each is evaluated once"
    ]
    if both:
        notes.append(f"{file}: {both} pairs are of one image with itself")
    return (images, same), digests, tuple(notes) if repeated else ()


def _digest(reader: PickledReader, place: PickledBytes) -> str:
    return hashlib.sha256(reader.bytes_at(place)).hexdigest()


def _checked(value: Any, reader: PickledReader) -> _Found:
    """Return the images and whether each pair is of one person; raise `DataError` for others."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise DataError("it is no pair of a list of images and a list of truth values")
    images, same = value[0], _listed(value[1], reader)
    if not isinstance(images, list | tuple) or not isinstance(same, list | tuple):
        raise DataError("it is no pair of a list of images and a list of truth values")
    if len(images) != 2 * len(same):
        raise DataError(f"{len(images)} images need half as many pairs, and it has {len(same)}")
    if not images:
        raise DataError("it has no images")
    places = []
    for index, each in enumerate(images):
        if isinstance(each, PickledArray) and each.dtype.lstrip("|") in ("u1", "uint8"):
            each = each.data  # noqa: PLW2901
        if not isinstance(each, PickledBytes) or each.form == "text":
            raise DataError(f"image {index} is no bytes")
        places.append(each)
    wrong = [at for at, each in enumerate(same) if not (isinstance(each, int) and each in (0, 1))]
    if wrong:
        raise DataError(f"pair {wrong[0]} is neither true nor false")
    return places, [bool(each) for each in same]


def _listed(same: Any, reader: PickledReader) -> Any:
    """List the values of an array of truth values; return anything else as it is."""
    if not (isinstance(same, PickledArray) and same.data and same.dtype.lstrip("|") in ("b1", "?")):
        return same
    if same.data.length > _LARGEST_ARRAY:
        raise DataError(f"its truth values have {same.data.length:,} bytes, more than any set's")
    return [each != 0 for each in reader.bytes_at(same.data)]


@dataclass(frozen=True, slots=True)
class BinReads:
    """Images of a verification set, by their places in the file."""

    file: Path
    stamp: Stamp
    places: tuple[PickledBytes, ...]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image; raise `ChangedImage` if the file is not as listed."""
        try:
            with open_regular(self.file) as opened:
                if stamp_of(os.fstat(opened.fileno())) != self.stamp:
                    raise ChangedImage(self.file, "changed after it was listed")
                return PickledReader(opened, self.stamp[0]).bytes_at(self.places[index])
        except OSError as error:
            reason = f"changed after it was listed: {error.strerror}"
            raise ChangedImage(self.file, reason) from None

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        return replace(self, places=tuple(self.places[index] for index in indices))
