"""Clients of an endpoint over HTTP or gRPC, and requests with deadlines and retries."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from alignkit.errors import BackendError

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.backends.kserve.kserve_session import TensorSpec

_T = TypeVar("_T")
_CONNECTIONS = 256
"""Greatest number of connections to one endpoint: the limit of ``concurrency``."""
TRANSIENT = ("5", "429", "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL")
"""Prefixes of the HTTP and gRPC statuses after which the same request may succeed."""
_MESSAGE_LENGTH = 300
"""Characters of a server's message that are shown."""
PAUSE = 0.1
"""Seconds before the second try; the pause doubles before each further try."""


class HTTPClient:
    """A connection over HTTP, by tritonclient, for use within one event loop.

    tritonclient's own time-out is off because `Requester` sets one.
    """

    extended: bool
    """Whether tensors travel as bytes; otherwise as JSON, and files as base64."""

    def __init__(self, host: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.http.aio import InferenceServerClient

        self.inner = InferenceServerClient(
            host, conn_limit=_CONNECTIONS, conn_timeout=None, ssl=secure, ssl_context=True
        )
        # tritonclient cannot read compressed errors, which aiohttp asks for by default
        self.headers = {**headers, "Accept-Encoding": "identity"}
        self.extended = False

    async def server(self) -> dict[str, Any]:
        """Fetch the server's ``name``, ``version`` and ``extensions``.

        The extensions decide how tensors travel.
        """
        server: dict[str, Any] = await self.inner.get_server_metadata(headers={**self.headers})
        self.extended = "binary_tensor_data" in server.get("extensions", ())
        return server

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """Fetch a model's ``platform``, ``versions``, ``inputs`` and ``outputs``."""
        model: dict[str, Any] = await self.inner.get_model_metadata(
            name, version, headers={**self.headers}
        )
        return model

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """Send a tensor and return (type, array) of an output; no array if it has no such output.

        ``target`` is (model, version), ``tensor`` (name, array, type).
        """
        from tritonclient.http import InferInput, InferRequestedOutput

        name, array, kind = tensor
        sent = InferInput(name, list(array.shape), kind)
        sent.set_data_from_numpy(array, binary_data=self.extended)
        wanted = [InferRequestedOutput(output, binary_data=self.extended)]
        media = "application/octet-stream" if self.extended else "application/json"
        headers = {**self.headers, "Content-Type": media}
        result = await self.inner.infer(target[0], [sent], target[1], wanted, headers=headers)
        answer = result.get_output(output)
        return (answer["datatype"], result.as_numpy(output)) if answer else ("", None)

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()


class GRPCClient:
    """A connection over gRPC, as `HTTPClient`; tensors always travel as bytes."""

    def __init__(self, host: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.grpc.aio import InferenceServerClient

        self.inner = InferenceServerClient(host, ssl=secure)
        # gRPC refuses metadata keys with capitals
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.extended = True

    async def server(self) -> dict[str, Any]:
        """Fetch as `HTTPClient.server`."""
        server: dict[str, Any] = await self.inner.get_server_metadata(self.headers, as_json=True)
        return server

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """Fetch as `HTTPClient.model`; gRPC's JSON writes whole numbers as text."""
        model: dict[str, Any] = await self.inner.get_model_metadata(
            name, version, self.headers, as_json=True
        )
        return model

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """Send as `HTTPClient.infer`."""
        from tritonclient.grpc import InferInput, InferRequestedOutput

        name, array, kind = tensor
        sent = InferInput(name, list(array.shape), kind)
        sent.set_data_from_numpy(array)
        result = await self.inner.infer(
            target[0], [sent], target[1], [InferRequestedOutput(output)], headers=self.headers
        )
        answer = result.get_output(output)
        return (answer.datatype, result.as_numpy(output)) if answer is not None else ("", None)

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()


Client: TypeAlias = HTTPClient | GRPCClient


def connect(url: str, headers: dict[str, str]) -> Client:
    """Make the client for a URL's scheme; nothing is sent yet."""
    parts = urlsplit(url)
    secure = parts.scheme in ("https", "grpcs")
    if parts.scheme.startswith("grpc"):
        return GRPCClient(parts.netloc, headers, secure=secure)
    return HTTPClient(parts.netloc + parts.path, headers, secure=secure)


def files_array(spec: TensorSpec, files: Sequence[bytes], client: Client) -> npt.NDArray[Any]:
    """Make a model's ``BYTES`` input: (files,), or (files, 1) if the model declares two axes."""
    import numpy as np

    array = np.empty(len(files), object)  # NumPy's own byte strings lose trailing zeros
    # JSON holds text only
    array[:] = files if client.extended else [base64.b64encode(each) for each in files]
    return array.reshape(-1, 1) if len(spec.shape) == 2 else array


class _Refused(Exception):  # noqa: N818 - the answer, not a defect
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
    requests: int = 0
    retried: int = 0

    async def send(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Return the answer to a request; raise `BackendError` with the last try's reason."""
        self.requests += 1
        for tried in range(self.retries + 1):
            try:
                return await self._once(request)
            except _Refused as error:
                refused = error
            if not refused.transient:
                raise BackendError(f"the endpoint refused a request: {refused}")
            if tried < self.retries:
                self.retried += 1
                await asyncio.sleep(PAUSE * 2**tried)
        tries = f"{self.retries + 1} tries" if self.retries else "one try"
        raise BackendError(f"the endpoint gave no answer in {tries}: {refused}")

    async def _once(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Send a request once; raise `_Refused` for any of the dozens of types clients raise."""
        import aiohttp
        from tritonclient.utils import InferenceServerException

        try:
            async with asyncio.timeout(self.seconds):
                return await request()
        except TimeoutError:
            raise _Refused(f"nothing came within {self.seconds:g} s", transient=True) from None
        except InferenceServerException as error:
            status = str(error.status() or "").removeprefix("StatusCode.")
            message = f"{status}, {error.message()}" if status else str(error.message())
            raise _Refused(self._shown(message), transient=status.startswith(TRANSIENT)) from None
        except (OSError, aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise _Refused(self._shown(f"no connection, {error}"), transient=True) from None
        except Exception as error:  # noqa: BLE001 - a garbled answer makes clients raise anything
            message = f"the answer is not of the protocol, {type(error).__name__}: {error}"
            raise _Refused(self._shown(message), transient=False) from None

    def _shown(self, message: str) -> str:
        """Shorten a message to one line without secrets."""
        for secret in self.secrets:
            message = message.replace(secret, "…")
        line = " ".join(message.split())
        return line if len(line) <= _MESSAGE_LENGTH else line[:_MESSAGE_LENGTH] + "…"


def secrets_of(headers: dict[str, str]) -> tuple[str, ...]:
    """Return header values and their long words, longest first; ``Bearer`` itself is no secret."""
    # a server may repeat the token without its scheme
    words = {word for value in headers.values() for word in (value, *value.split())}
    return tuple(sorted((word for word in words if len(word) > 6), key=len, reverse=True))


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
