"""The page of a bench of loaders: speed, memory, the largest batch; a terminal prints the same."""

from __future__ import annotations

from pathlib import Path

from alignkit.record.bench_facts import WARM_UP, LargestBatch, LoaderRecord, TimedLoader
from alignkit.report.bench.timed import (
    absent_section,
    cautions,
    machine_section,
    timed_headline,
)
from alignkit.report.page import Lines, Page, PagePart, Section, written_by
from alignkit.report.page_text import page_text
from alignkit.report.table import Notes, RowCells, Table, numbers
from alignkit.text.bench_words import bounded, gain_words, machine_words, stated_gain
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, grouped, megabytes

_UNKNOWN = "the system does not tell it, or it was not searched"


def loader_text(record: LoaderRecord, folder: Path) -> str:
    """Show a bench of loaders that is stored in ``folder`` in a terminal."""
    shown = page_text(loaders_page(record), "loaders", "absent", "machine")
    return f"{shown}\nrecord     {folder / 'loaders.json'}"


def loaders_page(record: LoaderRecord, *, away: bool = False) -> Page:  # noqa: ARG001 - as a bench's
    """Return the page of a bench of loaders."""
    titled = _titled(record)
    timed = [(title, each) for title, each in titled if each.rounds]
    conditions = {
        "Work": "file → normalised batch, each loader in its own process",
        "Images of an epoch": f"{grouped(record.images)}, in the system's cache",
        "Images of a batch": str(record.batch),
        "Workers": f"{record.workers} processes or threads",
        "Epochs": f"{record.epochs} in turn, after {WARM_UP} of warm-up",
    }
    found = ["Images a second, and memory of the process with its workers."] if timed else []
    sections = (
        _loaders(record) if timed else None,
        absent_section(titled, "Loader"),
        machine_section(record, Names(record.paths), conditions),
    )
    return Page(
        f"{record.name} · alignkit bench --loaders",
        "bench --loaders",
        record.alignkit,
        timed_headline(
            record,
            f"{record.name}: speed and memory of loaders",
            cautions(timed),
            found,
        ),
        [each for each in sections if each],
        written_by(record.alignkit, "loaders.json"),
    )


def _titled(record: LoaderRecord) -> list[tuple[str, TimedLoader]]:
    """Return every loader by its title, such as ``opencv ▸ DataLoader``."""
    names = Names(record.paths)
    return [(f"{names.short(each.path)} ▸ {each.kind}", each) for each in record.loaders]


def _loaders(record: LoaderRecord) -> Section:
    ends = [
        f"{title}: {each.largest.reason}" if each.largest else each.largest_reason
        for title, each in _titled(record)
        if each.rounds
    ]
    reasons = [f"Largest batch: {each}." for each in dict.fromkeys(filter(None, ends))]
    parts: list[PagePart] = [loader_table(record), *([Lines(reasons, "notes")] if reasons else [])]
    return Section("loaders", "Loaders", parts)


def loader_table(record: LoaderRecord) -> Table:
    """Return images a second, memory and the largest batch of each loader that was timed."""
    timed = [(title, each) for title, each in _titled(record) if each.rounds]
    notes = Notes()
    rows: list[RowCells] = []
    for title, each in timed:
        gain, held = stated_gain(each, timed), each.memory
        sizes = (held.rest, held.peak, held.first, held.last) if held else (None,) * 4
        rows.append(
            (
                title,
                notes.number(each.throughput, bounded, _UNKNOWN),
                notes.worded(gain, gain_words(gain)) if gain else "reference",
                *(notes.number(size, megabytes, _UNKNOWN) for size in sizes),
                notes.number(each.largest, _fits, _UNKNOWN),
                machine_words(each),
            )
        )
    limit = next((each.largest.limit for _, each in timed if each.largest), None)
    batch = "Largest batch" if limit is None else f"Largest batch in {megabytes(limit)}"
    memory = ("Memory at rest", "Peak", "After epoch 1", f"After epoch {record.epochs}")
    heads = ("Loader", *numbers("Images/s", "Gain", *memory, batch), "Machine")
    return Table.of("Median over epochs", heads, rows, notes=notes)


def _fits(largest: LargestBatch) -> str:
    fits = DASH if largest.fits is None else grouped(largest.fits)
    return f"{fits} or more" if largest.exceeds is None else fits
