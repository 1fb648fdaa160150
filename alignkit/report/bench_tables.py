"""Tables and chart of a bench's options: which is the fastest, worth its drift, how it serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    ServedLoad,
    ServingOption,
)
from alignkit.report.axis import Axis, Interval, drawn, root_ticks, spread
from alignkit.report.marks import Dot, Line
from alignkit.report.plot import Plot
from alignkit.report.table import Shown, Table
from alignkit.report.timed_page import (
    CONTENDED,
    UNKNOWN,
    bounded,
    speed_columns,
    undisturbed,
)
from alignkit.serve.serving import STAGES_SERVED
from alignkit.text.column import Fact, of_part
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, interval, listed, signed
from alignkit.text.task_words import TaskWords

_FASTEST = (
    "The fastest option of each model, and the fastest of those that changed no answer; intervals "
    "of 95\N{NO-BREAK SPACE}% or more"
)


class ServedRow(NamedTuple):
    """A serving option under so many clients."""

    number: int
    """Of the option among those of its model: in the chart and in all tables."""
    title: str
    option: ServingOption
    load: ServedLoad
    group: dict[str, ServedRow]
    """All of the model under as many clients, by the name of a place in `FrontierPlace`."""

    def busy(self, other: str = "") -> str:
        """Say that a busy machine's figures decide: its own, or those of another option."""
        of_other = self.group[other].load.contended if other else ""
        return CONTENDED * bool(self.load.contended or of_other)


class BenchTables:
    """The tables and charts of a bench."""

    def __init__(self, record: BenchRecord) -> None:
        self.names, self._record = Names(record.paths), record
        # a row is named where there are several
        self._several = len({each.trained_with for each in record.options}) > 1
        self.clients = sorted({load.clients for each in record.options for load in each.loads})
        rows = dict.fromkeys(each.trained_with for each in record.options if each.loads)
        found = [[self._served(row, clients) for clients in self.clients] for row in rows]
        self.models = [[*filter(None, each)] for each in found]
        """Options of each model under each number of clients."""
        self.groups = [*chain(*self.models)]
        self._drift = _drift_columns(TaskWords(record.task))

    def _served(self, row: str, clients: int) -> list[ServedRow]:
        timed = [each for each in self._record.options if each.loads and each.trained_with == row]
        found = [
            (number, each, load)
            for number, each in enumerate(timed, 1)
            for load in each.loads
            if load.clients == clients
        ]
        loads, group = undisturbed([load for *_, load in found]), dict[str, ServedRow]()
        for (number, each, _), load in zip(found, loads, strict=True):
            group[str(each.place)] = ServedRow(number, self.title(each), each, load, group)
        return [*group.values()]

    def title(self, option: ServingOption) -> str:
        """Return ``opencv ▸ torch fp32``, with the row before it where there are several."""
        row, *served = self.names.cells(option)
        return f"{row} → " * self._several + " ▸ ".join(served)

    def heading(self, group: Sequence[ServedRow]) -> str:
        """Return ``5 clients``, after the options' row where there are several."""
        row = f"trained with {self.names.short(group[0].option.trained_with)}, "
        return row * self._several + count(group[0].load.clients, "client")

    def fastest(self) -> Table:
        """Return the fastest options, without and with a condition on their answers.

        One that was timed while the machine was busy is chosen only where all were.
        """
        rows: list[ServedRow] = []
        for group in self.groups:
            rows.append(max(group, key=_speed))
            kept = [each for each in group if not _changes(each.option)]
            if kept and _changes(rows[-1].option):
                rows.append(max(kept, key=_speed))
        doubt = "this sample does not show that it is faster than the reference"
        # an interval that reaches below zero is easily overlooked
        gain = replace(GAIN, remark=lambda load: doubt * _doubtful(load.gain))
        return Table.made(_FASTEST, (_CLIENTS, _OPTION, SPEED, gain, *self._drift, _IMAGES), rows)

    def frontier(self, group: Sequence[ServedRow]) -> Table:
        """Return what the chart of the frontier shows."""
        churn, change = self._drift
        columns = (_OPTION, _STANDING, churn, SPEED, _PRICE, change)
        return Table.made(f"Speed and drift, {self.heading(group)}", columns, group)

    def service(self, clients: int) -> Table:
        """Return throughput and latency of all options under equally many clients."""
        rows = [each for each in chain(*self.groups) if each.load.clients == clients]
        requests = count(max(each.load.requests for each in rows), "request")
        rounds = listed([*map(str, sorted({len(each.load.rounds) for each in rows}))])
        of = f"{count(clients, 'client')}: {requests} in {rounds} rounds"
        columns = (_OPTION, SPEED, GAIN, *_TIMES)
        return Table.made(f"Service, {of}; milliseconds of a request", columns, rows)

    def stages(self) -> Table:
        """Return the mean time of each stage, CPU time and memory."""
        caption = "Mean milliseconds of a request by stage, CPU time, and memory of the process"
        return Table.made(caption, (_OPTION, _CLIENTS, *_STAGES), chain(*self.groups))


