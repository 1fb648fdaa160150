"""Words of a bench, the same in the terminal and on its page: options, figures, prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    FrontierPlace,
    ServedLoad,
    ServedOption,
    ServingOption,
)
from alignkit.record.open_loop_facts import GeneratedRun, ScenarioRecord
from alignkit.text.names import Names
from alignkit.text.numbers import (
    DASH,
    count,
    estimated,
    grouped,
    interval,
    listed,
    signed,
    significant,
    written,
)
from alignkit.text.task_words import TaskWords

CONTENDED = "contended"
TimedLoads = Sequence[tuple[ServingOption, ServedLoad]]
"""Options of one model, each under as many clients as the others."""
_NAMED = 6
"""Most contended figures that a sentence names."""


class BenchWords:
    """The names of a record's options, and what is said of them."""

    def __init__(self, record: BenchRecord | ScenarioRecord) -> None:
        self.task = TaskWords(record.task)
        self.names = Names(record.paths)
        # a row is named where there are several
        self._several = len({each.trained_with for each in record.options}) > 1

    def title(self, option: ServedOption) -> str:
        """Return ``opencv ▸ torch fp32``, with the row before it where there are several."""
        return f"{self.names.short(option.trained_with)} → " * self._several + self.served(option)

    def served(self, option: ServedOption) -> str:
        """Return the name of an option without its row."""
        return " ▸ ".join(self.names.cells(option)[1:])

    def short(self, place: str) -> str:
        """Write the name of a place without its row."""
        _, path, *runtime = place.rsplit("/", 3)
        return f"{self.names.short(path)} ▸ {' '.join(runtime)}"

    def change(self, option: ServedOption) -> str:
        """Return the change of the task's first metric."""
        drift = option.drift
        return self.task.estimated(drift.metric, drift.change) if drift else DASH

    def standing(self, place: FrontierPlace | None) -> str:
        """Return ``frontier``, ``dominated by X (speed)``, ``not separable from X`` or nothing."""
        if place is None:
            return ""
        if place.standing == "frontier":
            return "frontier"
        other = self.short(place.by)
        if place.standing == "dominated":
            return f"dominated by {other} ({' and '.join(place.shown)})"
        return f"not separable from {other}"

    def drift(self, option: ServedOption) -> str:
        """Say how far an option's answers drift: churn and change, on how many images."""
        if option.reference:
            return "It is the reference, whose churn is 0 by definition"
        if option.drift is None:
            return f"Its drift is not known ({option.drift_reason})"
        metric = option.drift.metric
        change = self.task.estimated(metric, option.drift.change, unit=True)
        return (
            f"Its churn is {churn_words(option)} of {count(option.drift.images, 'image')}; "
            f"{self.task.phrase(metric)} {change}"
        )


def churn_words(option: ServedOption) -> str:
    """Write an option's churn with its interval."""
    if option.reference:
        return "0 by definition"
    return estimated(option.drift.churn, share=True) if option.drift else DASH


def bounded(estimate: Estimate) -> str:
    """``12.3 [12.1, 12.6]``; a dash without a value."""
    if estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return three_digits(estimate.value)
    low, high = three_digits(estimate.low), three_digits(estimate.high)
    return f"{three_digits(estimate.value)} [{low}, {high}]"


def three_digits(value: float) -> str:
    """Write three digits that count, or all of a whole number."""
    return written(value, ".0f") if value >= 100 else significant(value)


def gain_words(gain: Estimate) -> str:
    """``+18.3 % [+16.1, +20.2]``; a dash with the reason without a value."""
    if gain.value is None:
        return f"{DASH} ({gain.reason})"
    return f"{signed(100 * gain.value, 1)} % {interval(gain, 1)}".strip()


def price_words(price: Estimate, unit: str = "") -> str:
    """Write percent of throughput a point of churn, with the interval or why there is none."""
    if price.value is None:
        return f"{DASH} ({price.reason})"
    ends = interval(price, 1) if price.low is not None else f"({price.reason})"
    return f"{signed(100 * price.value, 1)} %{unit} {ends}"


def machine_words(load: ServedLoad | GeneratedRun) -> str:
    """Say that a figure is of a busy machine, or may be; empty for one that is not."""
    if load.contended:
        return f"{CONTENDED}: {load.contended}"
    return f"not known to be quiet: {load.unwatched}" if load.unwatched else ""


