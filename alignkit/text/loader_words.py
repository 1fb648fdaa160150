"""A bench of loaders in words: speed, pixels, memory, largest batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alignkit.record.loader_facts import LargestBatch, LoaderMemory, LoaderRecord, TimedLoader
from alignkit.text import TextTable, columns
from alignkit.text.bench_words import (
    bounded,
    gain_words,
    machine_words,
    stated_gain,
)
from alignkit.text.names import Names, quick_words, surrogate_lines
from alignkit.text.numbers import (
    DASH,
    grouped,
    megabytes,
    percent,
    plain,
    significant,
)

TimedLoaders = Sequence[tuple[str, TimedLoader]]
"""Loaders that were timed, each behind its name."""


def loader_text(record: LoaderRecord, folder: Path) -> str:
    """Show a bench of loaders that is stored in ``folder``."""
    names = Names(record.paths)
    lines = [
        *([quick_words(record.quick)] if record.quick else []),
        *surrogate_lines(record.paths),
        loader_conditions(record),
    ]
    for table in loader_tables(record):
        lines += ["", *table.lines()]
    absent = [each for each in record.loaders if each.state != "measured"]
    if absent:
        rows = [(loader_title(each, names), each.state, each.reason) for each in absent]
        lines += ["", columns(rows, indent="  ")]
    return "\n".join([*lines, "", f"record     {folder / 'loaders.json'}"])


def timed_loaders(record: LoaderRecord) -> TimedLoaders:
    """Return the loaders that were timed."""
    names = Names(record.paths)
    return [(loader_title(each, names), each) for each in record.loaders if each.rounds]


def loader_tables(record: LoaderRecord) -> list[TextTable]:
    """Return tables of speed, pixels, memory and the largest batch; none if nothing was timed."""
    timed = timed_loaders(record)
    reference = Names(record.paths).short(record.paths[0].name)
    tables = [_speed(timed), _pixels(timed, reference), _memory(timed, record), _largest(timed)]
    return tables if timed else []


def loader_title(each: TimedLoader, names: Names) -> str:
    """Return ``opencv ▸ DataLoader``."""
    return f"{names.short(each.path)} ▸ {each.kind}"


def loader_conditions(record: LoaderRecord) -> str:
    """Say how the loaders were timed."""
    cpus = ", ".join(map(str, record.cpus))
    held = f"held to CPU {cpus}" if len(record.cpus) == 1 else f"held to CPUs {cpus}"
    parts = [
        "file → normalised batch, each loader in its own process",
        held if record.cpus else "not held to CPUs",
        f"{record.workers} worker processes or threads",
        f"{grouped(record.images)} images in the system's cache, {record.batch} a batch",
        f"{record.epochs} epochs in turn after {record.warm_up} of warm-up",
    ]
    if record.cpu_quota is not None:
        parts.append(f"the control group allows {record.cpu_quota:g} CPUs")
    if record.load_before:
        parts.append(f"load before {record.load_before[0]:.2f}")
    return "; ".join(parts)


def _speed(timed: TimedLoaders) -> TextTable:
    rows = (
        (
            title,
            bounded(each.throughput) if each.throughput else DASH,
            gain_words(gain) if (gain := stated_gain(each, timed)) else "reference",
            DASH if each.cpu_ms is None else significant(each.cpu_ms),
            machine_words(each),
        )
        for title, each in timed
    )
    heads = ("median over epochs", "images/s", "gain", "CPU ms an image", "machine")
    return TextTable(heads, tuple(rows), missing="the system does not tell it")


def _pixels(timed: TimedLoaders, reference: str) -> TextTable:
    notes = ["In grey levels, normalisation undone"]
    if any(each.kind == "DALI" for _, each in timed):
        notes.append(
            "DALI decodes and resizes by itself; it takes a path's size, crop, normalisation and "
            "the nearest filter"
        )
    heads = (f"pixels against {reference}", "identical", "mean |Δ|", "max", "pixels that differ")
    return TextTable(heads, tuple((title, *_drift(each)) for title, each in timed), tuple(notes))


def _drift(each: TimedLoader) -> tuple[str, ...]:
    if (drift := each.drift) is None:
        return DASH, DASH, DASH, f"{DASH} ({each.drift_reason})"
    mean, share = drift.mean_abs, drift.share_pixels
    return (
        f"{grouped(drift.identical)} of {grouped(drift.images)}",
        DASH if mean is None else plain(mean, 3),
        plain(drift.max_abs, 2),
        DASH if share is None else percent(share),
    )


def _memory(timed: TimedLoaders, record: LoaderRecord) -> TextTable:
    heads = ("memory of process and workers", "at rest", "peak", "waiting batches, by plan")
    rows = tuple((title, *_held(each)) for title, each in timed)
    return TextTable((*heads, "after epoch 1", f"after epoch {record.epochs}"), rows)


def _held(each: TimedLoader) -> tuple[str, ...]:
    if (memory := each.memory) is None:
        return (*[DASH] * 4, f"{DASH} ({each.memory_reason})")
    return (
        megabytes(memory.rest),
        f"{megabytes(memory.peak)} ({_above(memory)})",
        megabytes(memory.planned),
        megabytes(memory.first),
        megabytes(memory.last),
    )


def _above(memory: LoaderMemory) -> str:
    above = memory.peak - memory.rest
    return f"+{megabytes(above)}" if above >= 0 else DASH


def _largest(timed: TimedLoaders) -> TextTable:
    limits = [each.largest.limit for _, each in timed if each.largest]
    if not limits:
        reasons = dict.fromkeys(each.largest_reason for _, each in timed)
        return TextTable((), (), tuple(f"Largest batch: {each}" for each in reasons))
    rows = (
        (title, *(_found(each.largest) if each.largest else (DASH, f"({each.largest_reason})")))
        for title, each in timed
    )
    heads = (f"largest batch in {megabytes(limits[0])}", "fits", "does not fit")
    return TextTable(heads, tuple(rows))


def _found(largest: LargestBatch) -> tuple[str, str]:
    fits = DASH if largest.fits is None else grouped(largest.fits)
    if largest.exceeds is None:
        return f"{fits} or more", f"({largest.reason})"
    return fits, f"{grouped(largest.exceeds)} ({largest.reason})"
