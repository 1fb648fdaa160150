"""`UrlStore`: a place that `fsspec` opens, with limits of its own for time and for repetition.

The libraries below try again as they please, or never, and wait as long as they please, or for
ever. Here each read is one request that ends in a stated time, and is repeated by one rule.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from alignkit.datasets.byte_store import StoredFile
from alignkit.datasets.store_options import hidden_values
from alignkit.errors import (
    SECRET_NAME,
    AlignkitError,
    ChangedImage,
    ConfigError,
    DataError,
    MissingDependency,
    UnreadableImage,
    without_credentials,
)
from alignkit.extras import missing_library
from alignkit.limits import (
    LISTED_DEPTH,
    LISTED_FILES,
    LISTING_BYTES,
    LISTING_SECONDS,
    OBJECT_BYTES,
    READ_SECONDS,
    InputLimit,
    OverLimit,
    bounded_response,
)

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

# Here and nowhere else: botocore, s3fs and this would otherwise repeat 5 x 5 x 5 times, and
# `requests` waits for ever.
TRIES = 5
"""Times that a request is made."""
FIRST_WAIT = 0.2
"""Seconds before the second try; each further wait is twice as long."""
MOST_LATE = 2
"""Tries of a read that may take that long."""
MOST_SILENT = 8
"""Reads in succession that get no answer before the command ends: the store is down."""
_PAGE_TRIES = 3
_LONGEST_REASON = 200
_SHORTEST_SECRET = 6
_QUERY = re.compile(r"(?<=[^\s?])\?[^\s'\")>]+")
_STAYING = {"Range", "User-Agent", "Authorization", "Cookie", "Proxy-Authorization"}
"""Headers that hold no secret, or that aiohttp leaves out where it is sent on."""
_ETAGS = ("VersionId", "ETag", "etag", "generation", "md5Hash", "md5", "content_md5")
_TIMES = ("LastModified", "last_modified", "modificationTime", "mtime", "updated", "created")
_ENVIRONMENT = (
    "check the endpoint and the credentials in the environment (FSSPEC_<PROTOCOL>_<OPTION>; for "
    "S3 AWS_…)"
)

_silent: dict[str, int] = {}
"""Of each URL, its last reads in succession that got no answer."""


@dataclass(frozen=True, slots=True)
class UrlStore:
    """A place that `fsspec` opens; further options come from the environment of fsspec."""

    url: str
    """Without credentials and without a final ``/``."""
    storage: str = "{}"
    """Options without secrets, as JSON."""

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    def listing(self) -> dict[str, StoredFile]:
        """List all files below the URL."""

        def find(system: Any, root: str) -> dict[str, StoredFile]:
            found = system.find(root, detail=True) if _finds(system) else _walked(system, root)
            LISTED_FILES.require(len(found))
            return {
                path.removeprefix(root).lstrip("/"): _stored(info)
                for path, info in found.items()
                if info.get("type", "file") == "file"
            }

        files = self._asked("list", self.url, find, LISTING_BYTES)
        if not files:
            raise self._absent(self.url)
        return dict(sorted(files.items()))

    def status(self, name: str) -> StoredFile:
        """Look up one file."""
        return self._asked(
            "read",
            f"{self.url}/{name}",
            lambda system, root: _stored(system.info(f"{root}/{name}")),
        )

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:  # noqa: C901, PLR0912 - a line for each way to fail
        """Read an object, or a part of it; try again after a failure that may pass.

        Raise `DataError` if the store answers nothing any more.
        """
        path = Path(f"{self.url}/{name}")
        end = None if length is None else start + length
        if end is None and not self.url.startswith("http"):  # `bounded_response` is of HTTP alone
            end = start + int(OBJECT_BYTES()) + 1
        reason, cut, number, silent, late = "", -1, 0, False, 0
        for number in _tries():
            if _silent.get(self.url, 0) >= MOST_SILENT:
                raise self._down("as other reads found")
            try:
                system, root = _opened(self)
                call = partial(system.cat_file, f"{root}/{name}", start=start, end=end)
                data: bytes = _within(READ_SECONDS(), call)
                OBJECT_BYTES.require(0 if length else len(data))
            except FileNotFoundError:
                raise ChangedImage(
                    path, "changed after it was listed: it is not there any more"
                ) from None
            except OverLimit as error:
                raise UnreadableImage(path, str(error)) from None
            except AlignkitError:
                raise
            except Exception as error:  # noqa: BLE001 - each file system has errors of its own
                reason, silent = _told(error), _is_silent(error)
                if _is_refusal(error):
                    raise UnreadableImage(path, f"refused: {reason}") from None
                if (late := late + _is_late(error)) == MOST_LATE:
                    break
            else:
                _silent[self.url] = 0
                if length in (None, len(data)):
                    if number > 1:
                        logger.info("%s was read at try %d", path.name, number)
                    return data
                reason, silent = f"{len(data):,} of {length:,} bytes came", False
                if len(data) > length:  # as of a server that knows no ranges
                    reason = f"more than the {length:,} bytes came that were asked for"
                cut = len(data)
        if not start and cut >= 0 and self.status(name).size not in (None, length):
            raise ChangedImage(path, "changed after it was listed")
        _silent[self.url] = _silent.get(self.url, 0) + 1 if silent else 0
        if _silent[self.url] >= MOST_SILENT:
            raise self._down(reason)
        raise UnreadableImage(path, f"{reason}; tried {number} times")

    def _asked(
        self,
        verb: str,
        place: str,
        call: Callable[[Any, str], _Answer],
        most: InputLimit = OBJECT_BYTES,
    ) -> _Answer:
        """Call for a listing or a look-up; raise `DataError` if it fails each time."""
        reason, ends = "", time.monotonic() + LISTING_SECONDS()
        for _ in _tries():
            try:
                system, root = _opened(self, page_tries=_PAGE_TRIES, most=most)
                answer = _within(ends - time.monotonic(), partial(call, system, root))
            except FileNotFoundError:
                raise self._absent(place) from None
            except OverLimit as error:
                raise DataError(f"cannot {verb} {place}: {error}") from None
            except AlignkitError:
                raise
            except Exception as error:  # noqa: BLE001 - each file system has errors of its own
                reason = _told(error)
                if time.monotonic() >= ends:
                    reason = f"it takes {LISTING_SECONDS.exceeded()}"
                    break
                # an answer was waited for long enough, and one that is refused stays so
                if _is_silent(error) or _is_refusal(error):
                    break
            else:
                _silent[self.url] = 0
                return answer
        raise DataError(f"cannot {verb} {place}: {reason}; {_ENVIRONMENT}")

    def _absent(self, place: str) -> DataError:
        return DataError(f"{place} is not there, or holds nothing; check the name; {_ENVIRONMENT}")

    def _down(self, reason: str) -> DataError:
        return DataError(
            f"{self.url} does not answer any more ({reason}); see whether it is up, and run the "
            "same command again"
        )


def _opened(
    store: UrlStore, page_tries: int = 1, most: InputLimit = OBJECT_BYTES
) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it.

    A listing of many pages repeats each of them ``page_tries`` times before it begins again.
    ``most`` are the bytes of an answer over HTTP.
    """
    if missing := missing_library("fsspec", extra="remote"):
        raise MissingDependency(missing)
    import fsspec

    url, given = store.url, json.loads(store.storage)
    protocol = url.partition(":")[0]
    try:
        # without a cache of listings: a million entries would stay in memory
        system, root = fsspec.core.url_to_fs(
            url, use_listings_cache=False, **_options(protocol, given, page_tries, most)
        )
    except ImportError as error:
        raise MissingDependency(f"{protocol}:// needs another package: {error}") from error
    except ValueError as error:
        known = ", ".join(f"{each}://" for each in ("s3", "gs", "hdfs", "webhdfs", "https"))
        raise ConfigError(f"{url}: {_told(error)}; fsspec knows e.g. {known}") from None
    if protocol == "s3":
        system.retries = 1
    if protocol == "webhdfs" and not isinstance(system.session.request, partial):
        system.session.request = partial(system.session.request, timeout=READ_SECONDS())
    return system, root.rstrip("/")


