"""The page of `alignkit bench`, from ``bench.json`` alone; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.progress import duration
from alignkit.record.artifacts import write_inside
from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption
from alignkit.record.document import document_text, stored_document
from alignkit.report.bench.bench_tables import (
    absent_table,
    bench_facts_table,
    frontier_table,
    own_table,
    service_table,
    stage_table,
)
from alignkit.report.bench.frontier_view import FrontierPlot, frontier_plot
from alignkit.report.bench.headline import cautions, fastest, fastest_words
from alignkit.report.bench.published_service import CONDITIONS, LABEL, published_service
from alignkit.report.bench.stage_bars import StagePlot, stage_plot
from alignkit.report.run_view import machine_tables, paths_table
from alignkit.report.table import Table
from alignkit.report.templates import PAGE_ASSETS, asset, html
from alignkit.text.bench_words import (
    BenchWords,
    bench_conditions,
    loads_by_clients,
    unknown_drift,
)
from alignkit.text.names import quick_words

BENCH_FILE = "bench.json"


@dataclass(frozen=True, slots=True)
class FrontierSection:
    """Options of one model: a chart and a table for each number of clients."""

    row: str
    """Of the model."""
    plots: tuple[FrontierPlot, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class ServiceSection:
    """All options under one number of clients."""

    table: Table
    bars: StagePlot
    stages: Table


def render_bench(folder: Path, out: Path | None = None) -> Path:
    """Write ``index.html`` and ``assets/`` beside a folder's ``bench.json``; return the page.

    With ``out`` they are written there, with a copy of ``bench.json``. Raises `RecordError` if the
    record is missing or newer than this alignkit, `DamagedRecord` if it is not whole.
    """
    record = read_bench(folder)
    target = out or (folder.parent if folder.is_file() else folder)
    for name in PAGE_ASSETS:
        write_inside(target, f"assets/{name}", asset(name))
    if out is not None:
        write_inside(target, BENCH_FILE, document_text(record))
    page = html("bench.html.j2", report=_page(record), away=out is not None)
    write_inside(target, "index.html", page)
    return target / "index.html"


def read_bench(folder: Path) -> BenchRecord:
    """Read a bench's record, by its folder or its own path; raises as `render_bench` does."""
    path = folder if folder.is_file() else folder / BENCH_FILE
    missing = f"no {BENCH_FILE} in {folder}; give the folder of a finished bench"
    again = "time it again: alignkit bench FILE"
    return stored_document(path, BenchRecord, missing=missing, again=again)


def _page(record: BenchRecord) -> dict[str, Any]:
    """Return everything that the template reads."""
    words = BenchWords(record)
    timed = [each for each in record.options if each.loads]
    rows = list(dict.fromkeys(each.trained_with for each in timed))
    of_rows = [[each for each in timed if each.trained_with == row] for row in rows]
    served = list(dict.fromkeys(each.evaluated_with for each in record.options))
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    return {
        "alignkit": record.alignkit,
        "name": record.name,
        "title": f"{record.name}: speed and drift of serving options",
        "started": record.started.replace("T", " ").split(".")[0],
        "duration": duration(record.seconds),
        "conditions": bench_conditions(record),
        "quick": quick_words(record.quick),
        "cautions": cautions(record, words),
        "fastest": [sentence for options in of_rows for sentence in fastest_words(options, words)],
        "unknown_drift": unknown_drift(timed),
        "paths": [words.names.of(each) for each in served],
        "frontiers": [_frontiers(options, words, at) for at, options in enumerate(of_rows)],
        "service": [
            ServiceSection(
                service_table(loads, words),
                stage_plot(loads, words, id=f"stages-{clients}"),
                stage_table(loads, words),
            )
            for clients, loads in loads_by_clients(timed).items()
        ],
        "absent": absent_table(record.options, words),
        "published": published_service(),
        "published_label": LABEL,
        "published_conditions": CONDITIONS,
        "own": own_table([each for options in of_rows for each in _chosen(options)], words)
        if timed
        else None,
        "conditions_table": bench_facts_table(record),
        "paths_table": paths_table(record.paths, words.names),
        "environment": machine_tables(run, record.environment),
        "command": record.command,
        "requests": record.requests.path,
    }


def _frontiers(options: Sequence[ServingOption], words: BenchWords, at: int) -> FrontierSection:
    """Return charts and tables of a model; an option keeps its number in all of them."""
    numbers = {str(each.place): number for number, each in enumerate(options, 1)}
    drawn, tables = [], []
    for clients, loads in loads_by_clients(options).items():
        drawn.append(frontier_plot(loads, words, numbers, id=f"frontier-{at}-{clients}"))
        tables.append(frontier_table(loads, words, numbers))
    row = words.names.short(options[0].trained_with)
    return FrontierSection(row, tuple(filter(None, drawn)), tuple(tables))


def _chosen(options: Sequence[ServingOption]) -> list[tuple[ServingOption, ServedLoad]]:
    """Return the reference and the fastest option under each number of clients."""
    chosen = []
    for loads in loads_by_clients(options).values():
        chosen += [each for each in loads if each[0].reference]
        first = fastest(loads)
        chosen += [] if first[0].reference else [first]
    return chosen
