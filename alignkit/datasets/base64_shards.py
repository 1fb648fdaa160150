"""Shards of images in Base64: text files with an image and its label in each line, apart by a tab.

PLSC and many pipelines on Hadoop keep images so. A shard is read line by line to learn where each
image begins, and an image by its place alone: no shard is ever held in memory.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from alignkit.datasets.identity_images import IdentityImages
from alignkit.datasets.identity_list import IMAGE_FIRST, gaps, text_of
from alignkit.errors import ChangedImage, DataError
from alignkit.limits import LABEL_CHARACTERS, LIST_BYTES
from alignkit.stored_file import Stamp, open_regular, stamp_of

SHARD_LIST = "file_list.txt"
"""Name of the file that lists the shards of a folder, a line for each."""


@dataclass(frozen=True, slots=True)
class _Shard:
    """The places of a shard's images."""

    file: Path
    stamp: Stamp
    starts: array[int]
    """Offset of the Base64 text of each image, in bytes."""
    lengths: array[int]
    """Its characters."""
    labels: tuple[str, ...]
    sha256: bytes
    """Of each image's bytes, 32 bytes each."""
    lines: array[int]
    """Line of each image, from 1."""

    def digests(self) -> Iterator[str]:
        """Yield the SHA-256 of each image's bytes, in hex."""
        return (self.sha256[at : at + 32].hex() for at in range(0, len(self.sha256), 32))


_KEPT = 1 << 24
"""Images whose places are kept, of all shards together, in about a gigabyte."""
_known: dict[tuple[Path, tuple[str, ...]], _Shard] = {}
"""Shards that were read, the one that was used last at the end; no bytes of images."""


def shard_files(source: Path) -> list[Path]:
    """Return the shards that a folder's `SHARD_LIST` names, or the file itself."""
    if not source.is_dir():
        return [source]
    listing = source / SHARD_LIST
    names = [each.strip() for each in text_of(listing).splitlines()]
    files = [(number, source / name) for number, name in enumerate(names, 1) if name]
    if not files:
        raise DataError(f"{listing} names no shard; write a file name in each line")
    seen: dict[Path, int] = {}
    for number, file in files:
        if file in seen:
            raise DataError(f"{listing}, line {number}: {file.name} is there twice; remove a line")
        if not file.is_file():
            raise DataError(f"{listing}, line {number}: {file} is not there")
        seen[file] = number
    return [file for _, file in files]


def shards_size(source: Path) -> int:
    """Sum the bytes of `shard_files`."""
    return sum(file.stat().st_size for file in shard_files(source))


def read_shards(source: Path, columns: Sequence[str] = IMAGE_FIRST) -> IdentityImages:
    """Find the images of a shard, or of all shards of a folder.

    Raise `DataError` with file and line for a line of other columns, or of wrong Base64.
    """
    shards = [_indexed(file, tuple(columns)) for file in shard_files(source)]
    places = [(shard, row) for shard in shards for row in range(len(shard.starts))]
    labels = [label for shard in shards for label in shard.labels]
    base = source if source.is_dir() else source.parent
    below = {id(shard): _below(shard.file, base) for shard in shards}
    return IdentityImages(
        names=tuple(f"{below[id(shard)]}:{shard.lines[row]}" for shard, row in places),
        identities=tuple(labels),
        contents=lambda: tuple(digest for shard in shards for digest in shard.digests()),
        reads=lambda: _reads(shards),
        notes=tuple(gaps(str(source), labels)),
    )


def _indexed(file: Path, columns: tuple[str, ...]) -> _Shard:
    """Return the places of a shard's images; it is read again only if it changed."""
    try:
        stamp = stamp_of(file.stat())
        shard = _known.pop((file, columns), None)
        if shard is None or shard.stamp != stamp:
            shard = _index(file, stamp, columns)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    _known[file, columns] = shard
    while len(_known) > 1 and sum(len(each.starts) for each in [*_known.values()]) > _KEPT:
        del _known[next(iter(_known))]
    return shard


def _below(file: Path, base: Path) -> str:
    """Write a shard's file from the folder of its list, or whole if it lies elsewhere."""
    return (file.relative_to(base) if file.is_relative_to(base) else file).as_posix()


