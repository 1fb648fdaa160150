"""The page of a bench, from its document alone; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from alignkit.record.artifacts import write_inside
from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption, TimedStudy
from alignkit.record.document import document_text, stored_document
from alignkit.record.loader_facts import LoaderRecord
from alignkit.report.bench.bench_tables import (
    absent_table,
    bench_facts,
    conditions_table,
    frontier_table,
    memory_table,
    own_table,
    reasons_table,
    service_table,
    shared_view,
    stage_table,
)
from alignkit.report.bench.frontier_view import frontier_plot
from alignkit.report.bench.headline import cautions, fastest, fastest_words
from alignkit.report.plot import Plot
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, numbers
from alignkit.report.templates import PAGE_ASSETS, asset, html
from alignkit.text.bench_words import (
    BenchWords,
    bench_conditions,
    clients_words,
    loads_by_clients,
    unknown_drift,
)
from alignkit.text.loader_words import loader_conditions, loader_table, titled_loaders
from alignkit.text.names import Names
from alignkit.text.numbers import DASH

LABEL = "published, torchpipe, ResNet50 on an RTX 3080 Ti"
"""Over every published figure."""
CONDITIONS = (
    "Images of 1080×1080, processors limited to 300 %. No numbers of requests and no intervals "
    "were published; the unit of the times, milliseconds, follows from the numbers."
)


class ServiceRow(NamedTuple):
    """One row as it was published; times in milliseconds."""

    decode: str
    clients: int
    rate: str
    """Requests a second."""
    mean: str
    tp50: str
    tp99: str
    gain: str
    """Over the CPU row with as many clients; empty for that row itself."""


PUBLISHED_ROWS = (
    ServiceRow("CPU", 1, "70", "14.27", "14.24", "18.35", ""),
    ServiceRow("GPU", 1, "90", "11.08", "10.76", "14.46", "+28.57 %"),
    ServiceRow("CPU", 5, "276", "18.11", "12.62", "38.87", ""),
    ServiceRow("GPU", 5, "321", "15.59", "9.83", "40.43", "+16.30 %"),
    ServiceRow("CPU", 10, "271", "36.88", "30.11", "65.97", ""),
    ServiceRow("GPU", 10, "319", "31.34", "23.15", "61.60", "+17.71 %"),
)


def published_service() -> Table:
    """Return the published rows; a TP99 that worsens where the throughput improves is marked."""
    notes = Notes()
    base = {each.clients: each for each in PUBLISHED_ROWS if not each.gain}
    rows: list[RowCells] = [
        (
            Shown(each.decode, tone="muted"),
            # grey as no measured figure is
            *(
                Shown(text, tone="muted")
                for text in (str(each.clients), each.rate, each.mean, each.tp50)
            ),
            _tail(each, base[each.clients], notes),
            Shown(each.gain or DASH, tone="muted"),
        )
        for each in PUBLISHED_ROWS
    ]
    figures = numbers("Clients", "Requests/s", "Mean", "TP50", "TP99", "Gain")
    groups = (Group("", 1), Group(LABEL, len(figures)))
    caption = "Published, not measured here; milliseconds of a request"
    return Table.of(caption, ("Decode", *figures), rows, groups, notes=notes)


def _tail(row: ServiceRow, base: ServiceRow, notes: Notes) -> Shown:
    if float(row.tp99) <= float(base.tp99):
        return Shown(row.tp99, tone="muted")
    said = (
        f"Worse than on the {base.decode} ({base.tp99}) with {row.clients} clients, although the "
        "throughput is better; nothing published says whether that is chance."
    )
    return Shown(row.tp99, mark=notes.mark(said), tone="warn")


@dataclass(frozen=True, slots=True)
class FrontierSection:
    """Options of one model: a chart under the most clients, a table for each number of them."""

    row: str
    """Of the model."""
    plot: Plot | None
    tables: tuple[Table, ...]


def bench_view(record: BenchRecord) -> dict[str, Any]:
    """Return everything that the template reads."""
    words = BenchWords(record)
    timed = [each for each in record.options if each.loads]
    rows = list(dict.fromkeys(each.trained_with for each in timed))
    of_rows = [[each for each in timed if each.trained_with == row] for row in rows]
    busy = [
        (f"{words.title(each)} with {clients_words(load.clients)}", load)
        for each in timed
        for load in each.loads
    ]
    return shared_view(record, words.names, "bench") | {
        "title": f"{record.name}: speed and drift of serving options",
        "conditions": bench_conditions(record),
        "cautions": cautions(busy),
        "sentences": [said for options in of_rows for said in fastest_words(options, words)],
        "unknown_drift": unknown_drift(timed),
        "frontiers": [_frontiers(options, words) for options in of_rows],
        "service": [
            (service_table(loads, words), stage_table(loads, words))
            for loads in loads_by_clients(timed).values()
        ],
        "memory": memory_table(timed, words),
        "absent": absent_table(record.options, words),
        "published": published_service(),
        "published_label": LABEL,
        "published_conditions": CONDITIONS,
        "own": own_table([each for options in of_rows for each in _chosen(options)], words)
        if timed
        else None,
        "conditions_table": conditions_table(record, bench_facts(record)),
        "requests": record.requests.path,
    }


def _frontiers(options: Sequence[ServingOption], words: BenchWords) -> FrontierSection:
    """Return the chart and tables of a model; an option keeps its number in all of them."""
    numbers = {str(each.place): number for number, each in enumerate(options, 1)}
    every = loads_by_clients(options)
    tables = [frontier_table(loads, words, numbers) for loads in every.values()]
    plot = frontier_plot(every[max(every)], words, numbers)
    row = words.names.short(options[0].trained_with)
    return FrontierSection(row, plot, tuple(tables))


def _chosen(options: Sequence[ServingOption]) -> list[tuple[ServingOption, ServedLoad]]:
    """Return the reference and the fastest option under each number of clients."""
    chosen = []
    for loads in loads_by_clients(options).values():
        chosen += [each for each in loads if each[0].reference]
        first = fastest(loads)
        chosen += [] if first[0].reference else [first]
    return chosen


def loaders_view(record: LoaderRecord) -> dict[str, Any]:
    """Return everything that the template reads of a bench of loaders."""
    titled = titled_loaders(record)
    shown, notes = loader_table(record), Notes()
    rows: list[RowCells] = [
        (row[0], *(notes.missing(shown.missing) if e == DASH else Shown(e) for e in row[1:]))
        for row in shown.rows
    ]
    heads = ("Loader", *numbers(*shown.heads[1:-1]), shown.heads[-1])
    return shared_view(record, Names(record.paths), "bench --loaders") | {
        "title": f"{record.name}: speed and memory of loaders",
        "conditions": loader_conditions(record),
        "cautions": cautions([(title, each) for title, each in titled if each.rounds]),
        "sentences": ["Images a second, and memory of the process with its workers."] * bool(rows),
        "table": Table.of("Median over epochs", heads, rows, notes=notes) if rows else None,
        "notes": [f"{each}." for each in shown.notes],
        "absent": reasons_table(titled, "Loader"),
        "conditions_table": conditions_table(
            record,
            {
                "Images of an epoch": str(record.images),
                "Images of a batch": str(record.batch),
                "Workers": str(record.workers),
            },
        ),
    }


class _Kind(NamedTuple):
    record: type[TimedStudy]
    view: Callable[[Any], dict[str, Any]]
    template: str
    command: str


_KINDS = {
    "bench.json": _Kind(BenchRecord, bench_view, "bench.html.j2", "bench FILE"),
    "loaders.json": _Kind(LoaderRecord, loaders_view, "loaders.html.j2", "bench FILE --loaders"),
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
    kind, record = _KINDS[path.name], read_bench(folder)
    target = out or path.parent
    for name in PAGE_ASSETS:
        write_inside(target, f"assets/{name}", asset(name))
    if out is not None:
        write_inside(target, path.name, document_text(record))
    report = kind.view(record) | {"document": path.name, "away": out is not None}
    write_inside(target, "index.html", html(kind.template, report=report))
    return target / "index.html"


def read_bench(folder: Path) -> TimedStudy:
    """Read a bench's record, by its folder or its own path; raises as `render_bench` does."""
    path = bench_file(folder) or folder / "bench.json"
    missing = f"no {path.name} in {path.parent}; give the folder of a finished bench"
    again = f"time it again: alignkit {_KINDS[path.name].command}"
    return stored_document(path, _KINDS[path.name].record, missing=missing, again=again)
