"""Requests to an endpoint: deadlines, retries, how many at a time, and the loop they run in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, TypeVar

from alignkit.errors import BackendError
from alignkit.limits import OverLimit

_T = TypeVar("_T")
TRANSIENT = ("5", "429", "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL")
"""Prefixes of the HTTP and gRPC statuses after which the same request may succeed."""
_MESSAGE_LENGTH = 300
"""Characters of a server's message that are shown."""
PAUSE = 0.1
"""Seconds before the second try; the pause doubles before each further try."""


class Refused(Exception):  # noqa: N818 - the answer, not a defect
    """A request without a usable answer; ``transient`` if the same request may get one."""

    def __init__(self, reason: str, *, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


@dataclass(slots=True)
class Requester:
    """Deadline and retries of requests, with counts of the requests so far."""

    seconds: float
    """Deadline of one try."""
    retries: int
    secrets: tuple[str, ...] = ()
    """Texts that are never shown: a server may answer with the headers it received."""
    status_of: Callable[[Exception], tuple[str, str] | None] = lambda _: None
    """Reads (status, message) of an error that the client raises for a server's answer; ``None``
    for any other error."""
    requests: int = 0
    retried: int = 0

    async def send(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Return the answer to a request; raise `BackendError` with the last try's reason."""
        self.requests += 1
        for tried in range(self.retries + 1):
            try:
                return await self._once(request)
            except Refused as error:
                refused = error
            if not refused.transient:
                raise BackendError(f"the endpoint refused a request: {refused}")
            if tried < self.retries:
                self.retried += 1
                await asyncio.sleep(PAUSE * 2**tried)
        tries = f"{self.retries + 1} tries" if self.retries else "one try"
        raise BackendError(f"the endpoint gave no answer in {tries}: {refused}")

    async def _once(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Send a request once; raise `Refused` for any of the dozens of types clients raise."""
        import aiohttp

        try:
            async with asyncio.timeout(self.seconds):
                return await request()
        except TimeoutError:
            raise Refused(f"nothing came within {self.seconds:g} s", transient=True) from None
        except (OSError, aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise Refused(self.shown(f"no connection, {error}"), transient=True) from None
        except BackendError:
            raise
        except OverLimit as error:
            raise Refused(str(error), transient=False) from None
        except Exception as error:  # noqa: BLE001 - a garbled answer makes clients raise anything
            if answered := self.status_of(error):
                status, message = answered
                said = self.shown(f"{status}, {message}" if status else message)
                raise Refused(said, transient=status.startswith(TRANSIENT)) from None
            message = f"the answer is not of the protocol, {type(error).__name__}: {error}"
            raise Refused(self.shown(message), transient=False) from None

    def shown(self, message: str) -> str:
        """Shorten a message to one line without secrets."""
        for secret in self.secrets:
            message = message.replace(secret, "…")
        line = " ".join(message.split())
        return line if len(line) <= _MESSAGE_LENGTH else line[:_MESSAGE_LENGTH] + "…"


def sent_on(location: str | None) -> str:
    """Word the answer of a server that sends requests on to another address."""
    return (
        f"the server sends requests on to {location or 'nowhere'}, and neither images nor the "
        "header go there; if it is yours, name it in url"
    )


def secrets_of(headers: dict[str, str]) -> tuple[str, ...]:
    """Return header values and their words, longest first; ``Bearer`` itself is no secret."""
    # a server may repeat the token without its scheme, or as JSON writes it
    words = {word for value in headers.values() for word in (value, *value.split()[1:])}
    written = {json.dumps(word)[1:-1] for word in words}
    return tuple(sorted(words | written, key=len, reverse=True))


# An event loop, and not threads with tritonclient's synchronous clients: those limit each read,
# so that an answer that came byte by byte took 4.3 s under a limit of 0.3 s, and a request that
# runs cannot be cancelled when another one fails.
@dataclass(slots=True, eq=False)
class Loop:
    """An event loop in its own thread, because the caller's thread may run one (a notebook)."""

    inner: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        # a daemon: an interrupted process must not wait for requests
        self.thread = Thread(target=self.inner.run_forever, name="endpoint", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine and wait for its result; an interruption cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.inner)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the thread."""
        self.inner.call_soon_threadsafe(self.inner.stop)
        self.thread.join()
        self.inner.close()


async def gather_limited(works: Sequence[Callable[[], Awaitable[_T]]], limit: int) -> list[_T]:
    """Run ``limit`` works at a time, and return all results in order.

    The first failure cancels the others and is raised.
    """
    free = asyncio.Semaphore(limit)

    async def one(work: Callable[[], Awaitable[_T]]) -> _T:
        async with free:
            return await work()

    tasks = [asyncio.create_task(one(work)) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
