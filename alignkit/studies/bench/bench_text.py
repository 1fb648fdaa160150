"""A bench as text: a table for each number of clients, one of stages and memory, the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    FrontierPlace,
    ServedLoad,
    ServingOption,
)
from alignkit.serve.serving import STAGES_SERVED
from alignkit.text import columns
from alignkit.text.names import Names, quick_words, surrogate_lines
from alignkit.text.numbers import (
    DASH,
    estimated,
    grouped,
    interval,
    megabytes,
    signed,
    significant,
    written,
)
from alignkit.text.task_words import TaskWords

CONTENDED = "contended"
_SPEED = ("", "requests/s", "gain", "mean", "TP50", "TP90", "TP99", "machine")


def bench_text(record: BenchRecord, folder: Path) -> str:
    """Show a bench that is stored in ``folder``."""
    words = _Words(record)
    timed = [each for each in record.options if each.loads]
    counts = sorted({load.clients for each in timed for load in each.loads})
    lines = [
        *([quick_words(record.quick)] if record.quick else []),
        *surrogate_lines(record.paths),
        _conditions(record),
    ]
    for clients in counts:
        lines += ["", *_table(clients, timed, words)]
    if timed:
        lines += ["", _stages(timed, words)]
    lines += _absent(record.options, words)
    lines += _unknown_drift(record)
    lines += [f"requests   {folder / record.requests.path}", f"record     {folder / 'bench.json'}"]
    return "\n".join(lines)


class _Words:
    """The names of a record's options: their rows are named where there are several."""

    def __init__(self, record: BenchRecord) -> None:
        self.task = TaskWords(record.task)
        self._names = Names(record.paths)
        self._several = len({each.trained_with for each in record.options}) > 1

    def title(self, option: ServingOption) -> str:
        row, *served = self._names.cells(option)
        return f"{row} → " * self._several + " ▸ ".join(served)

    def short(self, place: str) -> str:
        """Write the name of a place without its row."""
        _, path, *runtime = place.rsplit("/", 3)
        return f"{self._names.short(path)} ▸ {' '.join(runtime)}"


def _conditions(record: BenchRecord) -> str:
    cpus = ", ".join(map(str, record.cpus))
    held = f"on CPU {cpus}" if len(record.cpus) == 1 else f"on CPUs {cpus}"
    threads = sorted({each.effective.get("threads", "") for each in record.options} - {""})
    parts = [
        "closed loop, each option in its own process",
        held if record.cpus else "not held to CPUs",
        f"{grouped(record.images)} images in turn, {record.batch} a request",
    ]
    if threads:
        parts.append(f"threads of a session {', '.join(threads)}")
    if record.cpu_quota is not None:
        parts.append(f"the control group allows {record.cpu_quota:g} CPUs")
    if record.load_before:
        parts.append(f"load before {record.load_before[0]:.2f}")
    return "; ".join(parts)


def _table(clients: int, options: Sequence[ServingOption], words: _Words) -> list[str]:
    shown = [(each, load) for each in options for load in each.loads if load.clients == clients]
    requests = max(load.requests for _, load in shown)
    head = next((words.task.header(each.drift.metric) for each, _ in shown if each.drift), "")
    speed: list[tuple[str, ...]] = [_SPEED]
    speed += [(words.title(each), *_numbers(load)) for each, load in shown]
    drift: list[tuple[str, ...]] = [("", "churn", head, "standing")]
    drift += [
        (words.title(each), _churn(each), _change(each, words), _standing(load.frontier, words))
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


def _numbers(load: ServedLoad) -> tuple[str, ...]:
    unwatched = f"not known to be quiet: {load.unwatched}" * bool(load.unwatched)
    return (
        _number(load.throughput),
        _gain(load.gain) if load.gain else "reference",
        _figure(load.mean_ms),
        *map(_number, (load.tp50_ms, load.tp90_ms, load.tp99_ms)),
        f"{CONTENDED}: {load.contended}" if load.contended else unwatched,
    )


def _change(option: ServingOption, words: _Words) -> str:
    drift = option.drift
    return words.task.estimated(drift.metric, drift.change) if drift else DASH


def _churn(option: ServingOption) -> str:
    if option.reference:
        return "0 by definition"
    return estimated(option.drift.churn, share=True) if option.drift else DASH


def _number(estimate: Estimate) -> str:
    """``12.3 [12.1, 12.6]``; a dash without a value."""
    if estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return _figure(estimate.value)
    low, high = _figure(estimate.low), _figure(estimate.high)
    return f"{_figure(estimate.value)} [{low}, {high}]"


def _figure(value: float) -> str:
    """Three digits that count, or all of a whole number."""
    return written(value, ".0f") if value >= 100 else significant(value)


def _gain(gain: Estimate) -> str:
    if gain.value is None:
        return f"{DASH} ({gain.reason})"
    return f"{signed(100 * gain.value, 1)} % {interval(gain, 1)}".strip()


def _standing(place: FrontierPlace | None, words: _Words) -> str:
    if place is None:
        return ""
    if place.standing == "frontier":
        return "frontier"
    other = words.short(place.by)
    if place.standing == "dominated":
        return f"dominated by {other} ({' and '.join(place.shown)})"
    return f"not separable from {other}"


def _prices(shown: Sequence[tuple[ServingOption, ServedLoad]], words: _Words) -> list[str]:
    """Say for each step of the frontier how much throughput a point of churn buys."""
    lines = []
    for each, load in shown:
        place = load.frontier
        if place is None or place.price is None:
            continue
        price = place.price
        value = f"{DASH} ({price.reason})"
        if price.value is not None:
            ends = interval(price, 1) or f"({price.reason})"
            value = f"{signed(100 * price.value, 1)} % of throughput a point of churn {ends}"
        lines.append(f"  price: {words.short(place.since)} → {words.title(each)}: {value}")
    return lines


def _stages(options: Sequence[ServingOption], words: _Words) -> str:
    """Show mean times of the stages, CPU time and memory."""
    rows = [("mean ms a request", "clients", *STAGES_SERVED, "CPU ms an image", "peak memory")]
    for each in options:
        for load in each.loads:
            stages = (load.stages_ms.get(stage) for stage in STAGES_SERVED)
            rows.append(
                (
                    words.title(each),
                    str(load.clients),
                    *(DASH if value is None else _figure(value) for value in stages),
                    DASH if load.cpu_ms is None else _figure(load.cpu_ms),
                    DASH if each.peak_bytes is None else megabytes(each.peak_bytes),
                )
            )
    return columns(rows, indent="  ")


def _absent(options: Sequence[ServingOption], words: _Words) -> list[str]:
    """Name each option that was not timed, or not to the end, with its reason."""
    rows = [
        (words.title(each), each.state, each.reason) for each in options if each.state != "measured"
    ]
    return ["", columns(rows, indent="  ")] if rows else []


def _unknown_drift(record: BenchRecord) -> list[str]:
    reasons = dict.fromkeys(each.drift_reason for each in record.options if each.drift_reason)
    return ["", *(f"drift: {each}" for each in reasons)] if reasons else [""]
