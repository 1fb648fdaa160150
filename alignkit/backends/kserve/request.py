"""Requests to an endpoint: each with its deadline, sent again where that may help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, TypeVar

from alignkit.errors import BackendError

T = TypeVar("T")
AGAIN = ("5", "429", "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL")
"""Beginnings of the statuses, of HTTP or gRPC, after which the same request may succeed."""
TOLD = 300
"""Characters of a server's message that are shown."""
PAUSE = 0.1
"""Seconds before the second try; twice as many before each further one."""


class Refused(Exception):  # noqa: N818 - the answer, not a defect
    """A request had no usable answer; ``again`` where the same one may have it."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


@dataclass(slots=True)
class Asking:
    """How long to wait, how often to try, and what was needed so far."""

    seconds: float
    retries: int
    secrets: tuple[str, ...] = ()
    """Never shown: a server may answer with the headers it was sent."""
    requests: int = 0
    again: int = 0

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """What a request gave; raises `BackendError` with the last try's reason."""
        self.requests += 1
        for tried in range(self.retries + 1):
            try:
                return await self._once(request)
            except Refused as error:
                refused = error
            if not refused.again:
                raise BackendError(f"the endpoint refused a request: {refused}")
            if tried < self.retries:
                self.again += 1
                await asyncio.sleep(PAUSE * 2**tried)
        tries = f"{self.retries + 1} tries" if self.retries else "one try"
        raise BackendError(f"the endpoint gave no answer in {tries}: {refused}")

    async def _once(self, request: Callable[[], Awaitable[T]]) -> T:
        """One try. Clients raise dozens of types: all that is not an answer is a `Refused`."""
        import aiohttp
        from tritonclient.utils import InferenceServerException

        try:
            async with asyncio.timeout(self.seconds):
                return await request()
        except TimeoutError:
            raise Refused(f"nothing came within {self.seconds:g} s", again=True) from None
        except InferenceServerException as error:
            status = str(error.status() or "").removeprefix("StatusCode.")
            told = f"{status}, {error.message()}" if status else str(error.message())
            raise Refused(self._shown(told), again=status.startswith(AGAIN)) from None
        except (OSError, aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise Refused(self._shown(f"no connection, {error}"), again=True) from None
        except Exception as error:  # noqa: BLE001 - a garbled answer makes clients raise anything
            told = f"the answer is not of the protocol, {type(error).__name__}: {error}"
            raise Refused(self._shown(told), again=False) from None

    def _shown(self, message: str) -> str:
        """One line, short, without what must not be shown."""
        for secret in self.secrets:
            message = message.replace(secret, "…")
        line = " ".join(message.split())
        return line if len(line) <= TOLD else line[:TOLD] + "…"


def secrets_of(headers: dict[str, str]) -> tuple[str, ...]:
    """Header values and the long words in them: the scheme ``Bearer`` is no secret, the rest is."""
    words = {word for value in headers.values() for word in (value, *value.split())}
    return tuple(sorted((word for word in words if len(word) > 6), key=len, reverse=True))


@dataclass(slots=True, eq=False)
class Loop:
    """An event loop in a thread of its own, so that a caller may have one running (a notebook)."""

    inner: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self.inner.run_forever, name="endpoint", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it; an interruption cancels it."""
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


async def together(works: Sequence[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """All results in order, ``limit`` at a time; the first failure cancels what is left."""
    free = asyncio.Semaphore(limit)

    async def one(work: Callable[[], Awaitable[T]]) -> T:
        async with free:
            return await work()

    tasks = [asyncio.create_task(one(work)) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