def _speed(each: ServedRow) -> tuple[bool, float]:
    """Rank timings; one of a busy machine comes last."""
    return not each.load.contended, each.load.throughput.value or 0.0


def _changes(option: ServingOption) -> bool:
    """Tell whether an option is not known to change no answer."""
    return not option.reference and (option.drift is None or option.drift.churn.value != 0)


def _doubtful(gain: Estimate | None) -> bool:
    return gain is not None and gain.value is not None and (gain.low or 0.0) <= 0


def _standing(each: ServedRow) -> Shown | None:
    if (place := each.load.frontier) is None:
        return None
    if place.standing == "frontier":
        return Shown("frontier", tag=each.busy(), tone="pass")
    other = each.group[place.by].number
    words = f"not separable from {other}"
    if place.standing == "dominated":
        words = f"dominated by {other} ({' and '.join(place.shown)})"
    return Shown(words, tag=each.busy(place.by), tone="muted")


def _price(each: ServedRow) -> Estimate | str:
    return (each.load.frontier and each.load.frontier.price) or DASH


def _price_words(price: Estimate, each: ServedRow) -> str:
    assert each.load.frontier is not None
    since = each.load.frontier.since
    over = [f"over {each.group[since].number}", each.busy(since)]
    value = signed(100 * (price.value or 0), 1)
    return f"{value} % {interval(price, 1)} ({', '.join(filter(None, over))})"


def _drift_columns(words: TaskWords) -> tuple[Fact[ServedRow], Fact[ServedRow]]:
    """Return how far an option's answers are from those of the reference."""
    drift, why = attrgetter("option.drift"), attrgetter("option.drift_reason")

    def churn(each: ServedRow) -> Estimate | str | None:
        return "0 by definition" if each.option.reference else drift(each) and drift(each).churn

    def change(each: ServedRow) -> Estimate | str | None:
        return DASH if each.option.reference else drift(each) and drift(each).change

    return (
        Fact("Churn", churn, "share", note=why),
        Fact(words.header(words.headline), change, "points", note=why,
             format=lambda found, _: words.estimated(words.headline, found)),
    )  # fmt: skip


def _time(head: str, field: str) -> Fact[ServedRow]:
    return Fact(head, attrgetter(f"load.{field}"), "value", format=bounded)


def _stage(name: str) -> Fact[ServedRow]:
    return Fact(name, lambda each: each.load.stages_ms.get(name), "value", format=bounded,
                note="the option's process does not see it")  # fmt: skip


