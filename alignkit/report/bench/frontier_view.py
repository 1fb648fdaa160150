"""The frontier of one model and number of clients: throughput over churn, a dot an option.

Churn goes to the right on a square-root scale: an interval of so many images is about equally wide
wherever it lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from alignkit.record.bench_facts import FrontierPlace, ServedLoad, ServingOption
from alignkit.report.axis import Axis, Interval, drawn, root_ticks
from alignkit.report.marks import Dot, Line, PlotMark
from alignkit.report.plot import Plot
from alignkit.text.bench_words import (
    BenchWords,
    TimedLoads,
    bounded,
    churn_words,
    machine_words,
)
from alignkit.text.numbers import count, written

_TONES = {"frontier": "t0", "not separable": "t2", "dominated": "t2 faded"}
"""Standings in the order in which their labels take room, and the classes of their dots."""


class _Spot(NamedTuple):
    option: ServingOption
    load: ServedLoad
    place: FrontierPlace
    churn: Interval
    speed: Interval

    @property
    def at(self) -> tuple[float, float]:
        return self.churn.value, self.speed.value


def frontier_plot(loads: TimedLoads, words: BenchWords, numbers: Mapping[str, int]) -> Plot | None:
    """Draw options of one model under equally many clients; ``numbers`` are those of their places.

    ``None`` where no two have both speed and drift.
    """
    spots = list(_spots(loads))
    if len(spots) < 2:
        return None
    ticks = root_ticks(max(each.churn.high for each in spots))
    at = {str(each.option.place): each.at for each in spots}
    marks: list[PlotMark] = [Line(_steps(spots, ticks[-1]))]
    marks += [
        Line((each.at, at[each.place.by]), "t2 thin")
        for each in spots
        if each.place.standing == "not separable" and each.place.by in at
    ]
    order = [*_TONES]
    spots.sort(key=lambda each: order.index(each.place.standing))
    marks += [_dot(each, str(numbers[str(each.option.place)]), words) for each in spots]
    of = words.model_under(spots[0].option, spots[0].load)
    return Plot(
        title=f"Speed and drift: {of}",
        caption=f"{of[:1].upper()}{of[1:]}",
        x=Axis(name="churn, % of images (square-root scale)", kind="root", ticks=ticks),
        y=Axis(name="requests/s"),
        marks=marks,
        words=_description(spots, words),
        size="wide",
        height=300.0,
        inset=14.0,  # so that dots at zero stand free of the axis
    )


def _spots(loads: TimedLoads) -> Iterator[_Spot]:
    for option, load in loads:
        speed, drift = drawn(load.throughput, 1), option.drift
        churn = drawn(drift.churn) if drift is not None else Interval(0, 0, 0)
        if load.frontier is not None and speed is not None and churn is not None:
            yield _Spot(option, load, load.frontier, churn, speed)


def _steps(spots: Sequence[_Spot], end: float) -> list[tuple[float, float]]:
    """Lead from each option of the frontier to the right, and up where a faster one begins."""
    places = sorted((each.at for each in spots if each.place.standing == "frontier"),
                    key=lambda at: (at[0], -at[1]))  # fmt: skip
    points = [places[0]]
    for churn, speed in places[1:]:
        points += [(churn, points[-1][1]), (churn, speed)]
    return [*points, (end, points[-1][1])]


def _dot(spot: _Spot, number: str, words: BenchWords) -> Dot:
    parts = [
        words.title(spot.option),
        f"{bounded(spot.load.throughput)} requests/s",
        f"churn {churn_words(spot.option)}",
        words.standing(spot.place),
        machine_words(spot.load),
    ]
    busy, reference = bool(spot.load.contended), spot.option.reference
    kinds = (
        spot.place.standing,
        "the reference" * reference,
        "a busy machine, not to be used" * busy,
    )
    return Dot(
        spot.churn,
        spot.speed,
        _TONES[spot.place.standing] + " hollow" * busy,
        "square" if reference else "circle",
        key=", ".join(filter(None, kinds)),
        title="; ".join(filter(None, parts)),
        label=number,
    )


def _description(spots: Sequence[_Spot], words: BenchWords) -> str:
    best = sorted(
        (each for each in spots if each.place.standing == "frontier"), key=lambda each: each.at
    )
    named = "; ".join(
        f"{words.served(each.option)}, churn {written(each.churn.value, '.3g')} %, "
        f"{bounded(each.load.throughput)} requests/s"
        for each in best
    )
    return (
        f"{count(len(spots), 'option')}. Frontier, from the least churn: {named}. "
        "The table below contains the numbers of all."
    )
