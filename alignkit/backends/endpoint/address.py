"""`Address`: the URL of an endpoint and the header for access, which are never shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from alignkit.errors import ConfigError

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
