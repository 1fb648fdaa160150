"""Tar shards as webdataset names them: ``shard-{000..099}.tar``, with ``key.jpg`` and ``key.cls``.

The headers of a shard are read once, and kept in the cache with its stamp; after that any image is
read by its offset. Nothing is ever extracted.
"""

from __future__ import annotations

import io
import json
import logging
import tarfile
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from alignkit.datasets.byte_store import ByteStore, StoredFile, StoreFile
from alignkit.datasets.identity_images import in_order
from alignkit.datasets.image_files import cache_root, is_image
from alignkit.datasets.listed_images import too_large
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.stored_objects import PlaceReads
from alignkit.errors import DataError, UnreadableImage, WorkspaceError
from alignkit.limits import (
    LABEL_BYTES,
    LABEL_CHARACTERS,
    LISTED_FILES,
    TAR_NAME_BYTES,
    OverLimit,
    parsed_json,
)
from alignkit.samples import ImageReads
from alignkit.stored_file import DamagedError, read_sealed, sealed, write_atomically
from alignkit.workspace import content_key

logger = logging.getLogger(__name__)

LABEL_KEYS = ("label", "cls", "class", "class_name")
"""Fields of ``key.json`` that name a class, the first that is there."""
_WINDOW = 1 << 18
"""Bytes of a shard that are read at a time while its headers are looked for."""
_BLOCK = 512
_LAYOUT = 1
"""Number of the index's layout, in its key."""


@dataclass(frozen=True, slots=True)
class _Member:
    """An image of a shard."""

    name: str
    start: int
    length: int
    label: str | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class TarShards:
    """`ImageSource` of tar shards."""

    store: ByteStore
    shards: tuple[str, ...]
    names: tuple[str, ...]
    labels: tuple[str, ...]
    stamps: tuple[str, ...]
    faults: dict[int, str]
    of: array[int]
    starts: array[int]
    lengths: array[int]

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, each once: by number if all are whole numbers, else as text."""
        return in_order({*self.labels})

    def reads(self) -> ImageReads:
        """Return the bytes of members, by their offsets."""
        return PlaceReads(self.store, self.shards, self.of, self.starts, self.lengths)


def tar_shards(store: ByteStore, files: Mapping[str, StoredFile]) -> TarShards:
    """Find the images of shards; raise `DataError` for one that is cut off or damaged."""
    found: list[tuple[_Member, int, str]] = []
    shards = tuple(files)
    for number, (shard, status) in enumerate(files.items()):
        members = _indexed(store, shard, status)
        found += [(each, number, f"{status.stamp} {each.start}" * bool(status.stamp))
                  for each in members]  # fmt: skip
    found.sort(key=lambda each: each[0].name)
    for (one, first, _), (two, second, _) in pairwise(found):
        if one.name == two.name:
            raise DataError(
                f"{escaped_name(one.name)} is in {shards[first]} and in {shards[second]}; give "
                "each image a key of its own"
            )
    known = [each.label for each, _, _ in found if each.label is not None]
    if known and len(known) < len(found):
        bare = next(each.name for each, _, _ in found if each.label is None)
        raise DataError(
            f"{len(found) - len(known)} of {len(found)} images have no .cls or .json with a label, "
            f"such as {escaped_name(bare)}; label all or none"
        )
    return TarShards(
        store, shards,
        names=tuple(each.name for each, _, _ in found),
        labels=tuple(known),
        stamps=tuple(stamp for _, _, stamp in found),
        faults={row: each.fault for row, (each, _, _) in enumerate(found) if each.fault},
        of=array("q", [number for _, number, _ in found]),
        starts=array("q", [each.start for each, _, _ in found]),
        lengths=array("q", [each.length for each, _, _ in found]),
    )  # fmt: skip


def _indexed(store: ByteStore, shard: str, status: StoredFile) -> list[_Member]:
    """Return the images of a shard, from the cache unless it changed."""
    if not status.stamp:
        return _index(store, shard, status)
    key = content_key([_LAYOUT, store.name, shard, status.stamp])
    kept = cache_root() / "shards" / f"{key[:32]}.json"
    try:
        if kept.exists():
            return [_Member(*each) for each in json.loads(read_sealed(kept))["images"]]
    except (DamagedError, OSError) as error:
        logger.warning("%s is damaged (%s); the shard's headers are read again", kept, error)
    found = _index(store, shard, status)
    rows = [(each.name, each.start, each.length, each.label, each.fault) for each in found]
    try:
        write_atomically(kept, sealed(json.dumps({"shard": shard, "images": rows})))
    except WorkspaceError:
        logger.warning("indexes of shards cannot be kept in %s", kept.parent)
    return found


def _index(store: ByteStore, shard: str, status: StoredFile) -> list[_Member]:
    where = f"{store.name}/{shard}"
    if status.size is None:
        raise DataError(f"{where}: the store does not tell its size, so no part of it can be read")
    images: list[tarfile.TarInfo] = []
    labels: dict[str, str] = {}
    end, most = 0, LISTED_FILES()
    try:
        window = _Headers(StoreFile(store, shard, status.size), _WINDOW)
        with tarfile.open(fileobj=window, mode="r:") as archive:
            for count, member in enumerate(archive, 1):
                if count > most:
                    LISTED_FILES.require(count, f"{where} has")
                _require_inside(where, member.name)
                end = _end(where, member, end, status.size)
                cast("Any", archive).members.clear()  # it keeps all of them
                if is_image(member.name.rpartition("/")[2]) and not member.isdir():
                    images.append(member)
                elif (key := _key(member.name))[1] in ("cls", "json") and member.isreg():
                    _add_label(labels, key, _label(store, shard, member, key[1]))
        # an archive ends with blocks of zeros; without them its rest may be lost at a boundary
        if status.size - end < _BLOCK or store.read(shard, end, _BLOCK).strip(b"\0"):
            raise DataError(_cut_off(where, status.size, "its end"))
    except tarfile.TarError as error:
        raise DataError(
            f"{where} is no tar archive, or is cut off ({error}); copy it again"
        ) from None
    except OverLimit as error:
        raise DataError(f"{where}: {error}") from None
    except UnreadableImage as error:
        raise DataError(f"cannot read the headers of {where}: {error.reason}") from None
    return [_member(each, labels) for each in images]


class _Headers(io.BufferedReader):
    """A shard of which headers alone are read: a longer part is a name that somebody made up."""

    def __init__(self, raw: io.RawIOBase, buffer_size: int) -> None:
        super().__init__(raw, buffer_size)
        self._most = TAR_NAME_BYTES()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a part of a header."""
        if size is not None and size > self._most:
            TAR_NAME_BYTES.require(size, "the name of a member has")
        return super().read(size)


