"""Stores of files: a folder of this machine, or the URL of `alignkit.datasets.url_store`.

A URL's credentials come from the environment and never from the URL: one that holds some is refused
before it can reach a record or a log.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import time
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from alignkit.datasets.image_files import is_image
from alignkit.datasets.listed_images import SETTLED_SECONDS
from alignkit.errors import ChangedImage, ConfigError, DataError
from alignkit.limits import DOCUMENT_BYTES
from alignkit.stored_file import open_regular, stamp_of

# two letters or more: one letter is a drive of Windows
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
_CREDENTIALS = re.compile(r"[^/]*:[^/]*@")


class StoredFile(NamedTuple):
    """A file of a store, as it is listed."""

    size: int | None
    """Bytes; ``None`` if the store does not tell."""
    stamp: str
    """Text that changes with the content; empty if the store gives neither an ETag nor a time."""


class ByteStore(Hashable, Protocol):
    """Files below one place, by their paths relative to it."""

    @property
    def name(self) -> str:
        """The place, as messages and keys name it."""
        ...

    def listing(self) -> dict[str, StoredFile]:
        """List all files; raise `DataError` if the place is not there."""
        ...

    def status(self, name: str) -> StoredFile:
        """Look up one file; raise `DataError` if it is not there."""
        ...

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Read a file, or a part of it; raise `UnreadableImage` or `ChangedImage`."""
        ...


@dataclass(frozen=True, slots=True)
class FolderStore:
    """A folder of this machine."""

    root: Path

    @property
    def name(self) -> str:
        """The folder's path."""
        return os.path.abspath(self.root)  # noqa: PTH100 - resolve() would rename links

    def listing(self) -> dict[str, StoredFile]:
        """List the regular files that lie in the folder itself."""
        try:
            names = sorted(each.name for each in self.root.iterdir() if each.is_file())
        except OSError as error:
            raise DataError(f"cannot list {self.root}: {error.strerror}") from error
        return {name: self.status(name) for name in names}

    def status(self, name: str) -> StoredFile:
        """Look up one file."""
        try:
            size, *times = stamp_of((self.root / name).stat())
        except OSError as error:
            raise DataError(f"cannot read {self.root / name}: {error.strerror}") from error
        # a younger file may change again within one tick of its file system's clock
        settled = max(times) < time.time_ns() - int(SETTLED_SECONDS * 1e9)
        return StoredFile(size, f"{size} {times[0]} {times[1]}" * settled)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Read a file, or a part of it."""
        path = Path(self.name) / name
        try:
            with open_regular(path, DOCUMENT_BYTES if length is None else None) as file:
                file.seek(start)
                return file.read(os.fstat(file.fileno()).st_size if length is None else length)
        except OSError as error:
            raise ChangedImage(path, f"changed after it was listed: {error.strerror}") from None


def url_of(root: Path | str) -> str | None:
    """Return the URL that a root names, without a final ``/``; ``None`` for a path.

    `Path` joins slashes, so that ``s3:/bucket`` is ``s3://bucket`` too. Raise `ConfigError` for a
    URL with credentials, without repeating them.

    >>> url_of(Path("s3://bucket/photos/"))
    's3://bucket/photos'
    """
    found = _URL.fullmatch(os.fspath(root))
    if not found:
        return None
    protocol, rest = found.groups()
    if protocol == "file":
        return None
    if _CREDENTIALS.match(rest) or "?" in rest:
        raise ConfigError(
            f"the {protocol}:// URL holds a password or a query, which would reach records and "
            "logs; leave it out and name the credentials in the environment, as fsspec reads them "
            f"(FSSPEC_{protocol.upper()}_<OPTION>)"
        )
    return f"{protocol}://{rest.rstrip('/')}"


def place_text(root: Path) -> str:
    """Return a root as its user names it: a URL, or a path."""
    return url_of(root) or os.fspath(root)


def stored_images(listing: dict[str, StoredFile]) -> list[str]:
    """Return the names of images, as `image_files` takes them: hidden ones are left out."""
    return [
        name
        for name in listing
        if is_image(name.rpartition("/")[2]) and not name.startswith(".") and "/." not in name
    ]


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


class StoreFile(io.RawIOBase):
    """A file of any store, as libraries read one."""

    def __init__(self, store: ByteStore, name: str, size: int) -> None:
        self._store, self._name, self._size, self._at = store, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {0: 0, 1: self._at, 2: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._at))
        data = self._store.read(self._name, self._at, length) if length else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
