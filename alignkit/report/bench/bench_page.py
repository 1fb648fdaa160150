"""The page of a bench: the frontier of speed and drift, the service table, published figures.

A terminal prints the same verdict and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from alignkit.record import Estimate
from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption
from alignkit.report.bench.frontier_view import frontier_plot
from alignkit.report.bench.headline import fastest_words
from alignkit.report.bench.timed import (
    absent_section,
    cautions,
    machine_section,
    timed_headline,
)
from alignkit.report.page import (
    Link,
    Page,
    PagePart,
    Paragraph,
    Section,
    Strong,
    written_by,
)
from alignkit.report.page_text import page_text
from alignkit.report.plot import Plot
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, numbers
from alignkit.serve.serving import STAGES_SERVED
from alignkit.text.bench_words import (
    CONTENDED,
    BenchWords,
    TimedLoads,
    bounded,
    churn_words,
    clients_words,
    gain_words,
    listed_rounds,
    loads_by_clients,
    machine_words,
    price_words,
    standing_words,
    stated_gain,
    three_digits,
    unknown_drift,
)
from alignkit.text.numbers import DASH, grouped, listed, megabytes

LABEL = "published, torchpipe, ResNet50 on an RTX 3080 Ti"
"""Over every published figure."""
_CONDITIONS = (
    "Images of 1080×1080, processors limited to 300 %. No numbers of requests and no intervals "
    "were published; the unit of the times, milliseconds, follows from the numbers."
)
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
_REFERENCE = Shown("reference", tone="muted")


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


def bench_text(record: BenchRecord, folder: Path) -> str:
    """Show a bench that is stored in ``folder`` in a terminal."""
    shown = page_text(bench_page(record), "frontier", "service", "absent", "machine")
    requests = f"requests   {folder / record.requests.path}"
    return f"{shown}\n{requests}\nrecord     {folder / 'bench.json'}"


def bench_page(record: BenchRecord, *, away: bool = False) -> Page:
    """Return the page of a bench; one that is ``away`` has no file of its requests beside it."""
    words = BenchWords(record)
    timed = [each for each in record.options if each.loads]
    rows = list(dict.fromkeys(each.trained_with for each in timed))
    models = [[each for each in timed if each.trained_with == row] for row in rows]
    loads = [
        (f"{words.title(each)} with {clients_words(load.clients)}", load)
        for each in timed
        for load in each.loads
    ]
    findings = [said for options in models for said in fastest_words(options, words)]
    requests = Link(record.requests.path, record.requests.path)
    sections = (
        _frontier_section(models, words) if timed else None,
        _service_section(timed, words) if timed else None,
        absent_section([(words.title(each), each) for each in record.options], "Option"),
        _published(),
        machine_section(record, words.names, _loop(record)),
    )
    return Page(
        f"{record.name} · alignkit bench",
        "bench",
        record.alignkit,
        timed_headline(
            record,
            f"{record.name}: speed and drift of serving options",
            cautions(loads),
            findings,
            [f"Drift: {each}" for each in unknown_drift(timed)],
        ),
        [each for each in sections if each],
        written_by(
            record.alignkit, "bench.json", *(() if away else ("; every timed request: ", requests))
        ),
    )


def _loop(record: BenchRecord) -> dict[str, str]:
    """Return the conditions of a closed loop."""
    rounds = sorted({len(load.rounds) for each in record.options for load in each.loads})
    threads = sorted({each.effective.get("threads", "") for each in record.options} - {""})
    return {
        "Loop": "closed: each client waits for its answer before it sends the next request",
        "Processes": "one for each option, started afresh",
        "Threads of a session": listed(threads),
        "Images": f"{grouped(record.images)}, taken in turn",
        "Images of a request": grouped(record.batch),
        "Rounds": listed([str(each) for each in rounds]),
        "Drift from": record.drift_from or "no run of this plan",
    }


def _frontier_section(models: Sequence[Sequence[ServingOption]], words: BenchWords) -> Section:
    """Return for each model a chart under the most clients, and a table for each number of them."""
    shown: list[PagePart] = []
    for options in models:
        # an option keeps its number in the chart and all tables
        numbered = {str(each.place): number for number, each in enumerate(options, 1)}
        every = loads_by_clients(options)
        plot = frontier_plot(every[max(every)], words, numbered)
        if plot is None:
            row = f" of {words.names.short(options[0].trained_with)}" * (len(models) > 1)
            shown.append(Paragraph(f"No frontier{row}: no two options have both speed and drift."))
            continue
        if not any(isinstance(each, Plot) for each in shown):
            shown[:0] = [Paragraph(_FRONTIER, "lead"), Paragraph(_FRONTIER_KEY, "legend")]
        shown.append(plot)
        shown += [frontier_table(loads, words, numbered) for loads in every.values()]
    return Section("frontier", "Which options are worth their drift", shown, nav="Frontier")


def frontier_table(loads: TimedLoads, words: BenchWords, placed: Mapping[str, int]) -> Table:
    """Return what the chart of the frontier shows; ``placed`` has the number of each place."""
    notes = Notes()
    metric = next((each.drift.metric for each, _ in loads if each.drift), words.task.headline)
    rows: list[RowCells] = [
        (
            Shown(
                f"{placed[str(option.place)]} {words.served(option)}",
                tag="reference" if option.reference else "",
            ),
            _standing(option, load, loads, placed, notes),
            _drifted(option, notes, churn_words(option)),
            _speed(load, notes),
            _price(load, loads, placed, notes),
            _drifted(option, notes, words.change(option)),
        )
        for option, load in loads
    ]
    price = "Price: throughput for a point of churn"
    drift = numbers("Churn", "Requests/s", price, words.task.header(metric))
    columns = ("Option", "Standing", *drift)
    caption = f"Speed and drift, {words.model_under(*loads[0])}"
    return Table.of(caption, columns, rows, notes=notes)


def _service_section(timed: Sequence[ServingOption], words: BenchWords) -> Section:
    tables = [service_table(loads, words) for loads in loads_by_clients(timed).values()]
    parts: list[PagePart] = [Paragraph(_SERVICE, "lead"), *tables, stage_table(timed, words)]
    return Section("service", "Service table", parts)


def service_table(loads: TimedLoads, words: BenchWords) -> Table:
    """Return throughput and latency of options under equally many clients."""
    notes = Notes()
    rows: list[RowCells] = [
        (
            words.title(option),
            _speed(load, notes),
            _gain(load, loads, notes),
            three_digits(load.mean_ms),
            *(_bounded(each, notes) for each in (load.tp50_ms, load.tp90_ms, load.tp99_ms)),
        )
        for option, load in loads
    ]
    columns = ("Option", *numbers("Requests/s", "Gain", "Mean", "TP50", "TP90", "TP99"))
    clients, rounds = clients_words(loads[0][1].clients), listed_rounds(loads)
    caption = f"Service, {clients}: {rounds}; milliseconds of a request"
    return Table.of(caption, columns, rows, notes=notes)


def stage_table(timed: Sequence[ServingOption], words: BenchWords) -> Table:
    """Return the mean time of each stage, CPU time and memory."""
    notes = Notes()
    rows: list[RowCells] = [
        (
            words.title(option),
            str(load.clients),
            *(
                notes.number(
                    load.stages_ms.get(stage), three_digits, "the option's process does not see it"
                )
                for stage in STAGES_SERVED
            ),
            notes.number(load.cpu_ms, three_digits, "an endpoint computes, in another process"),
            _memory(option, notes),
        )
        for option in timed
        for load in option.loads
    ]
    columns = numbers("Clients", *STAGES_SERVED, "CPU ms an image", "Peak memory")
    caption = "Mean milliseconds of a request by stage, CPU time, and memory of the process"
    return Table.of(caption, ("Option", *columns), rows, notes=notes)


def _published() -> Section:
    lead = Paragraph((Strong(LABEL), f". {_CONDITIONS}"), "lead")
    parts: list[PagePart] = [lead, published_service()]
    return Section("published", "Published beside it", parts, nav="Published")


def published_service() -> Table:
    """Return the published rows; a TP99 that worsens where the throughput improves is marked."""
    notes = Notes()
    base = {each.clients: each for each in PUBLISHED_ROWS if not each.gain}
    rows: list[RowCells] = [
        (
            # grey as no measured figure is
            *(Shown(str(each), tone="muted") for each in row[:5]),
            _tail(row, base[row.clients], notes),
            Shown(row.gain or DASH, tone="muted"),
        )
        for row in PUBLISHED_ROWS
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


def _speed(load: ServedLoad, notes: Notes) -> Shown:
    """Return requests a second, marked where the machine was busy or nobody knows it."""
    shown = _bounded(load.throughput, notes)
    if not (said := machine_words(load)):
        return shown
    return Shown(
        shown.text,
        mark=notes.mark(said),
        tag=CONTENDED if load.contended else "",
        tone="warn" if load.contended else "",
    )


def _bounded(estimate: Estimate, notes: Notes) -> Shown:
    return notes.worded(estimate, bounded(estimate))


def _gain(load: ServedLoad, loads: TimedLoads, notes: Notes) -> Shown:
    gain = stated_gain(load, loads)
    return notes.worded(gain, gain_words(gain)) if gain else _REFERENCE


def _memory(option: ServingOption, notes: Notes) -> Shown:
    reason = "of an endpoint's process" if option.live else "the system does not tell it"
    return notes.number(option.peak_bytes, megabytes, f"not known: {reason}")


def _drifted(option: ServingOption, notes: Notes, text: str) -> Shown:
    if option.reference:
        return Shown(text, tone="muted")
    if option.drift is None:
        return notes.missing(option.drift_reason)
    return Shown(text)


def _standing(
    option: ServingOption,
    load: ServedLoad,
    loads: TimedLoads,
    placed: Mapping[str, int],
    notes: Notes,
) -> Shown:
    place = load.frontier
    if place is None:
        return notes.missing(option.drift_reason or "no other option has speed and drift")
    other = str(placed[place.by]) if place.by else ""
    tone = "pass" if place.standing == "frontier" else "muted"
    tag = CONTENDED if _busy(load, place.by, loads) else ""
    return Shown(standing_words(place, other), tag=tag, tone=tone)


def _price(load: ServedLoad, loads: TimedLoads, placed: Mapping[str, int], notes: Notes) -> Shown:
    place = load.frontier
    if place is None or place.price is None:
        return Shown(DASH, tone="muted")
    shown = notes.worded(place.price, price_words(place.price))
    if place.price.value is None:
        return shown
    busy = f", {CONTENDED}" if _busy(load, place.since, loads) else ""
    return replace(shown, tag=f"over {placed[place.since]}{busy}")


def _busy(load: ServedLoad, other: str, loads: TimedLoads) -> bool:
    """Tell whether a busy machine's figures decide, the load's own or another option's."""
    of_other = (some.contended for each, some in loads if str(each.place) == other)
    return bool(load.contended) or any(of_other)
