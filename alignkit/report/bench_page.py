"""The page of a bench: the fastest options, the frontier of speed and drift, the service table.

A terminal prints the same verdict and tables.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

from alignkit.record.bench_facts import BenchRecord, LoaderRecord, TimedStudy
from alignkit.record.document import document_text, stored_document, write_inside
from alignkit.report.bench_tables import BenchTables, frontier_plot
from alignkit.report.page import (
    Link,
    Page,
    PagePart,
    Paragraph,
    Section,
    Strong,
    write_page,
    written_by,
)
from alignkit.report.page_text import page_text
from alignkit.report.plot import Plot
from alignkit.report.table import Group, Shown, Table, numbers
from alignkit.report.timed_page import absent_section, loaders_page, machine_section, timed_page
from alignkit.text.numbers import DASH, grouped, listed

_FRONTIER = (
    "Options of one model with equally many clients. An option is dominated if another one is no "
    "worse in either value and is shown to be better in the one named; not separable if this "
    "sample does not show it. The price is the throughput, in percent of that of the frontier's "
    "option with the next less churn, that one point of churn buys."
)
_FRONTIER_KEY = (
    "The line is the greatest throughput for each churn; a dashed one leads from an option that is "
    "not separable to the one that is better by its values. Lines through a dot are its intervals "
    "of 95\N{NO-BREAK SPACE}% or more; churn of 0 of n images reaches to 3.7\N{NO-BREAK SPACE}/"
    "\N{NO-BREAK SPACE}n. Numbers lead to the tables."
)
_SERVICE = (
    "Gain: throughput over that of the reference in the same round. Resize: everything from the "
    "orientation to the tensor; wait: until the model's one instance is free. Intervals are of "
    "95\N{NO-BREAK SPACE}% or more. A closed loop hides how long users wait while a server stalls."
)


def bench_text(record: BenchRecord, folder: Path) -> str:
    """Show a bench that is stored in ``folder`` in a terminal."""
    shown = page_text(bench_page(record), "frontier", "service", "absent", "machine")
    requests = f"requests   {folder / record.requests.path}"
    return f"{shown}\n{requests}\nrecord     {folder / 'bench.json'}"


def bench_page(record: BenchRecord, *, away: bool = False) -> Page:
    """Return the page of a bench; one that is ``away`` has no file of its requests beside it."""
    tables = BenchTables(record)
    every = [each.load for each in chain(*tables.groups)]
    # each reason once; a skipped option has one itself
    unknown = dict.fromkeys(e.drift_reason for e in record.options if e.loads and e.drift_reason)
    requests = Link(record.requests.path, record.requests.path)
    return timed_page(
        record,
        "bench",
        "speed and drift of serving options",
        every,
        [tables.fastest(), *(Paragraph(f"Drift: {each}", "remark") for each in unknown)],
        [
            _frontier_section(tables) if every else None,
            _service_section(tables) if every else None,
            _published(),
            absent_section([(tables.title(each), each) for each in record.options], "Option"),
            machine_section(record, _loop(record)),
        ],
        written_by(
            record.alignkit, "bench.json", *(() if away else ("; every timed request: ", requests))
        ),
    )


def _loop(record: BenchRecord) -> dict[str, str]:
    """Return the conditions of a closed loop."""
    rounds = {len(load.rounds) for each in record.options for load in each.loads}
    threads = {each.effective.get("threads", "") for each in record.options} - {""}
    return {
        "Loop": "closed: each client waits for its answer before it sends the next request",
        "Processes": "one for each option, started afresh",
        "Threads of a session": listed(sorted(threads)),
        "Images": f"{grouped(record.images)}, taken in turn",
        "Images of a request": grouped(record.batch),
        "Rounds": listed([*map(str, sorted(rounds))]),
        "Drift from": record.drift_from or "no run of this plan",
    }


def _frontier_section(tables: BenchTables) -> Section:
    """Return for each model a chart under the most clients, and a table for each number of them."""
    shown: list[PagePart] = []
    for groups in tables.models:
        heading = tables.heading(groups[-1])
        if plot := frontier_plot(groups[-1], heading):
            shown += [plot, *map(tables.frontier, groups)]
        else:
            none = f"No frontier, {heading}: no two options have both speed and drift."
            shown.append(Paragraph(none))
    legend = [Paragraph(_FRONTIER, "lead"), Paragraph(_FRONTIER_KEY, "legend")]
    drawn_any = any(isinstance(each, Plot) for each in shown)
    parts = [*legend * drawn_any, *shown]
    return Section("frontier", "Which options are worth their drift", parts, nav="Frontier")


def _service_section(tables: BenchTables) -> Section:
    found = map(tables.service, tables.clients)
    return Section(
        "service", "Service table", [Paragraph(_SERVICE, "lead"), *found, tables.stages()]
    )


LABEL = "published, torchpipe, ResNet50 on an RTX 3080 Ti"
"""Over every published figure."""
_CONDITIONS = (
    "Images of 1080×1080, processors limited to 300 %. No numbers of requests and no intervals "
    "were published; the unit of the times, milliseconds, follows from the numbers. With 5 clients "
    "the TP99 of the GPU is worse than that of the CPU (40.43 and 38.87), although its throughput "
    "is better; nothing published says whether that is chance."
)


_FIGURES = ("Clients", "Requests/s", "Mean", "TP50", "TP99", "Gain")
PUBLISHED_ROWS = (
    ("CPU", "1", "70", "14.27", "14.24", "18.35", ""),
    ("GPU", "1", "90", "11.08", "10.76", "14.46", "+28.57 %"),
    ("CPU", "5", "276", "18.11", "12.62", "38.87", ""),
    ("GPU", "5", "321", "15.59", "9.83", "40.43", "+16.30 %"),
    ("CPU", "10", "271", "36.88", "30.11", "65.97", ""),
    ("GPU", "10", "319", "31.34", "23.15", "61.60", "+17.71 %"),
)
"""As published; a gain is over the CPU's row with as many clients."""


