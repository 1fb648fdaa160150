"""The frontier of one model and number of clients → coordinates of its inline SVG.

Churn goes to the right on a square-root scale: zero has its place, small shares stand apart, and an
interval of so many images is about equally wide wherever it lies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from alignkit.record.bench_facts import ServedLoad, ServingOption
from alignkit.report.charts import Frame, Interval, drawn, nice_ticks
from alignkit.report.figures.figure_view import Label
from alignkit.text.bench_words import (
    BenchWords,
    TimedLoads,
    bounded,
    churn_words,
    machine_words,
)
from alignkit.text.numbers import count, written

_APART = 46.0
"""Least distance of two texts of the horizontal axis."""
_ORDER = ("frontier", "not separable", "dominated")
"""Standings in the order in which their labels take room."""


@dataclass(frozen=True, slots=True)
class FrontierDot:
    """An option with its intervals on both axes."""

    number: int
    """Of its row in the table below."""
    x: float
    y: float
    left: float
    right: float
    top: float
    bottom: float
    standing: str
    reference: bool
    """Drawn as a square."""
    contended: bool
    """Drawn hollow: the machine was busy."""
    title: str
    """All of it in words."""
    label: Label | None
    """Its number; ``None`` where no place is free."""


@dataclass(frozen=True, slots=True)
class FrontierPlot:
    """Options of one model as dots."""

    frame: Frame
    dots: tuple[FrontierDot, ...]
    steps: str
    """SVG path: the greatest throughput for each churn that is borne."""
    joins: tuple[str, ...]
    """SVG paths between two options that the sample cannot tell apart."""
    description: str
    """For readers who do not see it."""


@dataclass(frozen=True, slots=True)
class _Spot:
    number: int
    option: ServingOption
    load: ServedLoad
    churn: Interval
    speed: Interval

    @property
    def standing(self) -> str:
        assert self.load.frontier is not None, "only what has a standing is drawn"
        return self.load.frontier.standing


def frontier_plot(
    loads: TimedLoads,
    words: BenchWords,
    numbers: Mapping[str, int],
    *,
    id: str,  # noqa: A002 - the attribute it becomes
) -> FrontierPlot | None:
    """Draw options of one model under equally many clients; ``numbers`` are those of their places.

    ``None`` where no two have both speed and drift.
    """
    spots = list(_spots(loads, numbers))
    if len(spots) < 2:
        return None
    frame = _frame(spots, words, id)
    places = {each.number: _at(frame, each) for each in spots}
    frontier = [places[each.number] for each in spots if each.standing == "frontier"]
    ordered = sorted(spots, key=lambda each: _ORDER.index(each.standing))
    labels = _labels({each.number: places[each.number] for each in ordered})
    by_place = {str(each.option.place): places[each.number] for each in spots}
    return FrontierPlot(
        frame,
        tuple(_dot(each, frame, labels.get(each.number), words) for each in spots),
        _steps(frontier, frame),
        tuple(
            "M{:g} {:g}L{:g} {:g}".format(*places[each.number], *by_place[each.load.frontier.by])
            for each in spots
            if each.standing == "not separable"
            and each.load.frontier
            and each.load.frontier.by in by_place
        ),
        _description(spots, words),
    )


def _spots(loads: TimedLoads, numbers: Mapping[str, int]) -> Iterator[_Spot]:
    for option, load in loads:
        speed = drawn(load.throughput, 1)
        if load.frontier is None or speed is None:
            continue
        churn: Interval | None = Interval(0, 0, 0)
        if option.drift is not None:
            churn = drawn(option.drift.churn)
        if churn is not None:
            yield _Spot(numbers[str(option.place)], option, load, churn, speed)


def _frame(spots: Sequence[_Spot], words: BenchWords, id: str) -> Frame:  # noqa: A002
    low = min(each.speed.low for each in spots)
    high = max(each.speed.high for each in spots)
    far = 0 < high - low < low
    of = words.model_under(spots[0].option, spots[0].load)
    frame = Frame(
        id,
        f"{of[:1].upper()}{of[1:]}",
        [0.0, 1.0],  # until the room is known
        nice_ticks(low if far else 0.0, high, wanted=6),
        "churn, % of images (square-root scale)",
        "requests/s",
        width=620.0,
        height=372.0,
        left=56.0,
        right=604.0,
        top=24.0,
        bottom=326.0,
        inset=14.0,  # so that dots at zero stand free of the axis
    )
    room = frame.right - frame.left - 2 * frame.inset
    marks = _churn_marks(max(each.churn.high for each in spots), room)
    return replace(
        frame,
        x_marks=[math.sqrt(mark) for mark in marks],
        x_texts=[written(mark, "g") for mark in marks],
    )


def _churn_marks(most: float, room: float) -> list[float]:
    """Return round percentages from 0 to ``most`` or more, whose texts do not touch."""
    most = max(most, 1e-3)  # an axis has some length, also if no answer changed
    power = math.floor(math.log10(most) + 1e-9)
    scale = 10.0**power
    end = next(step * scale for step in (1, 1.5, 2, 3, 5, 7.5, 10) if step * scale >= most - 1e-12)
    end = min(end, 100.0) if most <= 100 else end
    marks = [end]
    for exponent in range(power, power - 4, -1):
        for step in (5, 2, 1):
            mark = round(step * 10.0**exponent, 10)
            if (
                (math.sqrt(marks[0]) - math.sqrt(mark)) * room / math.sqrt(end)
                >= _APART
                <= math.sqrt(mark / end) * room
            ):
                marks.insert(0, mark)
    return [0.0, *marks]


def _at(frame: Frame, spot: _Spot) -> tuple[float, float]:
    return _across(frame, spot.churn.value), frame.y(spot.speed.value)


def _across(frame: Frame, churn: float) -> float:
    return frame.x(math.sqrt(churn))


def _labels(places: Mapping[int, tuple[float, float]]) -> dict[int, Label]:
    """Write each dot's number beside it, the most important first, where no other one stands."""
    taken: dict[int, Label] = {}
    for number, (x, y) in places.items():
        around = ((8, -7, "start"), (-8, -7, "end"), (8, 15, "start"), (-8, 15, "end"))
        for across, down, anchor in around:
            label = Label(round(x + across, 1), round(y + down, 1), anchor, str(number))
            if not any(label.meets(other) for other in taken.values()):
                taken[number] = label
                break
    return taken


