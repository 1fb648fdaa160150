"""What the page of `alignkit bench` shows: the frontier, the service table, published rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption
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
from alignkit.report.bench.frontier_view import FrontierPlot, frontier_plot
from alignkit.report.bench.headline import cautions, fastest, fastest_words
from alignkit.report.bench.published_service import CONDITIONS, LABEL, published_service
from alignkit.report.table import Notes, RowCells, Shown, Table, numbers
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


@dataclass(frozen=True, slots=True)
class FrontierSection:
    """Options of one model: a chart under the most clients, a table for each number of them."""

    row: str
    """Of the model."""
    plot: FrontierPlot | None
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
        "frontiers": [_frontiers(options, words, at) for at, options in enumerate(of_rows)],
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


def _frontiers(options: Sequence[ServingOption], words: BenchWords, at: int) -> FrontierSection:
    """Return the chart and tables of a model; an option keeps its number in all of them."""
    numbers = {str(each.place): number for number, each in enumerate(options, 1)}
    every = loads_by_clients(options)
    tables = [frontier_table(loads, words, numbers) for loads in every.values()]
    plot = frontier_plot(every[max(every)], words, numbers, id=f"frontier-{at}")
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
