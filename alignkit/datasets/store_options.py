"""Options of a store's file system, and which of them may be written to a record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import ConfigError, without_credentials

_HARMLESS = frozenset((
    "access", "account_name", "addressing_style", "anon", "api_version", "block_size", "cache_type",
    "client_kwargs", "config_kwargs", "connect_timeout", "consistency", "default_block_size",
    "default_cache_type", "default_fill_cache", "endpoint_url", "host", "kerberos", "location",
    "max_concurrency", "max_pool_connections", "port", "project", "read_timeout", "region_name",
    "requester_pays", "same_scheme", "signature_version", "simple_links", "size_policy",
    "skip_instance_cache", "timeout", "trust_env", "use_https", "use_ssl", "user", "verify",
    "version_aware",
))  # fmt: skip
"""Options of fsspec's file systems that a record may hold; any other one may be a secret."""

Storage: TypeAlias = Mapping[str, str | bool | int | Mapping[str, str | bool | int]]
"""Options of a file system of fsspec."""


def require_public(url: str | None, storage: Storage | None) -> None:
    """Raise `ConfigError` for options without a URL, and for secrets among them."""
    if storage and url is None:
        raise ConfigError("storage: these are options of a URL, and root is a path; leave them out")
    if without_credentials(text := json.dumps(storage)) != text:
        named = "a URL holds a password or a query, and"
    elif not (named := next(_unlisted(storage or {}), "")):
        return
    raise ConfigError(
        f"storage: {named} would reach records, which hold no option that may be a secret; name it "
        "in the environment, as fsspec reads it (FSSPEC_<PROTOCOL>_<OPTION>; for S3 AWS_…). "
        f"Options that may stand here: {', '.join(sorted(_HARMLESS))}"
    )


def _unlisted(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that are not on the list of harmless ones, at any depth."""
    for name, value in options.items():
        if name.lower() not in _HARMLESS:
            yield escaped_name(name)
        elif isinstance(value, Mapping):
            yield from _unlisted(value)


def hidden_values(options: Any, *, known: bool = False) -> Iterator[str]:
    """Yield the texts of all options but harmless ones."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            yield from hidden_values(value, known=str(name).lower() in _HARMLESS)
    elif isinstance(options, list | tuple):
        for each in options:
            yield from hidden_values(each, known=known)
    elif isinstance(options, str) and not known:
        yield options