def _options(
    protocol: str, given: dict[str, Any], page_tries: int, most: InputLimit
) -> dict[str, Any]:
    """Return the given options, and those that limit a request; the user's own win."""
    import fsspec

    seconds = READ_SECONDS()
    if protocol == "s3":
        name = "config_kwargs"
        limits: dict[str, Any] = {
            "connect_timeout": seconds / page_tries,
            "read_timeout": seconds / page_tries,
            "retries": {"total_max_attempts": page_tries},
        }
    elif protocol in ("http", "https"):
        import aiohttp

        name = "client_kwargs"
        limits = {
            "timeout": aiohttp.ClientTimeout(total=seconds),
            "response_class": bounded_response(most),
            "trace_configs": [_staying()],
        }
    else:
        return given
    own = fsspec.config.conf.get(protocol, {}).get(name, {})
    return given | {name: limits | own | given.get(name, {})}


@cache  # fsspec tells its file systems apart by the text of their options
def _staying() -> Any:
    """Refuse to be sent on to another host with headers of the user's own, which may be secret."""
    import aiohttp

    async def refuse(_session: Any, _context: Any, redirect: Any) -> None:
        if not {*redirect.headers} - _STAYING:
            return
        to = redirect.url.join(type(redirect.url)(redirect.response.headers.get("Location", "")))
        if _server(to) != _server(redirect.url):
            raise PermissionError(
                "it redirects to another host, and your own headers are not sent there"
            )

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return trace


