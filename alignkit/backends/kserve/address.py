"""Where an endpoint is, and the header that lets one in: checked and read here alone."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from alignkit.errors import ConfigError

SCHEMES = ("http", "https", "grpc", "grpcs")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Address:
    """Raises `ConfigError` for an address or a variable that cannot be meant."""

    url: str
    """With a scheme and a host; or ``$NAME`` of an environment variable that holds this."""
    header_env: str = ""
    """Environment variable with the header's whole value; empty: none is sent."""
    header: str = "Authorization"
    source: str = "'url'"
    """What the user calls the address."""

    def __post_init__(self) -> None:
        if not self.url.startswith("$"):
            _require(self.url, self.source)
        elif not VARIABLE.fullmatch(self.url[1:]):
            raise ConfigError(
                f"{self.source} is an address, or $ and an environment variable in capitals"
            )
        if self.header_env and not VARIABLE.fullmatch(self.header_env):
            raise ConfigError(
                "'header_env' is the name of an environment variable in capitals, not its value"
            )

    def missing(self) -> str:
        """Why nothing can be asked here; empty if it can be tried."""
        if self.url.startswith("$") and not os.environ.get(self.url[1:]):
            return f"the environment variable {self.url[1:]} names no endpoint"
        if self.header_env and not os.environ.get(self.header_env):
            return f"the environment variable {self.header_env} holds no header for the endpoint"
        return ""

    def resolved(self) -> str:
        """The address itself; raises `ConfigError` if a variable holds none."""
        if not self.url.startswith("$"):
            return self.url
        url = os.environ[self.url[1:]]
        _require(url, self.url)
        return url

    def headers(self) -> dict[str, str]:
        """For every request; not to be logged."""
        return {self.header: os.environ[self.header_env]} if self.header_env else {}


def _require(url: str, source: str) -> None:
    """Raise `ConfigError` unless it has a scheme and a host, and no secret that would be shown."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ConfigError(f"{source} begins with {', '.join(f'{s}://' for s in SCHEMES)} and host")
    if parts.username or parts.password or parts.query:
        raise ConfigError(f"{source} holds no user, password or query; name a variable, header_env")