def _index(file: Path, stamp: Stamp, columns: tuple[str, ...]) -> _Shard:
    starts, lengths, lines = array("q"), array("q"), array("q")
    labels, digests = [], bytearray()
    longest = LABEL_CHARACTERS()
    with open_regular(file) as opened:
        for number, offset, line in _lines(opened, file):
            where = f"{file}, line {number}"
            image, label, start = _columns(where, line, columns)
            if len(label) > longest:
                raise DataError(
                    f"{where}: its label has {len(label):,} characters; name the columns in their "
                    "order, e.g. columns: [label, image]"
                )
            digests += hashlib.sha256(_decoded(image, where)).digest()
            labels.append(sys.intern(label))
            starts.append(offset + start)
            lengths.append(len(image))
            lines.append(number)
    if not labels:
        raise DataError(f"{file} is empty; a line is an image in Base64, a tab and its label")
    return _Shard(file, stamp, starts, lengths, tuple(labels), bytes(digests), lines)


def _lines(opened: BinaryIO, file: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, offset and bytes of each line that is not empty."""
    offset, number, longest = 0, 0, int(LIST_BYTES())
    while line := opened.readline(longest + 1):
        number += 1
        if len(line) > longest:
            LIST_BYTES.require(len(line), f"{file}, line {number}:")
        if line.strip():
            yield number, offset, line.rstrip(b"\r\n")
        offset += len(line)


def _columns(where: str, line: bytes, columns: tuple[str, ...]) -> tuple[bytes, str, int]:
    """Return the Base64 text, the label, and where in the line the text begins."""
    parts = line.split(b"\t")
    if len(parts) != len(columns) or not parts[columns.index("image")]:
        raise DataError(
            f"{where}: {len(parts)} columns apart by tabs, expected {' and '.join(columns)}; was "
            "the file cut off? 'columns' names other orders"
        )
    at = columns.index("image")
    try:
        label = parts[1 - at].decode().strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: its label is not UTF-8 text") from error
    if not label:
        raise DataError(f"{where}: its label is blank; write one, or remove the line")
    return parts[at], label, sum(len(each) + 1 for each in parts[:at])


def _decoded(text: bytes, where: str) -> bytes:
    if len(text) % 4:  # binascii takes some of these, with padding too many
        raise DataError(f"{where}: wrong Base64 ({len(text):,} characters, no multiple of 4)")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise DataError(f"{where}: wrong Base64 ({error})") from None


@dataclass(frozen=True, slots=True)
class Base64Reads:
    """Images of shards, by their places."""

    shards: tuple[tuple[Path, Stamp], ...]
    of: array[int]
    """Index of each image's shard."""
    starts: array[int]
    lengths: array[int]
    lines: array[int]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image; raise `ChangedImage` if its shard is not as listed."""
        file, stamp = self.shards[self.of[index]]
        try:
            with open_regular(file) as opened:
                if stamp_of(os.fstat(opened.fileno())) != stamp:
                    raise ChangedImage(file, "changed after it was listed")
                opened.seek(self.starts[index])
                text = opened.read(self.lengths[index])
        except OSError as error:
            reason = f"changed after it was listed: {error.strerror}"
            raise ChangedImage(file, reason) from None
        return _decoded(text, f"{file}, line {self.lines[index]}")

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        of, *rest = (
            array("q", [each[index] for index in indices])
            for each in (self.of, self.starts, self.lengths, self.lines)
        )
        used = sorted({*of})
        place = {each: new for new, each in enumerate(used)}
        shards = tuple(self.shards[each] for each in used)
        return type(self)(shards, array("q", [place[each] for each in of]), *rest)


def _reads(shards: Sequence[_Shard]) -> Base64Reads:
    of, starts, lengths, lines = (array("q") for _ in range(4))
    for number, shard in enumerate(shards):
        of.extend([number] * len(shard.starts))
        starts += shard.starts
        lengths += shard.lengths
        lines += shard.lines
    listed = tuple((each.file, each.stamp) for each in shards)
    return Base64Reads(listed, of, starts, lengths, lines)