def _server(url: Any) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port


def _finds(system: Any) -> bool:
    """Whether a file system lists all files in a way of its own, as object stores do.

    The way that fsspec gives to others leaves out each folder that cannot be listed.
    """
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    if isinstance(system, AsyncFileSystem):
        return type(system)._find is not AsyncFileSystem._find  # noqa: SLF001 - `find` calls it
    return type(system).find is not AbstractFileSystem.find


# fsspec's `find` leaves out each folder that it cannot list, whatever `on_error` says, and a
# smaller set would look like a whole one.
def _walked(system: Any, root: str) -> dict[str, Any]:
    """List one folder after the other; raise if one of them cannot be listed."""
    found: dict[str, Any] = {}
    folders, seen = [(root, 0)], {root}
    while folders:
        folder, depth = folders.pop()
        LISTED_DEPTH.require(depth, "its folders have")
        for info in system.ls(folder, detail=True):
            path = info["name"].rstrip("/")
            if info["type"] != "directory":
                found[path] = info
            elif path not in seen:
                seen.add(path)
                folders.append((path, depth + 1))
        LISTED_FILES.require(len(found) + len(seen))
    return found


def _tries() -> Iterator[int]:
    """Count the tries from 1, with the waits between them."""
    for number in range(TRIES):
        if number:
            time.sleep(FIRST_WAIT * 2 ** (number - 1))
        yield number + 1


def _is_late(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


def _is_silent(error: Exception) -> bool:
    """Whether no answer came, as opposed to a bad one."""
    return _is_late(error) or "Connect" in type(error).__name__


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, PermissionError) or "Credentials" in type(error).__name__


def _stored(info: dict[str, Any]) -> StoredFile:
    size = info.get("size")
    marks = [str(info[key]) for keys in (_ETAGS, _TIMES) for key in keys if info.get(key)]
    return StoredFile(size, " ".join([str(size), *marks]) if marks else "")


def _told(error: BaseException) -> str:
    """Return the message of a library in one line, without credentials."""
    if isinstance(error, Exception) and _is_late(error):
        return f"no answer within {READ_SECONDS():g} seconds"
    text = " ".join(str(error).split()) or type(error).__name__
    text = _QUERY.sub("?…", without_credentials(text))
    for value in sorted(_secrets(), key=len, reverse=True):
        text = text.replace(value, "…")
    return f"{type(error).__name__}: {text[:_LONGEST_REASON]}"


def _secrets() -> Iterator[str]:
    """Yield the values of the environment and of fsspec's options that look like secrets."""
    import fsspec

    values = [value for name, value in os.environ.items() if SECRET_NAME.search(name)]
    for options in fsspec.config.conf.values():
        values += hidden_values(options)
    for value in values:
        for word in (value, *value.split()[1:]):  # a server may repeat a token without its scheme
            if len(word) >= _SHORTEST_SECRET:
                yield word


def _within(seconds: float, call: Callable[[], _Answer]) -> _Answer:
    """Call in a thread; raise `TimeoutError` if it takes longer.

    Not each file system has a limit of its own, and a thread that waits for a slow one cannot be
    ended: it is left behind, and does not keep the process alive.
    """
    ended: queue.SimpleQueue[tuple[_Answer | None, Exception | None]] = queue.SimpleQueue()

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
