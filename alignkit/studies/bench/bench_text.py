"""A bench as text: a table for each number of clients, one of stages and memory, the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption
from alignkit.serve.serving import STAGES_SERVED
from alignkit.text import columns
from alignkit.text.bench_words import (
    CONTENDED,
    BenchWords,
    TimedLoads,
    bench_conditions,
    bounded,
    churn_words,
    gain_words,
    loads_by_clients,
    machine_words,
    price_words,
    stated_gain,
    three_digits,
    unknown_drift,
)
from alignkit.text.names import quick_words, surrogate_lines
from alignkit.text.numbers import DASH, grouped, megabytes, no_interval

_TRACED = " (traceback in bench.json)"
_TERMS = """\
gain: requests/s over those of the reference in the same round, minus 1
resize: everything from the orientation to the tensor; wait: until the model's one instance is free
"""
_STANDINGS = """\
frontier: nothing is better in requests/s and in churn; dominated: shown to be worse in the one in
brackets, and no better in the other; not separable: worse by its values, and not shown to be
"""
_SPEED = ("", "requests/s", "gain", "mean", "TP50", "TP90", "TP99", "machine")


def bench_text(record: BenchRecord, folder: Path) -> str:
    """Show a bench that is stored in ``folder``."""
    words = BenchWords(record)
    timed = [each for each in record.options if each.loads]
    lines = [
        *([quick_words(record.quick)] if record.quick else []),
        *surrogate_lines(record.paths),
        bench_conditions(record),
    ]
    for clients, shown in loads_by_clients(timed).items():
        lines += ["", *_table(clients, shown, words)]
    if timed:
        placed = any(load.frontier for each in timed for load in each.loads)
        terms = _TERMS + _STANDINGS * placed
        lines += ["", _stages(timed, words), "", *terms.splitlines()]
    lines += _absent(record.options, words)
    lines += ["", *(f"drift: {each}" for each in unknown_drift(record.options))]
    lines += [f"requests   {folder / record.requests.path}", f"record     {folder / 'bench.json'}"]
    return "\n".join(lines)


def _table(clients: int, shown: TimedLoads, words: BenchWords) -> list[str]:
    requests = max(load.requests for _, load in shown)
    head = next((words.task.header(each.drift.metric) for each, _ in shown if each.drift), "")
    speed: list[tuple[str, ...]] = [_SPEED]
    speed += [(words.title(each), *_numbers(load, shown)) for each, load in shown]
    drift: list[tuple[str, ...]] = [("", "churn", head, "standing")]
    drift += [
        (words.title(each), churn_words(each), words.change(each), _standing(load, shown, words))
        for each, load in shown
    ]
    noun = "client" if clients == 1 else "clients"
    rounds = len(shown[0][1].rounds)
    reasons = dict.fromkeys(load.tp99_ms.reason for _, load in shown if load.tp99_ms.reason)
    return [
        f"{clients} {noun}, {grouped(requests)} requests in {rounds} rounds; times in ms",
        columns(speed, indent="  "),
        *(f"  {reason}" for reason in reasons),
        *([columns(drift, indent="  ")] if head else []),
        *_prices(shown, words),
    ]


def _numbers(load: ServedLoad, shown: TimedLoads) -> tuple[str, ...]:
    return (
        bounded(load.throughput),
        gain_words(gain) if (gain := stated_gain(load, shown)) else "reference",
        three_digits(load.mean_ms),
        *map(bounded, (load.tp50_ms, load.tp90_ms, load.tp99_ms)),
        machine_words(load),
    )


def _standing(load: ServedLoad, shown: TimedLoads, words: BenchWords) -> str:
    place = load.frontier
    others = [place.by] if place else []
    return f"{words.standing(place)}{_busy(load, others, shown)}"


def _busy(load: ServedLoad, others: Sequence[str], shown: TimedLoads) -> str:
    """Mark what was decided by figures of a busy machine, the load's own or another option's."""
    of_others = (some.contended for each, some in shown if str(each.place) in others)
    return f", {CONTENDED}" if load.frontier and (load.contended or any(of_others)) else ""


def _prices(shown: TimedLoads, words: BenchWords) -> list[str]:
    """Say for each step of the frontier how much throughput a point of churn buys."""
    unit = " of throughput a point of churn"
    lines = []
    for each, load in shown:
        place = load.frontier
        if place is None or place.price is None:
            continue
        said = price_words(place.price, unit)
        if place.price.value is not None and place.price.low is None:
            said = f"{said.removesuffix(no_interval(place.price))}({place.price.reason})"
        said += _busy(load, [place.since], shown)
        lines.append(f"  price: {words.short(place.since)} → {words.title(each)}: {said}")
    return lines


def _stages(options: Sequence[ServingOption], words: BenchWords) -> str:
    """Show mean times of the stages, CPU time and memory."""
    heads = ("mean ms a request", "clients", *STAGES_SERVED, "CPU ms an image", "peak memory")
    rows: list[tuple[str, ...]] = [heads]
    for each in options:
        for load in each.loads:
            stages = (load.stages_ms.get(stage) for stage in STAGES_SERVED)
            rows.append(
                (
                    words.title(each),
                    str(load.clients),
                    *(DASH if value is None else three_digits(value) for value in stages),
                    DASH if load.cpu_ms is None else three_digits(load.cpu_ms),
                    DASH if each.peak_bytes is None else megabytes(each.peak_bytes),
                )
            )
    return columns(rows, indent="  ")


def _absent(options: Sequence[ServingOption], words: BenchWords) -> list[str]:
    """Name each option that was not timed, or not to the end, with its reason."""
    rows = [
        (words.title(each), each.state, f"{each.reason}{_TRACED * bool(each.traceback)}")
        for each in options
        if each.state != "measured"
    ]
    return ["", columns(rows, indent="  ")] if rows else []
