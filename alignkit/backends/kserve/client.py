"""The Open Inference Protocol v2 over HTTP or gRPC: single requests, by tritonclient."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.backends.kserve.model import Tensor

CONNECTIONS = 256
"""At most, to one endpoint."""


class Client(Protocol):
    """One endpoint; used within one event loop."""

    extended: bool
    """Whether tensors travel as bytes; otherwise as JSON, and files as base64."""

    async def server(self) -> dict[str, Any]:
        """Its ``name``, ``version`` and ``extensions``."""
        ...

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """Its ``platform``, ``versions``, ``inputs`` and ``outputs``."""
        ...

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """(type, array) of an output; no array if there is none of that name.

        ``target`` is (model, version), ``tensor`` (name, array, type).
        """
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


def connect(url: str, headers: dict[str, str]) -> Client:
    """The client for a URL's scheme; nothing is sent yet."""
    parts = urlsplit(url)
    secure = parts.scheme in ("https", "grpcs")
    if parts.scheme.startswith("grpc"):
        return GRPCClient(parts.netloc, headers, secure=secure)
    return HTTPClient(parts.netloc + parts.path, headers, secure=secure)


def files_as(given: Tensor, files: Sequence[bytes], client: Client) -> npt.NDArray[Any]:
    """Files as a model's ``BYTES`` input: (files,), or (files, 1) where it is declared so."""
    import numpy as np

    array = np.empty(len(files), object)  # JSON holds text only
    array[:] = files if client.extended else [base64.b64encode(each) for each in files]
    return array.reshape(-1, 1) if len(given.shape) == 2 else array


class HTTPClient:
    """By tritonclient's HTTP client; its own time-out is off, as `Asking` sets one."""

    def __init__(self, place: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.http.aio import InferenceServerClient

        self.inner = InferenceServerClient(
            place, conn_limit=CONNECTIONS, conn_timeout=None, ssl=secure, ssl_context=True
        )
        # tritonclient cannot read compressed errors, which aiohttp asks for by default
        self.headers = {**headers, "Accept-Encoding": "identity"}
        self.extended = False

    async def server(self) -> dict[str, Any]:
        """As `Client.server`; what it can do decides how tensors travel."""
        found: dict[str, Any] = await self.inner.get_server_metadata(headers={**self.headers})
        self.extended = "binary_tensor_data" in found.get("extensions", ())
        return found

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """As `Client.model`."""
        found: dict[str, Any] = await self.inner.get_model_metadata(
            name, version, headers={**self.headers}
        )
        return found

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """As `Client.infer`."""
        from tritonclient.http import InferInput, InferRequestedOutput

        name, array, kind = tensor
        given = InferInput(name, list(array.shape), kind)
        given.set_data_from_numpy(array, binary_data=self.extended)
        wanted = [InferRequestedOutput(output, binary_data=self.extended)]
        media = "application/octet-stream" if self.extended else "application/json"
        headers = {**self.headers, "Content-Type": media}
        result = await self.inner.infer(target[0], [given], target[1], wanted, headers=headers)
        found = result.get_output(output)
        return (found["datatype"], result.as_numpy(output)) if found else ("", None)

    async def close(self) -> None:
        """As `Client.close`."""
        await self.inner.close()


class GRPCClient:
    """By tritonclient's gRPC client; tensors always travel as bytes."""

    def __init__(self, place: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.grpc.aio import InferenceServerClient

        self.inner = InferenceServerClient(place, ssl=secure)
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.extended = True

    async def server(self) -> dict[str, Any]:
        """As `Client.server`."""
        found: dict[str, Any] = await self.inner.get_server_metadata(self.headers, as_json=True)
        return found

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """As `Client.model`; gRPC writes whole numbers as text."""
        found: dict[str, Any] = await self.inner.get_model_metadata(
            name, version, self.headers, as_json=True
        )
        return found

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """As `Client.infer`."""
        from tritonclient.grpc import InferInput, InferRequestedOutput

        name, array, kind = tensor
        given = InferInput(name, list(array.shape), kind)
        given.set_data_from_numpy(array)
        result = await self.inner.infer(
            target[0], [given], target[1], [InferRequestedOutput(output)], headers=self.headers
        )
        found = result.get_output(output)
        return (found.datatype, result.as_numpy(output)) if found is not None else ("", None)

    async def close(self) -> None:
        """As `Client.close`."""
        await self.inner.close()
