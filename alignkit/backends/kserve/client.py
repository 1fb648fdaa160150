"""Address and client of an endpoint: the Open Inference Protocol v2 over HTTP or gRPC."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.backends.kserve.model import TensorSpec

_CONNECTIONS = 256
"""Greatest number of connections to one endpoint."""
_SCHEMES = ("http", "https", "grpc", "grpcs")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Address:
    """URL of an endpoint and its header for access.

    Raises `ConfigError` for a malformed URL or variable name.
    """

    url: str
    """URL with scheme and host; or ``$NAME`` of an environment variable that holds one."""
    header_env: str = ""
    """Environment variable with the header's whole value; empty: no header is sent."""
    header: str = "Authorization"
    source: str = "'url'"
    """The option that holds the address, for error messages."""

    def __post_init__(self) -> None:
        if not self.url.startswith("$"):
            _require(self.url, self.source)
        elif not _VARIABLE.fullmatch(self.url[1:]):
            raise ConfigError(
                f"{self.source} is an address, or $ and an environment variable in capitals"
            )
        if self.header_env and not _VARIABLE.fullmatch(self.header_env):
            raise ConfigError(
                "'header_env' is the name of an environment variable in capitals, not its value"
            )

    def missing(self) -> str:
        """Return which environment variable is not set; empty if none is missing."""
        if self.url.startswith("$") and not os.environ.get(self.url[1:]):
            return f"the environment variable {self.url[1:]} names no endpoint"
        if self.header_env and not os.environ.get(self.header_env):
            return f"the environment variable {self.header_env} holds no header for the endpoint"
        return ""

    def resolved(self) -> str:
        """Return the URL; raise `ConfigError` if the variable holds none."""
        if not self.url.startswith("$"):
            return self.url
        url = os.environ[self.url[1:]]
        _require(url, self.url)
        return url

    def headers(self) -> dict[str, str]:
        """Return the headers of every request. They are secret: never log them."""
        return {self.header: os.environ[self.header_env]} if self.header_env else {}


def _require(url: str, source: str) -> None:
    """Raise `ConfigError` unless the URL has a scheme and a host, and no secret to be shown."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigError(f"{source} begins with {', '.join(f'{s}://' for s in _SCHEMES)} and host")
    if parts.username or parts.password or parts.query:
        raise ConfigError(f"{source} holds no user, password or query; name a variable, header_env")


class Client(Protocol):
    """A connection to one endpoint, for use within one event loop."""

    extended: bool
    """Whether tensors travel as bytes; otherwise as JSON, and files as base64."""

    async def server(self) -> dict[str, Any]:
        """Fetch the server's ``name``, ``version`` and ``extensions``."""
        ...

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """Fetch a model's ``platform``, ``versions``, ``inputs`` and ``outputs``."""
        ...

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """Send a tensor and return (type, array) of an output; no array if it has no such output.

        ``target`` is (model, version), ``tensor`` (name, array, type).
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


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

    array = np.empty(len(files), object)  # JSON holds text only
    array[:] = files if client.extended else [base64.b64encode(each) for each in files]
    return array.reshape(-1, 1) if len(spec.shape) == 2 else array


class HTTPClient:
    """A client over HTTP, by tritonclient; its own time-out is off because `Requester` sets one."""

    def __init__(self, host: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.http.aio import InferenceServerClient

        self.inner = InferenceServerClient(
            host, conn_limit=_CONNECTIONS, conn_timeout=None, ssl=secure, ssl_context=True
        )
        # tritonclient cannot read compressed errors, which aiohttp asks for by default
        self.headers = {**headers, "Accept-Encoding": "identity"}
        self.extended = False

    async def server(self) -> dict[str, Any]:
        """Fetch as `Client.server`; the extensions decide how tensors travel."""
        server: dict[str, Any] = await self.inner.get_server_metadata(headers={**self.headers})
        self.extended = "binary_tensor_data" in server.get("extensions", ())
        return server

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """Fetch as `Client.model`."""
        model: dict[str, Any] = await self.inner.get_model_metadata(
            name, version, headers={**self.headers}
        )
        return model

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """Send as `Client.infer`."""
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
    """A client over gRPC, by tritonclient; tensors always travel as bytes."""

    def __init__(self, host: str, headers: dict[str, str], *, secure: bool) -> None:
        from tritonclient.grpc.aio import InferenceServerClient

        self.inner = InferenceServerClient(host, ssl=secure)
        # gRPC refuses metadata keys with capitals
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.extended = True

    async def server(self) -> dict[str, Any]:
        """Fetch as `Client.server`."""
        server: dict[str, Any] = await self.inner.get_server_metadata(self.headers, as_json=True)
        return server

    async def model(self, name: str, version: str) -> dict[str, Any]:
        """Fetch as `Client.model`; gRPC's JSON writes whole numbers as text."""
        model: dict[str, Any] = await self.inner.get_model_metadata(
            name, version, self.headers, as_json=True
        )
        return model

    async def infer(
        self, target: tuple[str, str], tensor: tuple[str, Any, str], output: str
    ) -> tuple[str, npt.NDArray[Any] | None]:
        """Send as `Client.infer`."""
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
