"""Forecast of a plan whose lots the workers of an engine share.

It follows from the pace of this machine's processes, each on one CPU, and from the number of lots:
workers are taken to be as fast as these. Only the engine's start was measured with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.lots import lot_count
from alignkit.lots.engines import EngineOption
from alignkit.plan.forecast import DIVIDED, Forecast
from alignkit.torch_settings import usable_cpus
from alignkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class EngineForecast:
    """The cost of a forecast's work with an engine, without the engine's start."""

    name: str
    workers: int
    shared: float | None
    """Seconds of the work that is divided; ``None`` if its pace is not known."""
    rest: float | None
    """Seconds of the other work, as on this machine; ``None`` if its pace is not known."""
    core_seconds: float | None
    """Of the workers while they have lots, and of this machine's CPUs for the rest."""
    more_bytes: int | None
    """Disk that the lots of the largest preparation take until it is complete."""
    start: float | None
    """Seconds that the engine took to start here, measured; ``None`` if it never did."""
    started: int | None
    """Workers that it started with then, the most of all times."""

    @property
    def seconds(self) -> float | None:
        """All of it; ``None`` if some is not known."""
        return None if self.shared is None or self.rest is None else self.shared + self.rest


def engine_forecast(
    expected: Forecast, option: EngineOption, workspace: Workspace
) -> EngineForecast:
    """Divide the work of a forecast among the workers of an engine, each on a CPU of its own."""
    workers = option.workers or usable_cpus()
    cpus, shared, busy = usable_cpus(), 0.0, 0.0
    for each in expected.shareable:
        seconds, lots = (each.cost.seconds or 0.0) * cpus, lot_count(each.images)
        # the last lots leave some workers without one
        shared += seconds * -(-lots // workers) / lots
        busy += seconds
    others = (each for kind, each in expected.costs.items() if kind not in DIVIDED)
    rest = sum(each.seconds or 0.0 for each in others)
    unknown = {*expected.unknown}
    prepared = [each.cost.bytes or 0 for each in expected.shareable if each.kind == "prepared"]
    begun = [
        each.engine
        for kind in DIVIDED
        for each in workspace.finished(kind)
        if each.engine and each.engine["name"] == option.name and "start" in each.engine
    ]
    last = max(begun, key=lambda each: each["workers"], default={})
    return EngineForecast(
        option.name,
        workers,
        shared=None if unknown.intersection(DIVIDED) else shared,
        rest=None if unknown.difference(DIVIDED) else rest,
        core_seconds=None if unknown else busy + rest * cpus,
        more_bytes=None if "prepared" in unknown else max(prepared, default=0),
        start=last.get("start"),
        started=last.get("workers"),
    )