def _published() -> Section:
    # grey as no measured figure is
    rows = [[Shown(each or DASH, tone="muted") for each in row] for row in PUBLISHED_ROWS]
    groups = (Group("", 1), Group(LABEL, len(_FIGURES)))
    caption = "Published, not measured here; milliseconds of a request"
    table = Table.of(caption, ("Decode", *numbers(*_FIGURES)), rows, groups)
    lead = Paragraph((Strong(LABEL), f". {_CONDITIONS}"), "lead")
    return Section("published", "Published beside it", [lead, table], nav="Published")


_KINDS: dict[str, tuple[type[TimedStudy], Callable[..., Page], str]] = {
    "bench.json": (BenchRecord, bench_page, "bench FILE"),
    "loaders.json": (LoaderRecord, loaders_page, "bench FILE --loaders"),
}


def bench_file(folder: Path) -> Path | None:
    """Return the document of a bench, by its folder or its own path; ``None`` if it is no bench."""
    if folder.name in _KINDS:
        return folder
    return next((folder / each for each in _KINDS if (folder / each).exists()), None)


def render_bench(folder: Path, out: Path | None = None) -> Path:
    """Write ``index.html`` and ``assets/`` beside the document of a bench; return the page.

    With ``out`` they are written there, with a copy of the document. Raises `RecordError` if the
    document is missing or newer than this alignkit, `DamagedRecord` if it is not whole.
    """
    path = bench_file(folder) or folder / "bench.json"
    record = read_bench(path)
    if out is not None:
        write_inside(out, path.name, document_text(record))
    _, page, _ = _KINDS[path.name]
    return write_page(page(record, away=out is not None), out or path.parent)


def read_bench(folder: Path) -> TimedStudy:
    """Read a bench's record, by its folder or its own path; raises as `render_bench` does."""
    path = bench_file(folder) or folder / "bench.json"
    kind, _, command = _KINDS[path.name]
    missing = f"no {path.name} in {path.parent}; give the folder of a finished bench"
    return stored_document(path, kind, missing=missing, again=f"time it again: alignkit {command}")
