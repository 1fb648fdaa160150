"""Coordinates of a chart of values with intervals over a logarithmic axis of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.report.scatter import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame
from alignkit.report.svg import Tick, nice_ticks
from alignkit.text.numbers import grouped, written

Spot = tuple[float, float, float, float]
"""Count, value, lower end, upper end."""
INSET = 24.0
"""From the axis to the first and the last count, so that their intervals stand free."""
ASIDE = 4.0
"""Between the intervals of two lines at one count."""


@dataclass(frozen=True, slots=True)
class Whisker:
    """A value with its interval."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SpreadLine:
    """One line with its intervals."""

    label: str
    points: str
    """SVG ``points``."""
    whiskers: tuple[Whisker, ...]


@dataclass(frozen=True, slots=True)
class SpreadPlot:
    """Some lines; zero is always in view."""

    frame: Frame
    zero: float
    lines: tuple[SpreadLine, ...]


def spread_plot(
    series: Sequence[tuple[str, Sequence[Spot]]],
    *,
    id: str,  # noqa: A002 - the attribute it becomes
    title: str,
    names: tuple[str, str],
) -> SpreadPlot:
    """Lines through (count, value, low, high); counts are positive, their axis logarithmic."""
    spots = [spot for _, line in series for spot in line]
    counts = sorted({spot[0] for spot in spots})
    ends = [0.0, *(end for spot in spots for end in spot[1:])]
    marks = nice_ticks(min(ends), max(ends))
    first = math.log(counts[0]) if counts else 0.0
    span = (math.log(counts[-1]) - first if counts else 0.0) or 1.0
    room = WIDTH - LEFT - RIGHT - 2 * INSET

    def across(count: float) -> float:
        return round(LEFT + INSET + (math.log(count) - first) / span * room, 1)

    def up(value: float) -> float:
        share = (value - marks[0]) / max(marks[-1] - marks[0], 1e-9)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    def line(index: int, label: str, of: Sequence[Spot]) -> SpreadLine:
        aside = ASIDE * (index - (len(series) - 1) / 2)
        whiskers = tuple(
            Whisker(round(across(count) + aside, 1), up(value), up(low), up(high))
            for count, value, low, high in of
        )
        return SpreadLine(label, " ".join(f"{each.x:g},{each.y:g}" for each in whiskers), whiskers)

    return SpreadPlot(
        Frame(
            id,
            title,
            *names,
            x_ticks=tuple(Tick(across(count), grouped(int(count))) for count in counts),
            y_ticks=tuple(Tick(up(mark), written(mark, "g")) for mark in marks),
        ),
        up(0.0),
        tuple(line(index, *each) for index, each in enumerate(series)),
    )
