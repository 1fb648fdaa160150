"""Stores of files: a folder of this machine, or a URL that `fsspec` opens.

A read is tried again after a failure that may pass. A URL's credentials come from the environment
and never from the URL: one that holds some is refused before it can reach a record or a log.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from alignkit.datasets.image_files import is_image
from alignkit.datasets.listed_images import LARGEST, SETTLED_SECONDS, stamp_of
from alignkit.errors import (
    ChangedImage,
    ConfigError,
    DataError,
    MissingDependency,
    UnreadableImage,
)
from alignkit.extras import missing_library
from alignkit.stored_file import open_regular

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

# two letters or more: one letter is a drive of Windows
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
_CREDENTIALS = re.compile(r"[^/]*:[^/]*@")
_QUERY = re.compile(r"(?<=[^\s?])\?[^\s'\")>]+")
_USER = re.compile(r"(?<=://)[^/\s@]*:[^/\s@]*@")
_LONGEST_REASON = 200

TRIES = 5
"""Times that a read is tried."""
FIRST_WAIT = 0.2
"""Seconds before the second try; each further wait is twice as long."""
READ_SECONDS = 60.0
"""Seconds that one try may take; ``ALIGNKIT_READ_SECONDS`` sets others."""
_ETAGS = ("VersionId", "ETag", "etag", "generation", "md5Hash", "md5", "content_md5")
_TIMES = ("LastModified", "last_modified", "modificationTime", "mtime", "updated", "created")


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
            with open_regular(path) as file:
                file.seek(start)
                return file.read(os.fstat(file.fileno()).st_size if length is None else length)
        except OSError as error:
            raise ChangedImage(path, f"changed after it was listed: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class UrlStore:
    """A place that `fsspec` opens; its options come from the environment of fsspec."""

    url: str
    """Without credentials and without a final ``/``."""

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    def listing(self) -> dict[str, StoredFile]:
        """List all files below the URL."""
        system, root = self._opened()
        try:
            found = system.find(root, detail=True)
        except Exception as error:
            raise self._not_listed(error) from error
        files = {
            path.removeprefix(root).lstrip("/"): _stored(info)
            for path, info in found.items()
            if info.get("type", "file") == "file"
        }
        if not files:
            raise self._not_listed(FileNotFoundError("nothing is there"))
        return dict(sorted(files.items()))

    def status(self, name: str) -> StoredFile:
        """Look up one file."""
        system, root = self._opened()
        try:
            return _stored(system.info(f"{root}/{name}"))
        except Exception as error:
            raise self._not_listed(error, name) from error

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:  # noqa: C901 - a line for each way to fail
        """Read an object, or a part of it; try again after a failure that may pass."""
        path = Path(f"{self.url}/{name}")
        end = None if length is None else start + length
        reason, cut = "", -1
        for number in range(TRIES):
            if number:
                time.sleep(FIRST_WAIT * 2 ** (number - 1))
            try:
                system, root = self._opened()
                call = partial(system.cat_file, f"{root}/{name}", start=start, end=end)
                data: bytes = _within(_read_seconds(), call)
            except FileNotFoundError:
                raise ChangedImage(
                    path, "changed after it was listed: it is not there any more"
                ) from None
            except PermissionError as error:
                raise UnreadableImage(path, f"refused: {_told(error)}") from None
            except (ImportError, MissingDependency):
                raise
            except Exception as error:  # noqa: BLE001 - each file system has errors of its own
                reason = _told(error)
            else:
                if length in (None, len(data)):
                    if number:
                        logger.info("%s was read at try %d", path.name, number + 1)
                    return data
                reason = f"{len(data):,} of {length:,} bytes came"
                cut = len(data)
        if not start and cut >= 0 and self.status(name).size == cut:
            raise ChangedImage(path, "changed after it was listed")
        raise UnreadableImage(path, f"{reason}; tried {TRIES} times")

    def _opened(self) -> tuple[Any, str]:
        if missing := missing_library("fsspec", extra="remote"):
            raise MissingDependency(missing)
        import fsspec

        protocol = self.url.partition(":")[0]
        try:
            # without a cache of listings: a million entries would stay in memory
            system, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:
            raise MissingDependency(f"{protocol}:// needs another package: {error}") from error
        except ValueError as error:
            known = ", ".join(f"{each}://" for each in ("s3", "gs", "hdfs", "webhdfs", "https"))
            raise ConfigError(f"{self.url}: {_told(error)}; fsspec knows e.g. {known}") from None
        return system, root.rstrip("/")

    def _not_listed(self, error: Exception, name: str = "") -> DataError:
        place = f"{self.url}/{name}" if name else self.url
        if isinstance(error, FileNotFoundError):
            return DataError(
                f"{place} is not there, or holds nothing; check the name, and the endpoint and "
                "credentials in the environment (FSSPEC_<PROTOCOL>_<OPTION>; for S3 AWS_…)"
            )
        return DataError(
            f"cannot list {place}: {_told(error)}; check the endpoint and the credentials in the "
            "environment (FSSPEC_<PROTOCOL>_<OPTION>; for S3 AWS_…)"
        )


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


def stored_images(listing: dict[str, StoredFile]) -> list[str]:
    """Return the names of images, as `image_files` takes them: hidden ones are left out."""
    return [
        name
        for name in listing
        if is_image(name.rpartition("/")[2]) and not name.startswith(".") and "/." not in name
    ]


def too_large(size: int | None) -> str:
    """Say that a file is larger than an image may be; empty if it is not."""
    if size is None or size <= LARGEST:
        return ""
    return f"too large: {size:,} bytes; the limit is {LARGEST:,}"


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def _stored(info: dict[str, Any]) -> StoredFile:
    size = info.get("size")
    marks = [str(info[key]) for keys in (_ETAGS, _TIMES) for key in keys if info.get(key)]
    return StoredFile(size, " ".join([str(size), *marks]) if marks else "")


def _told(error: BaseException) -> str:
    """Return the message of a library in one line, without credentials."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = _USER.sub("…@", _QUERY.sub("?…", text))
    for name, value in os.environ.items():
        secret = re.search(r"SECRET|TOKEN|PASSW|CREDENTIAL|_KEY|SAS", name, re.IGNORECASE)
        if secret and len(value) >= 6:
            text = text.replace(value, "…")
    return f"{type(error).__name__}: {text[:_LONGEST_REASON]}"


def _read_seconds() -> float:
    with suppress(ValueError):
        return float(os.environ.get("ALIGNKIT_READ_SECONDS", READ_SECONDS))
    raise ConfigError("ALIGNKIT_READ_SECONDS: a number of seconds, e.g. 60")


def _within(seconds: float, call: Callable[[], Found]) -> Found:
    """Call in a thread; raise `TimeoutError` if it takes longer.

    Not each file system has a limit of its own, and a thread that waits for a slow one cannot be
    ended: it is left behind, and does not keep the process alive.
    """
    ended: queue.SimpleQueue[tuple[Found | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((call(), None))
        except Exception as error:  # noqa: BLE001 - it is raised below
            ended.put((None, error))

    threading.Thread(target=run, daemon=True, name="alignkit-read").start()
    try:
        result, error = ended.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} seconds") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # there is a result without an error


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
