"""Image files as they were listed: hashed for the data's fingerprint, and read as they were hashed.

Only regular files are opened. One that cannot be read has its reason in place of a hash, and stays
an image of the data.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self

from alignkit.datasets.image_files import cache_root
from alignkit.datasets.regular_file import escaped_name, is_utf8
from alignkit.errors import ChangedImage, UnreadableImage, WorkspaceError
from alignkit.limits import IMAGE_BYTES
from alignkit.stored_file import (
    DamagedError,
    Stamp,
    irregular,
    open_regular,
    read_sealed,
    sealed,
    stamp_of,
    write_atomically,
)

logger = logging.getLogger(__name__)

SETTLED_SECONDS = 2.0
"""Age from which a file's hash is kept: a younger file may change again within one tick of its file
system's clock."""

_PART = 1 << 18
"""Bytes that are hashed at a time."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A file as it was when its content was hashed."""

    stamp: Stamp | None = None
    sha256: str = ""
    """Of its content, in hex."""
    fault: str = ""
    """Reason why it cannot be read; empty if it can."""

    @property
    def identity(self) -> str:
        """Return its part of a fingerprint: an image that cannot be read belongs to the data."""
        return f"unreadable: {self.fault}" if self.fault else self.sha256


@dataclass(frozen=True, slots=True)
class FileReads:
    """Files below a folder, read as they were listed."""

    root: Path
    names: tuple[str, ...]
    """Paths relative to ``root``, with ``/``."""
    files: tuple[ImageFile, ...]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of a file, or raise as `read_image`."""
        return read_image(self.root, self.names[index], self.files[index])

    def sha256s(self) -> list[str]:
        """Return the SHA-256 of each file; empty for one that cannot be read."""
        return ["" if each.fault else each.sha256 for each in self.files]

    def only(self, indices: Sequence[int], /) -> Self:
        """Select files, in that order."""
        return replace(
            self,
            # it may be read in a process of another working folder
            root=Path(os.path.abspath(self.root)),  # noqa: PTH100 - resolve() would rename links
            names=tuple(self.names[index] for index in indices),
            files=tuple(self.files[index] for index in indices),
        )


# Stored results belong to a fingerprint, so a file that differs from its listing ends the work
# that would be stored. A diff stores nothing, and counts it as failed.
def read_image(root: Path, name: str, listed: ImageFile) -> bytes:
    """Return the bytes of a file.

    Raise `UnreadableImage` if it could not be read when it was listed, and `ChangedImage` if it has
    other content since.
    """
    path = root / name
    if listed.fault:
        raise UnreadableImage(path, listed.fault)
    try:
        with open_regular(path, IMAGE_BYTES) as file:
            # bounded, as a file may grow while it is read
            data = file.read(os.fstat(file.fileno()).st_size)
            stamp = stamp_of(os.fstat(file.fileno()))
    except OSError as error:
        reason = _explained(path, error)
        raise ChangedImage(path, f"changed after it was listed: {reason}") from None
    # a changed mode or number of links gives a new stamp too, and the content decides
    if stamp != listed.stamp and hashlib.sha256(data).hexdigest() != listed.sha256:
        raise ChangedImage(path, "changed after it was listed")
    return data


def list_files(root: Path, names: Sequence[str]) -> tuple[ImageFile, ...]:
    """Hash the content of each file; unchanged files are not read again.

    A file that cannot be read has its reason in place of a hash.
    """
    root = root.resolve()
    kept = cache_root() / "hashes" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"
    known, damaged = _known_hashes(kept, root)
    # before anything is hashed: a file that is younger may change again and keep its time stamp
    settled = time.time_ns() - int(SETTLED_SECONDS * 1e9)
    files = {name: _looked_up(root, name) for name in names}
    # the time of change (ctime) is compared too, as programs can set the other one back
    stale = [
        name
        for name, file in files.items()
        if file.stamp and known.get(name, (None, ""))[0] != file.stamp
    ]
    fresh = _hashed(root, stale)
    for name, file in files.items():
        if name in fresh:
            files[name] = fresh[name]
        elif file.stamp:
            files[name] = ImageFile(file.stamp, known[name][1])
    keep = {
        name: (each.stamp, each.sha256)
        for name, each in fresh.items()
        if each.stamp and each.stamp[2] < settled
    }
    if keep or damaged:
        _keep_hashes(kept, root, known | keep)
    return tuple(files[name] for name in names)


def _looked_up(root: Path, name: str) -> ImageFile:
    """Take a file's stamp, without opening it."""
    path = root / name
    if not is_utf8(name):
        return ImageFile(fault="its name is not UTF-8; rename it")
    try:
        status = path.stat()
    except OSError as error:
        return ImageFile(fault=_explained(path, error))
    if fault := too_large(status.st_size):
        return ImageFile(fault=fault)
    reason = irregular(status)
    return ImageFile(fault=reason) if reason else ImageFile(stamp_of(status))


def too_large(size: int | None) -> str:
    """Say that a file is larger than an image may be; empty if it is not."""
    fault = IMAGE_BYTES.fault(size or 0)
    return f"too large: {size:,} bytes, {fault}" if fault else ""


def _explained(path: Path, error: OSError) -> str:
    """Say why the operating system refuses to read a file."""
    if error.errno == errno.ELOOP:
        return "a link to itself"
    # these two take a folder that may not be searched, where those of Path raise
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
        return f"a link to {escaped_name(os.readlink(path))}, which is not there"  # noqa: PTH115 - its text
    return error.strerror or str(error)


def _hashed(root: Path, names: Sequence[str]) -> dict[str, ImageFile]:
    from concurrent.futures import ThreadPoolExecutor

    def hashed(name: str) -> ImageFile:
        path = root / name
        try:
            with open_regular(path, IMAGE_BYTES) as file:
                stamp = stamp_of(os.fstat(file.fileno()))
                # a special file of the system has no size, and may have no end
                return ImageFile(stamp, _digest(file, stamp[0]))
        except OSError as error:
            return ImageFile(fault=_explained(path, error))

    with ThreadPoolExecutor() as pool:  # reading and hashing release the interpreter's lock
        return dict(zip(names, pool.map(hashed, names), strict=True))


def _digest(file: BinaryIO, size: int) -> str:
    digest = hashlib.sha256()
    while size > 0 and (part := file.read(min(size, _PART))):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest()


def _known_hashes(kept: Path, root: Path) -> tuple[dict[str, tuple[Stamp, str]], bool]:
    """Read the kept hashes of a folder's files, none if they are damaged; tell whether they are."""
    if not kept.exists():
        return {}, False
    try:
        stored = json.loads(read_sealed(kept))
    except (DamagedError, OSError) as error:
        fault = str(error)
    else:
        if stored["folder"] == str(root):
            files = stored["files"].items()
            return {name: ((size, m, c), digest) for name, (size, m, c, digest) in files}, False
        fault = "it is that of another folder"
    logger.warning("%s is damaged (%s); every file is hashed again", kept, fault)
    return {}, True


def _keep_hashes(kept: Path, root: Path, known: dict[str, tuple[Stamp, str]]) -> None:
    files = {name: (*stamp, digest) for name, (stamp, digest) in known.items()}
    try:
        write_atomically(kept, sealed(json.dumps({"folder": str(root), "files": files})))
    except WorkspaceError:
        logger.warning("hashes cannot be kept in %s; every file is hashed each time", kept.parent)
