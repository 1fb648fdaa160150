"""Every backend on every device in every precision: whether it can run here, and why not."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from pydantic import TypeAdapter

from alignkit.backends import BACKENDS, Precision

DEVICES = ("device", "provider")
"""Names of the option that says where a backend computes."""


@dataclass(frozen=True, slots=True)
class Usable:
    """One backend on one device in one precision."""

    backend: str
    device: str
    """``device=cuda``, as an experiment writes it; empty where there is no choice."""
    precision: Precision
    version: str
    """Of the installed library; empty if there is none."""
    reason: str
    """Why it cannot run here, with the fix where there is one; empty if it can."""

    @property
    def name(self) -> str:
        """``torch device=cuda fp16``."""
        return " ".join(filter(None, (self.backend, self.device, self.precision)))


def usable_backends() -> list[Usable]:
    """All that an experiment can name; no runtime is loaded and no endpoint is asked."""
    found = []
    for name, plugin in BACKENDS.items():
        kind, missing, version = plugin.load(), plugin.missing(), plugin.version()
        for options in _devices(kind):
            told = " ".join(f"{key}={value}" for key, value in options.items())
            backend = None if _needs_options(kind) else kind(**options)
            for precision in kind.precisions:
                reason = missing or (backend.impossible(precision) if backend else "")
                found.append(Usable(name, told, precision, version, reason))
    return found


def _needs_options(kind: type[Any]) -> bool:
    """Whether it cannot be made without being told more, such as an endpoint's address."""
    return any(each.default is MISSING and each.default_factory is MISSING for each in fields(kind))


def _devices(kind: type[Any]) -> list[dict[str, str]]:
    properties = TypeAdapter(kind).json_schema()["properties"]
    for option in DEVICES:
        if option in properties:
            return [{option: value} for value in properties[option]["enum"]]
    return [{}]
