"""The costs of a plan in lines of text: time, core-hours, disk and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.progress import duration
from alignkit.torch_settings import usable_cpus

if TYPE_CHECKING:
    from alignkit.plan import Plan
    from alignkit.plan.engine_forecast import EngineForecast
    from alignkit.plan.forecast import Forecast, Memory

NOT_MEASURED = "not measured yet on this machine"


def time_of(planned: Plan, expected: Forecast) -> str:
    """Say how long the work takes by the pace of similar work here, and of which there is none."""
    from alignkit.plan.forecast import KINDS

    costs = {name: each.seconds for name, each in expected.costs.items() if each.seconds}
    parts = ", ".join(f"{KINDS[name]} {duration(each)}" for name, each in costs.items())
    if not expected.unknown:
        if not costs:
            return "none"
        pace = ", at the pace of earlier work here"
        if expected.known.of_others:
            pace = ", at the pace of other images here"
        elif expected.known.scaled_up:
            # the start of smaller work, which is in its time, is not repeated for each image
            pace = " or less, scaled up from smaller work here"
        return f"about {duration(sum(costs.values()))}{pace}: {parts}"
    missing = f"{NOT_MEASURED}: {', '.join(KINDS[each] for each in expected.unknown)}"
    if costs:
        return f"more than {duration(sum(costs.values()))} ({parts}); {missing}"
    # a part of the work is no larger than a first look
    small = planned.experiment.quick or planned.cells
    return missing + ("" if small else "; `alignkit run --quick` measures it in a first look")


def cores_of(expected: Forecast) -> list[str]:
    """Give the time in core-hours, which machines are paid by; empty where it is not known."""
    if not (found := expected.core_seconds):
        return []
    return [f"cores      about {_core_hours(found)}: {usable_cpus()} CPUs for that time"]


def _core_hours(seconds: float) -> str:
    hours = f"{seconds / 3600:.2g}" if seconds < 360_000 else f"{seconds / 3600:,.0f}"
    return f"{hours} core-hours"


def divided_by(found: EngineForecast) -> list[str]:
    """Give the time with an engine, how it is computed, and its start."""
    title = f"with {found.name}".ljust(11)
    if found.shared == 0:
        return [f"{title}as above: no preparation or comparison is left"]
    if found.shared is None:
        return [f"{title}{NOT_MEASURED}: `--probe N` measures it"]
    workers = f"{found.workers} workers with a CPU each"
    parts = f"preparation and comparisons {duration(found.shared)} on {workers}"
    if found.rest:
        parts += f", the rest as here {duration(found.rest)}"
    total = "more than " + duration(found.shared)
    if found.seconds is not None:
        total = f"about {duration(found.seconds)}"
    start = "not measured yet"
    if found.start is not None:
        start = f"{duration(found.start)}, measured here with {found.started} workers"
    lines = [
        f"{title}{total}, computed from the pace of processes here: {parts}",
        f"{'':11}start of {found.name}: {start}, and not in this time",
    ]
    if found.core_seconds:
        lines.append(f"{'':11}about {_core_hours(found.core_seconds)}")
    if found.more_bytes:
        lines.append(f"{'':11}disk: about {_megabytes(found.more_bytes)} more while it prepares")
    return lines


def disk_of(expected: Forecast) -> str:
    size = f"{(expected.known.bytes or 0) / 1e6:.1f} MB"
    if not expected.unknown:
        return f"about {size}" if expected.known.bytes else "none"
    return f"more than {size}" if expected.known.bytes else NOT_MEASURED


def identities_of(needed: Memory) -> list[str]:
    """Say how large the classifier of the training identities is, if there is one."""
    if (found := needed.identities) is None:
        return []
    of = "" if found.shards == 1 else f" on each of {found.shards} processes"
    size = f"{_megabytes(found.weights)}{of}, {_megabytes(found.training)}"
    line = f"classifier {found.count:,} identities of {found.embedding}: {size}"
    return [f"{line} with gradient and moments"]


def memory_of(needed: Memory) -> str:
    parts = (
        f"at most {_megabytes(needed.workers)} in workers, {_megabytes(needed.batch)} per batch, "
        f"{_megabytes(needed.caches)} of prepared pixels (files, mapped)"
    )
    if needed.available is None:
        return f"{parts}; this system does not report the available memory"
    memory = f"{parts}; {_megabytes(needed.available)} available"
    return memory if needed.fits else f"{memory}: every epoch reads the pixels from disk again"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
