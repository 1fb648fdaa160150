"""Live endpoints, whatever protocol they speak: their options, address and requests."""

from __future__ import annotations

import os
import re
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from alignkit.backends import Backend
from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.backends import Precision


@dataclass(frozen=True, slots=True)
class EndpointBackend(Backend):
    """One model of one endpoint, which computes in a precision that no client sees."""

    needs_onnx: ClassVar[bool] = False
    precisions: ClassVar[tuple[Precision, ...]] = ("served",)
    live: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = False
    unnamed: ClassVar[frozenset[str]] = frozenset(
        {"url", "serves", "concurrency", "timeout", "retries", "header", "header_env"}
    )
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    url: str
    """``http://`` or ``https://``, with kserve also ``grpc://`` or ``grpcs://``, and host and port;
    or ``$NAME`` of an environment variable that holds the address: if it is not set, the cells are
    skipped."""
    _: KW_ONLY
    serves: str = ""
    """The row whose model it holds: the name of a preprocess or of an entry of ``models``. Needed
    if there are several rows."""
    sends: Literal["files", "tensors"] = "files"
    """Encoded images, or the normalised float32 tensors of the path."""
    answers: Literal["auto", "logits", "probabilities"] = "auto"
    """By default logits that do not look like probabilities. Probabilities are compared by their
    logarithm. It differs from the logits by a constant for each image, so classes are comparable
    and distances between logits are not."""
    images_per_request: Annotated[int, Field(ge=1, le=1024)] = 1
    """Images in one request, if the model takes batches."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """Number of requests at the same time."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds for one request, from connecting to the last byte of the answer."""
    retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a request is repeated after a time-out, a lost connection or a server's error."""
    header: str = "Authorization"
    """Header that authorises a request."""
    header_env: str = ""
    """Environment variable with the whole value of ``header``, e.g. ``Bearer …``; the value is
    neither recorded nor shown. Empty: the header is not sent."""

    def __post_init__(self) -> None:
        self.address()

    def address(self) -> Address:
        """Return the address; raise `ConfigError` for a malformed address or variable name."""
        return Address(self.url, self.header_env, self.header, schemes=self.schemes)

    @property
    def own_path(self) -> str:
        """Name of the endpoint's own preprocessing if files are sent; empty for tensors."""
        return "the server's own" if self.sends == "files" else ""

    def impossible(self, precision: Precision) -> str:
        """Return why the precision cannot run; empty if it can. Nothing is sent to the endpoint."""
        if precision not in self.precisions:
            return f"{precision} cannot be asked of an endpoint: it computes as it was set up"
        return self.address().missing()


_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


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
    """Header that authorises a request."""
    source: str = "'url'"
    """The option that holds the address, for error messages."""
    schemes: tuple[str, ...] = ("http", "https", "grpc", "grpcs")
    """Schemes that its clients speak."""

    def __post_init__(self) -> None:
        if not self.url.startswith("$"):
            self._require(self.url, self.source)
        elif not _VARIABLE.fullmatch(self.url[1:]):
            raise ConfigError(
                f"{self.source} is an address, or $ and an environment variable in capitals"
            )
        if not _HEADER.fullmatch(self.header):
            raise ConfigError("'header' is the name of a header; its value is that of 'header_env'")
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
        self._require(url, self.url)
        return url

    def headers(self) -> dict[str, str]:
        """Return the headers of every request. They are secret: never log them."""
        return {self.header: os.environ[self.header_env]} if self.header_env else {}

    def _require(self, url: str, source: str) -> None:
        """Raise `ConfigError` unless the URL has a scheme and a host, and no secret to be shown."""
        parts = urlsplit(url)
        if parts.scheme not in self.schemes or not parts.hostname:
            known = ", ".join(f"{scheme}://" for scheme in self.schemes)
            raise ConfigError(f"{source} begins with {known} and host")
        if parts.username or parts.password or parts.query:
            raise ConfigError(
                f"{source} holds no user, password or query; name a variable, header_env"
            )