def _end(where: str, member: tarfile.TarInfo, begin: int, size: int) -> int:
    """Return where the data of a member ends, which begins behind ``begin``."""
    if member.issparse() or member.offset_data < begin or member.size < 0:
        raise DataError(
            f"{where}: {escaped_name(member.name)} is a sparse file or has an invalid size; "
            "make the archive again without --sparse"
        )
    end = member.offset_data + -(-member.size // _BLOCK) * _BLOCK * member.isreg()
    if end > size:
        raise DataError(_cut_off(where, size, member.name))
    return end


def _member(member: tarfile.TarInfo, labels: dict[str, str]) -> _Member:
    fault = too_large(member.size)
    if not member.isreg():
        fault = "it is a link or a special file in the archive, not an image"
    name, label = member.name.removeprefix("./"), labels.get(_key(member.name)[0])
    return _Member(name, member.offset_data, member.size, label, fault)


def _key(name: str) -> tuple[str, str]:
    """Divide a member's name at the first dot of its last part, as webdataset does."""
    folder, _, file = name.rpartition("/")
    key, _, suffix = file.partition(".")
    return f"{folder}/{key}", suffix


def _add_label(labels: dict[str, str], key: tuple[str, str], label: str | None) -> None:
    if label is not None and (key[1] == "cls" or key[0] not in labels):
        labels[key[0]] = label


def _label(store: ByteStore, shard: str, member: tarfile.TarInfo, suffix: str) -> str | None:
    where = f"{store.name}/{shard}, {escaped_name(member.name)}"
    LABEL_BYTES.require(member.size, f"{escaped_name(member.name)} has")
    data = store.read(shard, member.offset_data, member.size)
    try:
        text = data.decode("utf-8-sig").strip()
        content: Any = {"cls": text} if suffix == "cls" else parsed_json(text)
    except ValueError as error:
        raise DataError(f"{where} cannot be read as a label: {error}") from None
    if not isinstance(content, dict):
        return None
    label = next((content[key] for key in LABEL_KEYS if key in content), None)
    if isinstance(label, list | dict):
        raise DataError(f"{where}: its label is no text and no number")
    text = "" if label is None else str(label)
    LABEL_CHARACTERS.require(len(text), f"{escaped_name(member.name)}: its label has")
    return text or None


def _require_inside(where: str, name: str) -> None:
    if name.startswith("/") or ".." in name.split("/"):
        raise DataError(
            f"{where}: the member {escaped_name(name)} leaves the archive's folder; nothing was "
            "read from it; make the archive again with relative names"
        )


def _cut_off(where: str, size: int, member: str) -> str:
    return (
        f"{where} is cut off: it ends after {size:,} bytes, before {escaped_name(member)} is "
        "whole; copy it again"
    )