def clients_words(clients: int) -> str:
    """``5 clients``."""
    return count(clients, "client")


def bench_conditions(
    record: BenchRecord | ScenarioRecord, loop: str = "closed loop, each option in its own process"
) -> str:
    """Say how the options were timed: loop, processors, images, threads, limits, load."""
    cpus = ", ".join(map(str, record.cpus))
    held = f"on CPU {cpus}" if len(record.cpus) == 1 else f"on CPUs {cpus}"
    threads = sorted({each.effective.get("threads", "") for each in record.options} - {""})
    parts = [
        loop,
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


def loads_by_clients(options: Sequence[ServingOption]) -> dict[int, TimedLoads]:
    """Return the timed options under each number of clients, in ascending order."""
    counts = sorted({load.clients for each in options for load in each.loads})
    return {
        clients: [
            (each, load) for each in options for load in each.loads if load.clients == clients
        ]
        for clients in counts
    }


def cautions(record: BenchRecord, words: BenchWords) -> list[str]:
    """Say which figures are contended, and which may be: before any of them is read."""
    timed = [(each, load) for each in record.options for load in each.loads]
    busy = [(each, load) for each, load in timed if load.contended]
    lines = []
    if busy:
        named = [
            f"{words.title(each)} with {clients_words(load.clients)} ({load.contended})"
            for each, load in busy[:_NAMED]
        ]
        more = f"; and {len(busy) - _NAMED} more" if len(busy) > _NAMED else ""
        lines.append(
            f"{len(busy)} of {len(timed)} timings are of a busy machine and not to be used: "
            f"{'; '.join(named)}{more}."
        )
    for reason in dict.fromkeys(load.unwatched for _, load in timed if load.unwatched):
        number = sum(load.unwatched == reason for _, load in timed)
        lines.append(f"{number} of {len(timed)} timings are not known to be quiet: {reason}.")
    return lines


def fastest_words(loads: TimedLoads, words: BenchWords) -> Iterator[str]:
    """Say which option is the fastest, what it gains and drifts; then the fastest without churn.

    ``loads`` are of one model and number of clients, one at least.
    """
    option, load = max(loads, key=lambda each: each[1].throughput.value or 0.0)
    clients = clients_words(load.clients)
    yield f"With {clients} {_gained(option, load, words, 'the fastest option')}. " + (
        "" if option.reference else f"{words.drift(option)}."
    )
    churn = option.drift and option.drift.churn.value
    if not churn:
        return
    still = [
        (each, own)
        for each, own in loads
        if each.reference or (each.drift and each.drift.churn.value == 0)
    ]
    if not still:
        return
    option, load = max(still, key=lambda each: each[1].throughput.value or 0.0)
    if option.reference:
        yield f"With {clients} every faster option than the reference changes predictions."
        return
    yield (
        f"With {clients} {_gained(option, load, words, 'the fastest without a change seen')}. "
        f"{words.drift(option)}."
    )


def _gained(option: ServingOption, load: ServedLoad, words: BenchWords, what: str) -> str:
    """Name an option with its speed and its gain, and whether the gain is shown."""
    busy = f", {CONTENDED}" if load.contended else ""
    speed = f"{what} is {words.title(option)}: {bounded(load.throughput)} requests/s{busy}"
    gain = load.gain
    if gain is None:
        return f"no option is faster than the reference, {words.title(option)}: " + (
            f"{bounded(load.throughput)} requests/s{busy}"
        )
    if gain.value is None:
        return f"{speed}; its gain is not known ({gain.reason})"
    shown = ""
    if gain.low is None:
        shown = f" ({gain.reason})" if gain.reason else ""
    elif gain.low <= 0:
        shown = ", which does not show that it is faster"
    return f"{speed}, {gain_words(gain)} over the reference{shown}"


def unknown_drift(record: BenchRecord | ScenarioRecord) -> list[str]:
    """Return each reason why a drift is not known, once."""
    return list(dict.fromkeys(each.drift_reason for each in record.options if each.drift_reason))


def listed_rounds(loads: TimedLoads) -> str:
    """``90 requests in 9 rounds``, of the option with most."""
    requests = max(load.requests for _, load in loads)
    rounds = sorted({len(load.rounds) for _, load in loads})
    return f"{count(requests, 'request')} in {listed(list(map(str, rounds)))} rounds"
