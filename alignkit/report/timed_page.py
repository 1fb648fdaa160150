"""Pages of what was timed: doubtful figures first, speed and gain, the machine; that of loaders.

A terminal prints the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from alignkit.progress import duration
from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    WARM_UP,
    LargestBatch,
    LoaderMemory,
    LoaderRecord,
    ServedLoad,
    ServingOption,
    TimedLoader,
    TimedStudy,
)
from alignkit.report.page import (
    Code,
    Details,
    Lines,
    Link,
    Page,
    PagePart,
    PageVerdict,
    Paragraph,
    Section,
    Words,
    day,
    machine,
    written_by,
)
from alignkit.report.page_text import page_text
from alignkit.report.run_view import machine_tables, paths_table
from alignkit.report.table import Shown, Table, facts
from alignkit.text.column import Fact, of_part
from alignkit.text.names import Names, quick_words
from alignkit.text.numbers import (
    DASH,
    NBSP,
    count,
    grouped,
    interval,
    megabytes,
    signed,
    significant,
    written,
)

Timing: TypeAlias = ServedLoad | TimedLoader
Timed: TypeAlias = ServingOption | TimedLoader
TimingT = TypeVar("TimingT", ServedLoad, TimedLoader)

CONTENDED = "contended"
_DISTURBED = Estimate(None, None, None, "the machine was busy")
UNKNOWN = "the system does not tell it"


def timed_page(
    record: TimedStudy,
    command: str,
    title: str,
    timed: Sequence[Timing],
    found: Sequence[PagePart],
    sections: Sequence[Section | None],
    footer: Words,
) -> Page:
    """Return a page that says of what was ``timed`` which figures are doubtful, then the others."""
    none = Paragraph(("Nothing was timed; ", Link("each has its reason", "#absent"), "."))
    alerts = [*filter(None, [quick_words(record.quick)]), *_cautions(timed)]
    names = Names(record.paths)
    return Page(
        f"{record.name} · alignkit {command}",
        command,
        record.alignkit,
        PageVerdict(
            (f"{record.name}: {title}",),
            [*(Paragraph(each, "alert") for each in alerts), *(found if timed else [none])],
            f"{day(record.started)} UTC · {duration(record.seconds)}",
            [names.of(each.name) for each in record.paths],
        ),
        [each for each in sections if each],
        footer,
    )


def _cautions(timed: Sequence[Timing]) -> list[str]:
    """Say how many figures are of a busy machine, and may be: before any of them is read."""
    busy, of = sum(bool(each.contended) for each in timed), count(len(timed), "timing")
    lines = []
    if busy:
        lines = [f"Contended, not to be used: {busy} of {of}; the tables mark them, with reasons."]
    reasons = [each.unwatched for each in timed if each.unwatched]
    return lines + [
        f"{reasons.count(reason)} of {of} not known to be of a quiet machine: {reason}."
        for reason in dict.fromkeys(reasons)
    ]


def undisturbed(timed: Sequence[TimingT]) -> list[TimingT]:
    """Return timings without a gain where they or the reference among them were disturbed."""
    lost = any(each.contended for each in timed if each.gain is None)
    return [
        each.model_copy(update={"gain": _DISTURBED})
        if each.gain and (lost or each.contended)
        else each
        for each in timed
    ]


def speed_columns(head: str) -> tuple[Fact[Timing], Fact[Timing]]:
    """Return the speed, marked where the machine was busy, and its gain over the reference's."""
    return (
        Fact(
            head, attrgetter("throughput"), "value", note=UNKNOWN, remark=_machine_words,
            format=lambda speed, each: bounded(speed) + f" ({CONTENDED})" * bool(each.contended),
        ),
        Fact("Gain", lambda each: each.gain or "reference", "share",
             format=lambda gain, _: gain_words(gain)),
    )  # fmt: skip


def _machine_words(each: Timing) -> str:
    if each.contended:
        return f"{CONTENDED}: {each.contended}"
    return f"not known to be quiet: {each.unwatched}" if each.unwatched else ""


def bounded(found: Estimate | float, _: Any = None) -> str:
    """``12.3 [12.1, 12.6]``: three digits that count, or all of a whole number; else a dash."""
    if not isinstance(found, Estimate):
        return written(found, ".0f") if found >= 100 else significant(found)
    if found.value is None:
        return DASH
    if found.low is None or found.high is None:
        return bounded(found.value)
    return f"{bounded(found.value)} [{bounded(found.low)}, {bounded(found.high)}]"


def gain_words(gain: Estimate) -> str:
    """``+18.3 % [+16.1, +20.2]`` of a gain with a value."""
    return f"{signed(100 * (gain.value or 0), 1)}{NBSP}% {interval(gain, 1)}".rstrip()


def absent_section(named: Sequence[tuple[str, Timed]], head: str) -> Section | None:
    """Return what was not timed, or not to the end, with its reason; ``None`` if all was."""
    columns: tuple[Fact[tuple[str, Timed]], ...] = (
        Fact(head, lambda row: row[0]),
        Fact("State", lambda row: Shown(row[1].state, tone=_TONES[row[1].state])),
        Fact("Reason", lambda row: row[1].reason + _traced(row[1])),
    )
    rows = [each for each in named if each[1].state != "measured"]
    table = Table.made("Not timed, or not to the end", columns, rows)
    return Section("absent", "Not timed", [table]) if rows else None


