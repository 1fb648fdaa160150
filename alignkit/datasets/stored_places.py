"""Images of stores and of archives: found by name, hashed once, read again by their places."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

from alignkit.datasets.byte_store import ByteStore, FolderStore, UrlStore, sha256, url_of
from alignkit.datasets.image_files import cache_root
from alignkit.errors import ChangedImage, UnreadableImage, WorkspaceError
from alignkit.samples import ImageReads
from alignkit.stored_file import DamagedError, read_sealed, sealed, write_atomically
from alignkit.workspace import content_key

logger = logging.getLogger(__name__)

THREADS = 16
"""Images that are read at a time to be hashed: a store answers many at once."""


class ImageSource(Protocol):
    """Images of a URL, of tar shards or of Parquet files, sorted by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Paths below the root, with ``/``."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Class of each image; empty if the source has no labels of its own."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes in the order that the source states; empty if it states none."""
        ...

    @property
    def stamps(self) -> tuple[str, ...]:
        """Text of each image that changes with its bytes; empty where the store tells nothing."""
        ...

    @property
    def faults(self) -> dict[int, str]:
        """Index of an image that cannot be read → the reason."""
        ...

    def reads(self) -> ImageReads:
        """Return the images' bytes, not yet compared with what was listed."""
        ...


@dataclass(frozen=True, slots=True)
class HashedReads:
    """Images that are compared with their SHA-256 whenever they are read."""

    place: str
    """Name of the root, for messages."""
    names: tuple[str, ...]
    inner: ImageReads
    digests: bytes
    """32 bytes of each image."""
    faults: dict[int, str]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image; raise `ChangedImage` if they are others."""
        path = Path(self.place) / self.names[index]
        if fault := self.faults.get(index):
            raise UnreadableImage(path, fault)
        data = self.inner(index)
        if sha256(data) != self.digests[32 * index : 32 * index + 32].hex():
            raise ChangedImage(path, "changed after it was listed")
        return data

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        return replace(
            self,
            names=tuple(self.names[each] for each in indices),
            inner=self.inner.only(indices),
            digests=b"".join(self.digests[32 * each : 32 * each + 32] for each in indices),
            faults={
                new: self.faults[each] for new, each in enumerate(indices) if each in self.faults
            },
        )

    def identities(self) -> list[str]:
        """Return each image's part of a fingerprint: that of a local file with the same bytes."""
        return [
            f"unreadable: {self.faults[index]}"
            if index in self.faults
            else self.digests[32 * index : 32 * index + 32].hex()
            for index in range(len(self.names))
        ]


def hashed(source: ImageSource, place: str, rows: Sequence[int]) -> HashedReads:
    """Hash the images at ``rows``; one whose stamp is unchanged is not read again.

    An image that the store does not give has its reason in place of a hash.
    """
    from concurrent.futures import ThreadPoolExecutor

    kept = cache_root() / "hashes" / f"{content_key(place)[:32]}.json"
    known = _known(kept)
    names = tuple(source.names[row] for row in rows)
    stamps = [source.stamps[row] for row in rows]
    faults = {new: source.faults[row] for new, row in enumerate(rows) if row in source.faults}
    digests = {
        new: known[name][1]
        for new, name in enumerate(names)
        if stamps[new] and known.get(name, ("", ""))[0] == stamps[new] and new not in faults
    }
    stale = [new for new in range(len(names)) if new not in digests and new not in faults]
    inner = source.reads().only(rows)

    def digest(new: int) -> tuple[str, str]:
        try:
            return sha256(inner(new)), ""
        except UnreadableImage as error:
            return "", error.reason

    with ThreadPoolExecutor(THREADS) as pool:
        for new, (found, fault) in zip(stale, pool.map(digest, stale), strict=True):
            if fault:
                faults[new] = fault
            else:
                digests[new] = found
    fresh = {
        names[new]: (stamps[new], digests[new]) for new in stale if new in digests and stamps[new]
    }
    if fresh:
        _keep(kept, place, known | fresh)
    joined = b"".join(bytes.fromhex(digests.get(new, "00" * 32)) for new in range(len(names)))
    return HashedReads(place, names, inner, joined, faults)


def _known(kept: Path) -> dict[str, tuple[str, str]]:
    if not kept.exists():
        return {}
    try:
        stored = json.loads(read_sealed(kept))
    except (DamagedError, OSError) as error:
        logger.warning("%s is damaged (%s); every image is hashed again", kept, error)
        return {}
    return {name: (stamp, digest) for name, (stamp, digest) in stored["images"].items()}


def _keep(kept: Path, place: str, known: dict[str, tuple[str, str]]) -> None:
    try:
        write_atomically(kept, sealed(json.dumps({"place": place, "images": known})))
    except WorkspaceError:
        logger.warning("hashes cannot be kept in %s; every image is hashed each time", kept.parent)


def store_of(place: Path | str) -> ByteStore:
    """Return the store of a URL or of a folder."""
    url = url_of(place)
    return UrlStore(url) if url else FolderStore(Path(place).expanduser())
