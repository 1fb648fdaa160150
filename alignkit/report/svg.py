"""Coordinates of the report's charts; a template turns them into inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import Estimate
from alignkit.text.numbers import shorten, written


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval on a horizontal axis; ends equal the value without one."""

    x: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DotRow:
    """One class of a dot plot."""

    label: str
    y: float
    first: Dot | None
    second: Dot | None


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Two series of values with intervals, a row a class."""

    id: str
    title: str
    width: float
    height: float
    left: float
    zero: float
    ticks: tuple[Tick, ...]
    rows: tuple[DotRow, ...]
    first: str
    second: str
    unit: str


@dataclass(frozen=True, slots=True)
class Line:
    """One polyline, as SVG ``points``, with what it shows."""

    points: str
    label: str


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Some lines over epochs."""

    id: str
    title: str
    width: float
    height: float
    left: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its interval in data units."""

    value: float
    low: float
    high: float


def drawn(estimate: Estimate, scale: float = 100) -> Interval | None:
    """Return where an estimate lies in a chart; a point where it has no interval."""
    if estimate.value is None:
        return None
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return Interval(scale * estimate.value, scale * low, scale * high)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """About ``wanted`` round numbers that cover ``low`` … ``high``; steps 1, 2 or 5 x 10^k."""
    span = max(high - low, 1e-9)
    raw = span / max(wanted - 1, 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def dot_plot(
    rows: Sequence[tuple[str, Interval | None, Interval | None]],
    *,
    id: str,  # noqa: A002 - the attribute it becomes
    title: str,
    series: tuple[str, str],
    unit: str,
) -> DotPlot:
    """A dot plot of (label, first, second) rows, zero always in view."""
    ends = [0.0]
    for _, first, second in rows:
        ends += [end for each in (first, second) if each for end in (each.low, each.high)]
    marks = nice_ticks(min(ends), max(ends))
    left, right, top, step = 122.0, 16.0, 14.0, 26.0
    width, bottom = 560.0, 34.0
    scale = (width - left - right) / max(marks[-1] - marks[0], 1e-9)

    def place(value: float) -> float:
        return round(left + (value - marks[0]) * scale, 1)

    def dot(each: Interval | None) -> Dot | None:
        return Dot(place(each.value), place(each.low), place(each.high)) if each else None

    return DotPlot(
        id=id,
        title=title,
        width=width,
        height=top + step * len(rows) + bottom,
        left=left,
        zero=place(0.0),
        ticks=tuple(Tick(place(mark), _axis_text(mark)) for mark in marks),
        rows=tuple(
            DotRow(shorten(label, 16), top + step * (index + 0.5), dot(first), dot(second))
            for index, (label, first, second) in enumerate(rows)
        ),
        first=series[0],
        second=series[1],
        unit=unit,
    )


def line_plot(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    id: str,  # noqa: A002
    title: str,
    zero: bool = False,
) -> LinePlot:
    """Lines through (x, y) points; ``zero`` keeps y = 0 in view."""
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points] + ([0.0] if zero else [])
    y_marks = nice_ticks(min(ys), max(ys), wanted=4)
    width, height, left, bottom, right, top = 280.0, 150.0, 40.0, 24.0, 26.0, 10.0
    x_low, x_span = min(xs), max(max(xs) - min(xs), 1e-9)
    y_low, y_span = y_marks[0], max(y_marks[-1] - y_marks[0], 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(left + (x - x_low) / x_span * (width - left - right), 1),
            round(height - bottom - (y - y_low) / y_span * (height - bottom - top), 1),
        )

    def line(label: str, points: Sequence[tuple[float, float]]) -> Line:
        placed = (place(x, y) for x, y in points)
        return Line(" ".join(f"{x},{y}" for x, y in placed), label)

    x_marks = sorted({min(xs), round((min(xs) + max(xs)) / 2), max(xs)})
    return LinePlot(
        id=id,
        title=title,
        width=width,
        height=height,
        left=left,
        bottom=height - bottom,
        x_ticks=tuple(Tick(place(mark, y_low)[0], f"{mark:g}") for mark in x_marks),
        y_ticks=tuple(Tick(place(x_low, mark)[1], f"{mark:g}") for mark in y_marks),
        lines=tuple(line(label, points) for label, points in series if points),
    )


def _axis_text(mark: float) -> str:
    return written(mark, "+g") if mark else "0"
