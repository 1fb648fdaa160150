"""Clients of an endpoint that speaks the protocol, over HTTP or gRPC."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from alignkit.backends.endpoint.requests import Requester, secrets_of, sent_on
from alignkit.limits import ANSWER_BYTES, bounded_response

if TYPE_CHECKING:
    import aiohttp
    import numpy.typing as npt

    from alignkit.backends.kserve.kserve_session import TensorSpec

_CONNECTIONS = 256
"""Greatest number of connections to one endpoint: the limit of ``concurrency``."""


class _StayingSession:
    """The aiohttp session of tritonclient, which follows redirects and unpacks without a limit.

    It has no option against either.
    """

    def __init__(self, inner: aiohttp.ClientSession) -> None:
        self.inner = inner

    async def get(self, **given: Any) -> aiohttp.ClientResponse:
        return self._stayed(await self.inner.get(**given, allow_redirects=False))

    async def post(self, **given: Any) -> aiohttp.ClientResponse:
        return self._stayed(await self.inner.post(**given, allow_redirects=False))

    def _stayed(self, response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
        from tritonclient.utils import InferenceServerException

        packed = response.headers.get("Content-Encoding", "identity")
        if response.status // 100 == 3:
            said = sent_on(response.headers.get("Location"))
        elif packed != "identity":
            said = f"the answer is packed ({packed}), which was not asked for"
        else:
            return response
        response.close()
        raise InferenceServerException(said, str(response.status))

    async def close(self) -> None:
        await self.inner.close()


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
        answers = bounded_response(ANSWER_BYTES)
        self.inner._stub._response_class = answers  # noqa: SLF001 - no option of tritonclient's
        self.inner._stub = _StayingSession(self.inner._stub)  # noqa: SLF001
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
        self, target: tuple[str, str], tensor: tuple[str, Any, str], outputs: Sequence[str]
    ) -> list[tuple[str, npt.NDArray[Any] | None]]:
        """Send a tensor; return (type, array) of each output, no array if there is no such output.

        ``target`` is (model, version), ``tensor`` (name, array, type).
        """
        from tritonclient.http import InferInput, InferRequestedOutput

        name, array, kind = tensor
        sent = InferInput(name, list(array.shape), kind)
        sent.set_data_from_numpy(array, binary_data=self.extended)
        wanted = [InferRequestedOutput(each, binary_data=self.extended) for each in outputs]
        media = "application/octet-stream" if self.extended else "application/json"
        headers = {**self.headers, "Content-Type": media}
        result = await self.inner.infer(target[0], [sent], target[1], wanted, headers=headers)
        answers = [(each, result.get_output(each)) for each in outputs]
        return [
            (answer["datatype"], result.as_numpy(name)) if answer else ("", None)
            for name, answer in answers
        ]

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()


class GRPCClient:
    """A connection over gRPC, as `HTTPClient`; tensors always travel as bytes."""

    def __init__(self, host: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.grpc.aio import InferenceServerClient

        most = ("grpc.max_receive_message_length", ANSWER_BYTES())
        self.inner = InferenceServerClient(
            host, ssl=secure, channel_args=[("grpc.max_send_message_length", -1), most]
        )
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
        self, target: tuple[str, str], tensor: tuple[str, Any, str], outputs: Sequence[str]
    ) -> list[tuple[str, npt.NDArray[Any] | None]]:
        """Send as `HTTPClient.infer`."""
        from tritonclient.grpc import InferInput, InferRequestedOutput

        name, array, kind = tensor
        sent = InferInput(name, list(array.shape), kind)
        sent.set_data_from_numpy(array)
        wanted = [InferRequestedOutput(each) for each in outputs]
        result = await self.inner.infer(target[0], [sent], target[1], wanted, headers=self.headers)
        answers = [(each, result.get_output(each)) for each in outputs]
        return [
            (answer.datatype, result.as_numpy(name)) if answer is not None else ("", None)
            for name, answer in answers
        ]

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


def requester(seconds: float, retries: int, headers: dict[str, str]) -> Requester:
    """Make the requester of both clients: they raise an error of tritonclient's for an answer."""
    from tritonclient.utils import InferenceServerException

    def status_of(error: Exception) -> tuple[str, str] | None:
        if not isinstance(error, InferenceServerException):
            return None
        return str(error.status() or "").removeprefix("StatusCode."), str(error.message())

    return Requester(seconds, retries, secrets_of(headers), status_of)
