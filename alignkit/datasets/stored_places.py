"""Images of stores and of archives: found by name, hashed once, read again by their places."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

from alignkit.datasets.byte_store import ByteStore, FolderStore, sha256, url_of
from alignkit.datasets.image_files import cache_root
from alignkit.datasets.url_store import UrlStore
from alignkit.errors import ChangedImage, UnreadableImage, WorkspaceError
from alignkit.samples import ImageReads
from alignkit.stored_file import DamagedError, read_sealed, sealed, write_atomically
from alignkit.workspace import content_key

logger = logging.getLogger(__name__)

THREADS = 16
"""Images that are read at a time to be hashed: a store answers many at once."""
_KEPT_AT_ONCE = 50_000
"""Images after whose hashing the hashes are kept, so that a killed command loses no more."""


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
    ahead: int = 0
    """Images that are worth asking for at a time; 0 if they lie on this machine."""

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

    def sha256s(self) -> list[str]:
        """Return the SHA-256 of each image; empty for one that cannot be read."""
        known = enumerate(self.identities())
        return ["" if index in self.faults else each for index, each in known]

    def identities(self) -> list[str]:
        """Return each image's part of a fingerprint: that of a local file with the same bytes."""
        return [
            f"unreadable: {self.faults[index]}"
            if index in self.faults
            else self.digests[32 * index : 32 * index + 32].hex()
            for index in range(len(self.names))
        ]


class Taken:
    """The SHA-256 of a source's images as far as it was taken, or the reason why it was not."""

    def __init__(self, images: int) -> None:
        self.done = bytearray(images)
        self.digests = bytearray(32 * images)
        self.faults: dict[int, str] = {}

    def put(self, row: int, digest: str, fault: str = "") -> None:
        """Note the digest in hex of an image, or why it has none."""
        self.done[row] = 1
        if fault:
            self.faults[row] = fault
        else:
            self.digests[32 * row : 32 * row + 32] = bytes.fromhex(digest)

    def of(self, row: int) -> bytes:
        """Return the 32 bytes of an image, zeros if it has a fault."""
        return bytes(self.digests[32 * row : 32 * row + 32])


def hashed(source: ImageSource, place: str, rows: Sequence[int], taken: Taken) -> HashedReads:
    """Hash the images at ``rows``; one that was ``taken`` or whose stamp is kept is not read again.

    An image that the store does not give has its reason in place of a hash.
    """
    missing = [row for row in rows if not taken.done[row]]
    if missing:
        _take(source, place, missing, taken)
    return HashedReads(
        place,
        tuple(source.names[row] for row in rows),
        source.reads().only(rows),
        b"".join(map(taken.of, rows)),
        {new: taken.faults[row] for new, row in enumerate(rows) if row in taken.faults},
        THREADS if url_of(place) else 0,
    )


def _take(source: ImageSource, place: str, rows: Sequence[int], taken: Taken) -> None:
    from concurrent.futures import ThreadPoolExecutor

    kept = cache_root() / "hashes" / f"{content_key(place)[:32]}.json"
    known, reads = _known(kept), source.reads()
    stale = []
    for row in rows:
        stamp, digest = known.get(source.names[row], ("", ""))
        if fault := source.faults.get(row):
            taken.put(row, "", fault)
        elif stamp and stamp == source.stamps[row]:
            taken.put(row, digest)
        else:
            stale.append(row)

    def digest_of(row: int) -> tuple[str, str]:
        try:
            return sha256(reads(row)), ""
        except UnreadableImage as error:
            return "", error.reason

    with ThreadPoolExecutor(THREADS) as pool:
        for begin in range(0, len(stale), _KEPT_AT_ONCE):
            part = stale[begin : begin + _KEPT_AT_ONCE]
            fresh = {}
            for row, (digest, fault) in zip(part, pool.map(digest_of, part), strict=True):
                taken.put(row, digest, fault)
                if source.stamps[row] and not fault:
                    fresh[source.names[row]] = (source.stamps[row], digest)
            if fresh:
                known |= fresh
                _keep(kept, place, known)


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


def store_of(place: Path | str, storage: str = "{}") -> ByteStore:
    """Return the store of a URL, with its options as JSON, or of a folder."""
    url = url_of(place)
    return UrlStore(url, storage) if url else FolderStore(Path(place).expanduser())