_TONES = {"failed": "fail", "skipped": "muted"}


def _traced(each: Timed) -> str:
    found = isinstance(each, ServingOption) and each.traceback
    return " (traceback in bench.json)" if found else ""


def machine_section(record: TimedStudy, conditions: dict[str, str]) -> Section:
    """Return the command, the conditions, some of them a bench's own, and the machine."""
    load = " ".join(f"{each:.2f}" for each in record.load_before)
    at = record.environment
    extensions = f" ({at.extensions})" if at.extensions else ""
    of_machine = {
        "Processor": f"{at.cpu}{extensions}, {count(at.cores, 'core')}",
        "CPUs held": ", ".join(map(str, record.cpus)) or "not held to CPUs",
        "Limit of the control group": (
            "no limit" if record.cpu_quota is None else f"{record.cpu_quota:g} CPUs"
        ),
        "Load before, over 1, 5 and 15 minutes": load or UNKNOWN,
    }
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    paths = "Paths and stages: options, and the library that ran"
    parts: list[PagePart] = [
        Code(record.command),
        facts("How it was timed", of_machine | conditions),
        Details(paths, [paths_table(record.paths, Names(record.paths))]),
        machine(machine_tables(run, at)),
    ]
    return Section("machine", "The machine", parts, nav="Machine")


_Named: TypeAlias = tuple[str, TimedLoader]


def loader_text(record: LoaderRecord, folder: Path) -> str:
    """Show a bench of loaders that is stored in ``folder`` in a terminal."""
    shown = page_text(loaders_page(record), "loaders", "absent", "machine")
    return f"{shown}\nrecord     {folder / 'loaders.json'}"


def loaders_page(record: LoaderRecord, *, away: bool = False) -> Page:  # noqa: ARG001 - as a bench's
    """Return the page of a bench of loaders."""
    conditions = {
        "Work": "file → normalised batch, each loader in its own process",
        "Images of an epoch": f"{grouped(record.images)}, in the system's cache",
        "Images of a batch": str(record.batch),
        "Workers": f"{record.workers} processes or threads",
        "Epochs": f"{record.epochs} in turn, after {WARM_UP} of warm-up",
    }
    timed = [each for _, each in _timed(record)]
    lead = Paragraph("Images a second, and memory of the process with its workers.", "sentence")
    return timed_page(
        record,
        "bench --loaders",
        "speed and memory of loaders",
        timed,
        [lead],
        [
            _loaders(record) if timed else None,
            absent_section(_named(record), "Loader"),
            machine_section(record, conditions),
        ],
        written_by(record.alignkit, "loaders.json"),
    )


def _named(record: LoaderRecord) -> list[_Named]:
    names, found = Names(record.paths), undisturbed(record.loaders)
    return [(f"{names.short(each.path)} ▸ {each.kind}", each) for each in found]


def _timed(record: LoaderRecord) -> list[_Named]:
    return [each for each in _named(record) if each[1].rounds]


def _loader(row: _Named) -> TimedLoader:
    return row[1]


def _memory(row: _Named) -> LoaderMemory | None:
    return row[1].memory


def _loaders(record: LoaderRecord) -> Section:
    ends = [
        f"{name}: {each.largest.reason}" if each.largest else each.largest_reason
        for name, each in _timed(record)
    ]
    reasons = [f"Largest batch: {each}." for each in dict.fromkeys(filter(None, ends))]
    parts: list[PagePart] = [loader_table(record), *([Lines(reasons, "notes")] if reasons else [])]
    return Section("loaders", "Loaders", parts)


def loader_table(record: LoaderRecord) -> Table:
    """Return images a second, memory and the largest batch of each loader that was timed."""
    timed = _timed(record)
    limit = next((each.largest.limit for _, each in timed if each.largest), None)
    memory: tuple[Fact[LoaderMemory], ...] = (
        Fact("Memory at rest", attrgetter("rest"), "bytes"),
        Fact("Peak", attrgetter("peak"), "bytes"),
        Fact("After epoch 1", attrgetter("first"), "bytes"),
        Fact(f"After epoch {record.epochs}", attrgetter("last"), "bytes"),
    )
    columns: tuple[Fact[_Named], ...] = (
        Fact("Loader", lambda row: row[0]),
        *of_part(speed_columns("Images/s"), _loader),
        *of_part(memory, _memory, UNKNOWN),
        Fact(
            "Largest batch" if limit is None else f"Largest batch in {megabytes(limit)}",
            lambda row: row[1].largest and _fits(row[1].largest), "count", note="not searched",
        ),
    )  # fmt: skip
    return Table.made("Median over epochs", columns, timed)


def _fits(largest: LargestBatch) -> str:
    fits = DASH if largest.fits is None else grouped(largest.fits)
    return f"{fits} or more" if largest.exceeds is None else fits
