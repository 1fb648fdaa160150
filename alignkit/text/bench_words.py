"""Words of a bench, for the terminal and its page: options, figures, standings, prices."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    FrontierPlace,
    ServedLoad,
    ServingOption,
    TimedLoader,
)
from alignkit.text.names import Names
from alignkit.text.numbers import (
    DASH,
    NBSP,
    count,
    estimated,
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


class BenchWords:
    """The names of a record's options, and what is said of them."""

    def __init__(self, record: BenchRecord) -> None:
        self.task = TaskWords(record.task)
        self.names = Names(record.paths)
        # a row is named where there are several
        self._several = len({each.trained_with for each in record.options}) > 1

    def title(self, option: ServingOption) -> str:
        """Return ``opencv ▸ torch fp32``, with the row before it where there are several."""
        return f"{self.names.short(option.trained_with)} → " * self._several + self.served(option)

    def served(self, option: ServingOption) -> str:
        """Return the name of an option without its row."""
        return " ▸ ".join(self.names.cells(option)[1:])

    def short(self, place: str) -> str:
        """Write the name of a place without its row."""
        _, path, *runtime = place.rsplit("/", 3)
        return f"{self.names.short(path)} ▸ {' '.join(runtime)}"

    def change(self, option: ServingOption) -> str:
        """Return the change of the task's first metric."""
        drift = option.drift
        return self.task.estimated(drift.metric, drift.change) if drift else DASH

    def standing(self, place: FrontierPlace | None) -> str:
        """Return ``dominated by X (speed)`` and the like; empty without a place."""
        return standing_words(place, self.short(place.by) if place.by else "") if place else ""

    def model_under(self, option: ServingOption, load: ServedLoad) -> str:
        """Return ``5 clients``, with the option's row before it where there are several."""
        row = f"trained with {self.names.short(option.trained_with)}, " * self._several
        return row + clients_words(load.clients)


def standing_words(place: FrontierPlace, other: str) -> str:
    """Return ``frontier``, ``dominated by X (speed)`` or ``not separable from X``."""
    if place.standing == "frontier":
        return "frontier"
    if place.standing == "dominated":
        return f"dominated by {other} ({' and '.join(place.shown)})"
    return f"not separable from {other}"


def churn_words(option: ServingOption) -> str:
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
    return f"{signed(100 * gain.value, 1)}{NBSP}% {interval(gain, 1)}".strip()


def stated_gain(
    load: ServedLoad | TimedLoader, timed: Sequence[tuple[object, ServedLoad | TimedLoader]]
) -> Estimate | None:
    """Return the gain of one of ``timed``, without a value where it or the reference was disturbed.

    ``None`` for the reference itself.
    """
    first = [each for _, each in timed if each.gain is None]
    if load.gain is None or not any(each.contended for each in (load, *first)):
        return load.gain
    return Estimate(None, None, None, "the machine was busy")


def price_words(price: Estimate, unit: str = "") -> str:
    """Write percent of throughput a point of churn, with the interval or why there is none."""
    if price.value is None:
        return f"{DASH} ({price.reason})"
    return f"{signed(100 * price.value, 1)} %{unit} {interval(price, 1)}".rstrip()


def machine_words(load: ServedLoad | TimedLoader) -> str:
    """Say that a figure is of a busy machine, or may be; empty for one that is not."""
    if load.contended:
        return f"{CONTENDED}: {load.contended}"
    return f"not known to be quiet: {load.unwatched}" if load.unwatched else ""


def clients_words(clients: int) -> str:
    """``5 clients``."""
    return count(clients, "client")


def loads_by_clients(options: Sequence[ServingOption]) -> dict[int, TimedLoads]:
    """Return the timed options under each number of clients, in ascending order."""
    counts = sorted({load.clients for each in options for load in each.loads})
    return {
        clients: [
            (each, load) for each in options for load in each.loads if load.clients == clients
        ]
        for clients in counts
    }


def unknown_drift(options: Sequence[ServingOption]) -> list[str]:
    """Return each reason why a drift is not known, once; a skipped option has a reason itself."""
    asked = (each for each in options if each.state != "skipped")
    return list(dict.fromkeys(each.drift_reason for each in asked if each.drift_reason))


def listed_rounds(loads: TimedLoads) -> str:
    """``90 requests in 9 rounds``, of the option with most."""
    requests = max(load.requests for _, load in loads)
    rounds = sorted({len(load.rounds) for _, load in loads})
    return f"{count(requests, 'request')} in {listed(list(map(str, rounds)))} rounds"
