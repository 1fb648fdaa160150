"""What the page of `alignkit bench` shows: the frontier, the service table, published rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption
from alignkit.report.bench.bench_tables import (
    absent_table,
    bench_facts,
    conditions_table,
    frontier_table,
    memory_table,
    own_table,
    service_table,
    shared_view,
    stage_table,
)
from alignkit.report.bench.frontier_view import FrontierPlot, frontier_plot
from alignkit.report.bench.headline import cautions, fastest, fastest_words
from alignkit.report.bench.published_service import CONDITIONS, LABEL, published_service
from alignkit.report.bench.stage_bars import Amounts, StagePlot, stage_plot
from alignkit.report.table import Table
from alignkit.serve.serving import STAGES_SERVED
from alignkit.text.bench_words import (
    BenchWords,
    TimedLoads,
    bench_conditions,
    clients_words,
    loads_by_clients,
    three_digits,
    unknown_drift,
)


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
            ServiceSection(
                service_table(loads, words),
                _bars(loads, words, clients),
                stage_table(loads, words),
            )
            for clients, loads in loads_by_clients(timed).items()
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


def _bars(loads: TimedLoads, words: BenchWords, clients: int) -> StagePlot:
    rows = [
        Amounts(words.title(each), load.stages_ms, three_digits(load.mean_ms))
        for each, load in loads
    ]
    title = f"Mean time of a request by stage, {clients_words(clients)}"
    return stage_plot(rows, STAGES_SERVED, title, id=f"stages-{clients}")


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
