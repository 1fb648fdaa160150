"""Tables of a bench's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from alignkit.progress import duration
from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    ServedLoad,
    ServingOption,
    TimedStudy,
)
from alignkit.record.loader_facts import TimedLoader
from alignkit.report.run_view import machine_tables, paths_table
from alignkit.report.table import Group, Notes, RowCells, Shown, Table, facts, numbers
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
    machine_words,
    price_words,
    standing_words,
    stated_gain,
    three_digits,
)
from alignkit.text.names import Names, quick_words
from alignkit.text.numbers import DASH, count, grouped, listed, megabytes

_LATENCY = ("Mean", "TP50", "TP90", "TP99")
_REFERENCE = Shown("reference", tone="muted")


def service_table(loads: TimedLoads, words: BenchWords) -> Table:
    """Return throughput, latency and CPU time of options under equally many clients."""
    notes = Notes()
    rows: list[RowCells] = [
        (
            words.title(option),
            _speed(load, notes),
            _gain(load, loads, notes),
            three_digits(load.mean_ms),
            *(_bounded(each, notes) for each in (load.tp50_ms, load.tp90_ms, load.tp99_ms)),
            notes.number(load.cpu_ms, three_digits, "an endpoint computes, in another process"),
        )
        for option, load in loads
    ]
    groups = (
        Group("", 1),
        Group("throughput", 2),
        Group("milliseconds of a request", len(_LATENCY)),
        Group("", 1),
    )
    measured = numbers("Requests/s", "Gain", *_LATENCY, "CPU ms an image")
    caption = f"Service, {clients_words(loads[0][1].clients)}: {listed_rounds(loads)}"
    return Table.of(caption, ("Option", *measured), rows, groups, notes=notes)


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
            _standing(option, load, placed, notes),
            _drifted(option, notes, churn_words(option)),
            _speed(load, notes),
            _price(load, placed, notes),
            _drifted(option, notes, words.change(option)),
        )
        for option, load in loads
    ]
    price = "Price: throughput for a point of churn"
    drift = numbers("Churn", "Requests/s", price, words.task.header(metric))
    columns = ("Option", "Standing", *drift)
    caption = f"Speed and drift, {words.model_under(*loads[0])}"
    return Table.of(caption, columns, rows, notes=notes)


def memory_table(options: Sequence[ServingOption], words: BenchWords) -> Table:
    """Return the memory of each option's process."""
    notes = Notes()
    rows: list[RowCells] = [(words.title(each), _memory(each, notes)) for each in options]
    return Table.of("Memory of each process", ("Option", *numbers("Peak")), rows, notes=notes)


def stage_table(loads: TimedLoads, words: BenchWords) -> Table:
    """Return the mean time of each stage."""
    notes = Notes()
    hidden = "the option's process does not see it"
    rows: list[RowCells] = [
        (
            words.title(option),
            *(
                notes.number(load.stages_ms.get(stage), three_digits, hidden)
                for stage in STAGES_SERVED
            ),
        )
        for option, load in loads
    ]
    caption = f"Mean milliseconds of a request by stage, {clients_words(loads[0][1].clients)}"
    return Table.of(caption, ("Option", *numbers(*STAGES_SERVED)), rows, notes=notes)


def absent_table(options: Sequence[ServingOption], words: BenchWords) -> Table | None:
    """Return each option that was not timed, or not to the end, with its reason."""
    return reasons_table([(words.title(each), each) for each in options], "Option")


def reasons_table(
    named: Sequence[tuple[str, ServingOption | TimedLoader]], head: str
) -> Table | None:
    """Return what was not timed, or not to the end, with its reason; ``None`` if all was."""
    rows: list[RowCells] = [
        (
            title,
            Shown(each.state, tone="fail" if each.state == "failed" else "muted"),
            each.reason,
        )
        for title, each in named
        if each.state != "measured"
    ]
    caption = "Not timed, or not to the end"
    return Table.of(caption, (head, "State", "Reason"), rows) if rows else None


def own_table(chosen: Sequence[tuple[ServingOption, ServedLoad]], words: BenchWords) -> Table:
    """Return figures of this bench in the columns of the published table."""
    notes = Notes()
    rows: list[RowCells] = [
        (
            words.title(option),
            str(load.clients),
            _speed(load, notes),
            three_digits(load.mean_ms),
            _bounded(load.tp50_ms, notes),
            _bounded(load.tp99_ms, notes),
            _gain(load, chosen, notes),
        )
        for option, load in chosen
    ]
    figures = numbers("Clients", "Requests/s", "Mean", "TP50", "TP99", "Gain")
    groups = (Group("", 1), Group("measured here", len(figures)))
    caption = "The reference and the fastest option; milliseconds of a request"
    return Table.of(caption, ("Option", *figures), rows, groups, notes=notes)


def shared_view(record: TimedStudy, names: Names, kind: str) -> dict[str, Any]:
    """Return what the pages of all benches say of their origin."""
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
        "Plan (content hash)": record.key,
    }
    return {
        "alignkit": record.alignkit,
        "kind": kind,
        "name": record.name,
        "started": record.started.replace("T", " ").split(".")[0],
        "duration": duration(record.seconds),
        "quick": quick_words(record.quick),
        "paths": [names.of(each.name) for each in record.paths],
        "paths_table": paths_table(record.paths, names),
        "environment": machine_tables(run, record.environment),
        "command": record.command,
        "unknown_drift": [],
        "requests": "",
    }


def conditions_table(record: TimedStudy, pairs: dict[str, str]) -> Table:
    """Return the conditions of a bench, some of them its own, and of the machine before it."""
    load = " ".join(f"{each:.2f}" for each in record.load_before)
    quota = "no limit" if record.cpu_quota is None else f"{record.cpu_quota:g} CPUs"
    machine = record.environment
    extensions = f" ({machine.extensions})" if machine.extensions else ""
    of_machine = {
        "Processor": f"{machine.cpu}{extensions}, {count(machine.cores, 'core')}",
        "CPUs held": ", ".join(map(str, record.cpus)) or "not held to CPUs",
        "Limit of the control group": quota,
        "Load before, over 1, 5 and 15 minutes": load or "the system does not tell it",
    }
    return facts("How it was timed", of_machine | pairs)


def bench_facts(record: BenchRecord) -> dict[str, str]:
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
    option: ServingOption, load: ServedLoad, placed: Mapping[str, int], notes: Notes
) -> Shown:
    place = load.frontier
    if place is None:
        return notes.missing(option.drift_reason or "no other option has speed and drift")
    other = str(placed[place.by]) if place.by else ""
    tone = "pass" if place.standing == "frontier" else "muted"
    return Shown(standing_words(place, other), tone=tone)


def _price(load: ServedLoad, placed: Mapping[str, int], notes: Notes) -> Shown:
    place = load.frontier
    if place is None or place.price is None:
        return Shown(DASH, tone="muted")
    shown = notes.worded(place.price, price_words(place.price))
    missing = place.price.value is None
    return shown if missing else replace(shown, tag=f"over {placed[place.since]}")
