"""A bench of loaders in words: one table of speed, memory and the largest batch."""

from __future__ import annotations

from pathlib import Path

from alignkit.record.loader_facts import WARM_UP, LargestBatch, LoaderRecord, TimedLoader
from alignkit.text import TextTable, columns
from alignkit.text.bench_words import bounded, gain_words, machine_words, stated_gain
from alignkit.text.names import Names, quick_words, surrogate_lines
from alignkit.text.numbers import DASH, grouped, megabytes


def loader_text(record: LoaderRecord, folder: Path) -> str:
    """Show a bench of loaders that is stored in ``folder``."""
    lines = [
        *([quick_words(record.quick)] if record.quick else []),
        *surrogate_lines(record.paths),
        loader_conditions(record),
    ]
    if (table := loader_table(record)).rows:
        lines += ["", *table.lines()]
    if absent := [(name, e.state, e.reason) for name, e in titled_loaders(record) if e.reason]:
        lines += ["", columns(absent, indent="  ")]
    return "\n".join([*lines, "", f"record     {folder / 'loaders.json'}"])


def titled_loaders(record: LoaderRecord) -> list[tuple[str, TimedLoader]]:
    """Return every loader by its title, such as ``opencv ▸ DataLoader``."""
    names = Names(record.paths)
    return [(f"{names.short(each.path)} ▸ {each.kind}", each) for each in record.loaders]


def loader_conditions(record: LoaderRecord) -> str:
    """Say how the loaders were timed."""
    held = f"held to CPUs {', '.join(map(str, record.cpus))}"
    return (
        "file → normalised batch, each loader in its own process; "
        f"{held if record.cpus else 'not held to CPUs'}; "
        f"{record.workers} worker processes or threads; "
        f"{grouped(record.images)} images in the system's cache, {record.batch} a batch; "
        f"{record.epochs} epochs in turn after {WARM_UP} of warm-up"
    )


def loader_table(record: LoaderRecord) -> TextTable:
    """Return images a second, memory and the largest batch of each loader that was timed."""
    timed = [(title, each) for title, each in titled_loaders(record) if each.rounds]
    rows, reasons = [], []
    for title, each in timed:
        gain, held, largest = stated_gain(each, timed), each.memory, each.largest
        sizes = (held.rest, held.peak, held.first, held.last) if held else ()
        rows.append(
            (
                title,
                bounded(each.throughput) if each.throughput else DASH,
                gain_words(gain) if gain else "reference",
                *(map(megabytes, sizes) if sizes else [DASH] * 4),
                _fits(largest) if largest else DASH,
                machine_words(each),
            )
        )
        ended = f"{title}: {largest.reason}" if largest else each.largest_reason
        reasons.append(f"Largest batch: {ended}" if ended else "")
    limit = next((each.largest.limit for _, each in timed if each.largest), None)
    batch = "largest batch" if limit is None else f"largest batch in {megabytes(limit)}"
    memory = ("memory at rest", "peak", "after epoch 1", f"after epoch {record.epochs}")
    heads = ("", "images/s", "gain", *memory, batch, "machine")
    missing = "the system does not tell it, or it was not searched"
    notes = tuple(dict.fromkeys(filter(None, reasons)))
    return TextTable(heads, tuple(rows), notes, missing=missing)


def _fits(largest: LargestBatch) -> str:
    fits = DASH if largest.fits is None else grouped(largest.fits)
    return f"{fits} or more" if largest.exceeds is None else fits
