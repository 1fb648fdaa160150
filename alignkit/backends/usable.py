"""Availability of every backend on every device in every precision, with the reason if not."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from pydantic import TypeAdapter

from alignkit.backends import BACKENDS, Precision

_DEVICE_OPTIONS = ("device", "provider")
"""Names of the option that says where a backend computes."""


@dataclass(frozen=True, slots=True)
class Usable:
    """One backend on one device in one precision."""

    backend: str
    device: str
    """``device=cuda``, as an experiment writes it; empty if there is no choice."""
    precision: Precision
    version: str
    """Version of the installed library; empty if it is not installed."""
    reason: str
    """Why it cannot run here, with the fix where there is one; empty if it can."""

    @property
    def name(self) -> str:
        """Name as in ``torch device=cuda fp16``."""
        return " ".join(filter(None, (self.backend, self.device, self.precision)))


def usable_backends() -> list[Usable]:
    """List all that an experiment can name; load no runtime and contact no endpoint."""
    combinations = []
    for name, plugin in BACKENDS.items():
        kind, missing, version = plugin.load(), plugin.missing(), plugin.version()
        for options in _devices(kind):
            device = " ".join(f"{key}={value}" for key, value in options.items())
            backend = None if _needs_options(kind) else kind(**options)
            for precision in kind.precisions:
                reason = missing or (backend.impossible(precision) if backend else "")
                combinations.append(Usable(name, device, precision, version, reason))
    return combinations


def _needs_options(kind: type[Any]) -> bool:
    """Return whether an option has no default, such as an endpoint's address."""
    return any(each.default is MISSING and each.default_factory is MISSING for each in fields(kind))


def _devices(kind: type[Any]) -> list[dict[str, str]]:
    properties = TypeAdapter(kind).json_schema()["properties"]
    for option in _DEVICE_OPTIONS:
        if option in properties:
            return [{option: value} for value in properties[option]["enum"]]
    return [{}]
