"""A bench of loaders as text: speed, pixels, memory, largest batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alignkit.record.loader_facts import LargestBatch, LoaderMemory, LoaderRecord, TimedLoader
from alignkit.text import columns
from alignkit.text.bench_words import bounded, gain_words, growth_cells, growth_words, machine_words
from alignkit.text.names import Names, quick_words, surrogate_lines
from alignkit.text.numbers import (
    DASH,
    grouped,
    megabytes,
    percent,
    plain,
    significant,
)


def loader_text(record: LoaderRecord, folder: Path) -> str:
    """Show a bench of loaders that is stored in ``folder``."""
    names = Names(record.paths)
    timed = [(_title(each, names), each) for each in record.loaders if each.rounds]
    lines = [
        *([quick_words(record.quick)] if record.quick else []),
        *surrogate_lines(record.paths),
        _conditions(record),
    ]
    if timed:
        lines += ["", *_speed(timed), "", *_pixels(timed, names.short(record.paths[0].name))]
        lines += ["", *_memory(timed, record), "", *_largest(timed)]
    lines += [
        f"{each.state}  {_title(each, names)}: {each.reason}"
        for each in record.loaders
        if each.state != "measured"
    ]
    return "\n".join([*lines, f"record     {folder / 'loaders.json'}"])


def _title(each: TimedLoader, names: Names) -> str:
    return f"{names.short(each.path)} ▸ {each.kind}"


def _conditions(record: LoaderRecord) -> str:
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


_Timed = Sequence[tuple[str, TimedLoader]]


def _speed(timed: _Timed) -> list[str]:
    rows = [("", "images/s", "gain", "CPU ms an image", "machine")]
    for title, each in timed:
        rows.append(
            (
                title,
                bounded(each.throughput) if each.throughput else DASH,
                gain_words(each.gain) if each.gain else "reference",
                DASH if each.cpu_ms is None else significant(each.cpu_ms),
                machine_words(each),
            )
        )
    return [columns(rows, indent="  ")]


def _pixels(timed: _Timed, reference: str) -> list[str]:
    rows = [(f"pixels against {reference}", "identical", "mean |Δ|", "max", "pixels that differ")]
    for title, each in timed:
        drift = each.drift
        if drift is None:
            rows.append((title, DASH, DASH, DASH, f"{DASH} ({each.drift_reason})"))
            continue
        mean, share = drift.mean_abs, drift.share_pixels
        rows.append(
            (
                title,
                f"{grouped(drift.identical)} of {grouped(drift.images)}",
                DASH if mean is None else plain(mean, 3),
                plain(drift.max_abs, 2),
                DASH if share is None else percent(share),
            )
        )
    notes = ["  in grey levels, normalisation undone"]
    if any(each.kind == "DALI" for _, each in timed):
        notes.append(
            "  DALI decodes and resizes by itself; it takes a path's size, crop, normalisation and "
            "the nearest filter"
        )
    return [columns(rows, indent="  "), *notes]


def _memory(timed: _Timed, record: LoaderRecord) -> list[str]:
    head = ("memory of process and workers", "at rest", "peak", "waiting batches, by plan")
    rows: list[tuple[str, ...]] = [(*head, "growth an epoch", "leak")]
    reasons = []
    for title, each in timed:
        memory = each.memory
        if memory is None:
            rows.append((title, *[DASH] * 4, f"{DASH} ({each.memory_reason})"))
            continue
        slope, leak = growth_cells(memory.growth)
        rows.append(
            (
                title,
                megabytes(memory.rest),
                f"{megabytes(memory.peak)} ({_above(memory)})",
                megabytes(memory.planned),
                slope,
                f"{leak}: {memory.growth.reason}",
            )
        )
    if record.control is not None:
        control = growth_words(record.control.slope)
        reasons.append(f"  a process that reads the files and keeps nothing grows by {control}")
    return [columns(rows, indent="  "), *reasons]


def _above(memory: LoaderMemory) -> str:
    above = memory.peak - memory.rest
    return f"+{megabytes(above)}" if above >= 0 else DASH


def _largest(timed: _Timed) -> list[str]:
    limits = [each.largest.limit for _, each in timed if each.largest]
    if not limits:
        reasons = dict.fromkeys(each.largest_reason for _, each in timed)
        return [f"  largest batch: {reason}" for reason in reasons]
    rows = [(f"largest batch in {megabytes(limits[0])}", "fits", "does not fit")]
    rows += [
        (title, *(_found(each.largest) if each.largest else (DASH, f"({each.largest_reason})")))
        for title, each in timed
    ]
    return [columns(rows, indent="  ")]


def _found(largest: LargestBatch) -> tuple[str, str]:
    fits = DASH if largest.fits is None else grouped(largest.fits)
    if largest.exceeds is None:
        return f"{fits} or more", f"({largest.reason})"
    return fits, f"{grouped(largest.exceeds)} ({largest.reason})"
