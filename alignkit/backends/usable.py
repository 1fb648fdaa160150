"""The backends that this machine can use, on each device and in each precision."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from alignkit.backends import BACKENDS, NOT_COMPARED, EngineBuilder, Precision
from alignkit.plugins import UNPROVEN

_ON_A_GPU = frozenset(("cuda", "tensorrt"))
"""Devices and providers of a GPU."""


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
    emulated: str = ""
    """Note on an emulated precision, with its cost; empty if none is known."""
    note: str = ""
    """Remark in any case: ``not yet run on hardware``, ``not compared with hardware``."""

    @property
    def name(self) -> str:
        """Name as in ``torch device=cuda fp16``."""
        return " ".join(filter(None, (self.backend, self.device, self.precision)))


def usable_backends() -> list[Usable]:
    """List all that an experiment can name; load no runtime and contact no endpoint."""
    combinations = []
    for name, plugin in BACKENDS.items():
        if BACKENDS.reason(name):
            continue  # it has no class, and so no precisions
        kind, missing, version = plugin.load(), plugin.missing(), plugin.version()
        # an option without a default, such as an endpoint's address, cannot be tried
        open_ended = any(each.default is each.default_factory is MISSING for each in fields(kind))
        # one row for each device, as its reasons differ
        for options in _devices(kind):
            device = " ".join(f"{key}={value}" for key, value in options.items())
            backend = None if open_ended else kind(**options)
            for precision in kind.precisions:
                reason = missing or (backend.impossible(precision) if backend else "")
                if reason and not missing and isinstance(backend, EngineBuilder):
                    reason = (
                        backend.cannot_build(precision) or f"engines can be built here; {reason}"
                    )
                emulated = backend.emulated(precision) if backend and not reason else ""
                unproven = plugin.unproven or not _ON_A_GPU.isdisjoint(options.values())
                simulated = backend is not None and backend.simulation(precision)
                note = UNPROVEN if unproven else NOT_COMPARED if simulated else ""
                combinations.append(
                    Usable(name, device, precision, version, reason, emulated, note)
                )
    return combinations


def _devices(kind: type[Any]) -> list[dict[str, str]]:
    """List the values of the option that says where a backend computes."""
    from pydantic import TypeAdapter  # late: the help of every command imports this module

    properties = TypeAdapter(kind).json_schema()["properties"]
    for option in ("device", "provider"):
        if option in properties:
            return [{option: value} for value in properties[option]["enum"]]
    return [{}]