_OPTION: Fact[ServedRow] = Fact(
    "Option",
    lambda each: Shown(f"{each.number} {each.title}", tag="reference" * each.option.reference),
)
_CLIENTS: Fact[ServedRow] = Fact("Clients", attrgetter("load.clients"), "count")
SPEED, GAIN = of_part(speed_columns("Requests/s"), attrgetter("load"))
_IMAGES: Fact[ServedRow] = Fact(
    "Images", lambda each: each.option.drift and each.option.drift.images, "count",
    note=lambda each: each.option.drift_reason or "the others are compared with it",
)  # fmt: skip
_STANDING: Fact[ServedRow] = Fact(
    "Standing", _standing,
    note=lambda each: each.option.drift_reason or "no other option has speed and drift",
)  # fmt: skip
_PRICE: Fact[ServedRow] = Fact(
    "Price: throughput for a point of churn", _price, "share", format=_price_words
)
_TIMES = (
    _time("Mean", "mean_ms"), _time("TP50", "tp50_ms"), _time("TP90", "tp90_ms"),
    _time("TP99", "tp99_ms"),
)  # fmt: skip
_STAGES: tuple[Fact[ServedRow], ...] = (
    *map(_stage, STAGES_SERVED),
    replace(_time("CPU ms an image", "cpu_ms"), note="an endpoint computes, in another process"),
    Fact(
        "Peak memory", attrgetter("option.peak_bytes"), "bytes",
        note=lambda each: f"not known: {'of an endpoint' if each.option.live else UNKNOWN}",
    ),
)  # fmt: skip


_STANDINGS = {"frontier": "t0", "not separable": "t2", "dominated": "t2 faded"}
"""Standings in the order in which their labels take room, and the classes of their dots."""


def frontier_plot(group: Sequence[ServedRow], heading: str) -> Plot | None:
    """Draw throughput over churn, a dot an option; ``None`` where no two have both.

    Churn has a square-root scale: an interval of so many images is about equally wide wherever it
    lies.
    """
    dots = {str(each.option.place): dot for each in group if (dot := _dot(each))}
    if len(dots) < 2:
        return None
    places = {str(each.option.place): each.load.frontier for each in group}
    standings = {at: place for at, place in places.items() if place and at in dots}
    best = [_at(dots[at]) for at, place in standings.items() if place.standing == "frontier"]
    joins = [
        Line((_at(dots[at]), _at(dots[place.by])), "t2 thin")
        for at, place in standings.items()
        if place.standing == "not separable" and place.by in dots
    ]
    order = [*_STANDINGS]
    ticks = root_ticks(max(spread(each.x).high for each in dots.values()))
    return Plot(
        title=f"Speed and drift: {heading}",
        caption=f"{heading[:1].upper()}{heading[1:]}",
        x=Axis(name="churn, % of images (square-root scale)", kind="root", ticks=ticks),
        y=Axis(name="requests/s"),
        marks=[
            Line(_steps(best, ticks[-1])),
            *joins,
            *(dots[at] for at in sorted(dots, key=lambda at: order.index(standings[at].standing))),
        ],
        words="The table below contains the numbers.",
        size="wide",
        height=300.0,
        inset=14.0,  # so that dots at zero stand free of the axis
    )


def _dot(each: ServedRow) -> Dot | None:
    speed, drift, place = drawn(each.load.throughput, 1), each.option.drift, each.load.frontier
    churn = drawn(drift.churn) if drift is not None else Interval(0, 0, 0)
    if place is None or speed is None or churn is None:
        return None
    busy = bool(each.load.contended)
    kinds = (
        place.standing,
        "the reference" * each.option.reference,
        "a busy machine, not to be used" * busy,
    )
    return Dot(
        churn,
        speed,
        _STANDINGS[place.standing] + " hollow" * busy,
        "square" if each.option.reference else "circle",
        key=", ".join(filter(None, kinds)),
        label=str(each.number),
    )


def _at(dot: Dot) -> tuple[float, float]:
    return spread(dot.x).value, spread(dot.y).value


def _steps(best: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """Lead from each option of the frontier to the right, and up where a faster one begins."""
    first, *others = sorted(best, key=lambda at: (at[0], -at[1]))
    points = [first]
    for churn, speed in others:
        points += [(churn, points[-1][1]), (churn, speed)]
    return [*points, (end, points[-1][1])]