def _dot(spot: _Spot, frame: Frame, label: Label | None, words: BenchWords) -> FrontierDot:
    x, y = _at(frame, spot)
    parts = [
        words.title(spot.option),
        f"{bounded(spot.load.throughput)} requests/s",
        f"churn {churn_words(spot.option)}",
        words.standing(spot.load.frontier),
        machine_words(spot.load),
    ]
    return FrontierDot(
        number=spot.number,
        x=x,
        y=y,
        left=_across(frame, spot.churn.low),
        right=_across(frame, spot.churn.high),
        top=frame.y(spot.speed.high),
        bottom=frame.y(spot.speed.low),
        standing=spot.standing,
        reference=spot.option.reference,
        contended=bool(spot.load.contended),
        title="; ".join(filter(None, parts)),
        label=label,
    )


def _steps(frontier: Sequence[tuple[float, float]], frame: Frame) -> str:
    """Lead from each option of the frontier to the right, and up where a faster one begins."""
    (x, y), *others = sorted(frontier, key=lambda at: (at[0], -at[1]))
    return f"M{x:g} {y:g}" + "".join(f"H{a:g}V{b:g}" for a, b in others) + f"H{frame.right:g}"


def _description(spots: Sequence[_Spot], words: BenchWords) -> str:
    best = sorted(
        (each for each in spots if each.standing == "frontier"), key=lambda each: each.churn.value
    )
    named = "; ".join(
        f"{words.served(each.option)}, churn {written(each.churn.value, '.3g')} %, "
        f"{bounded(each.load.throughput)} requests/s"
        for each in best
    )
    return (
        f"{count(len(spots), 'option')} by churn, to the right, and requests a second, upwards. "
        f"Frontier, from the least churn: {named}. The table below contains the numbers of all."
    )
