"""Coordinates of the report's charts; a template turns them into inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import Estimate
from alignkit.text.numbers import grouped, shorten, written

Spot = tuple[float, float, float, float]
"""Count, value, lower end, upper end."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its interval in data units."""

    value: float
    low: float
    high: float


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
    wide: bool = False
    """Whether a line joins the two series: before and after."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Axes of a chart, which place data on it; its units grow to the right and downwards."""

    id: str
    title: str
    x_marks: Sequence[float]
    """Marked values in ascending order, of which the outer ones are the ends of the axis."""
    y_marks: Sequence[float]
    x_name: str = ""
    y_name: str = ""
    x_texts: Sequence[str] | None = None
    """Texts of the marks where they are not the values themselves."""
    width: float = 460.0
    height: float = 230.0
    left: float = 52.0
    right: float = 446.0
    top: float = 10.0
    bottom: float = 190.0
    inset: float = 0.0
    """From the ends of the horizontal axis to the outer marks."""

    def x(self, value: float) -> float:
        """Place a value on the horizontal axis."""
        low, high = self.x_marks[0], self.x_marks[-1]
        share = (value - low) / (high - low or 1.0)  # a single mark spans nothing
        room = self.right - self.left - 2 * self.inset
        return round(self.left + self.inset + share * room, 1)

    def y(self, value: float) -> float:
        """Place a value on the vertical axis."""
        low, high = self.y_marks[0], self.y_marks[-1]
        share = (value - low) / (high - low or 1.0)
        return round(self.bottom - share * (self.bottom - self.top), 1)

    @property
    def x_ticks(self) -> list[Tick]:
        """Marks of the horizontal axis; those without a text are not drawn."""
        texts = self.x_texts
        if texts is None:
            texts = [written(mark, "g") for mark in self.x_marks]
        return [Tick(self.x(mark), text) for mark, text in zip(self.x_marks, texts, strict=False)]

    @property
    def y_ticks(self) -> list[Tick]:
        """Marks of the vertical axis."""
        return [Tick(self.y(mark), written(mark, "g")) for mark in self.y_marks]


@dataclass(frozen=True, slots=True)
class Whisker:
    """A value with its interval on a vertical axis."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """One polyline, as SVG ``points``, with what it shows and the intervals drawn on it."""

    points: str
    label: str = ""
    whiskers: tuple[Whisker, ...] = ()


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Some lines: over epochs, over counts, or one distribution."""

    frame: Frame
    lines: tuple[Line, ...]
    zero: float = 0.0
    """Where y = 0 lies, for a chart that marks it."""


def drawn(estimate: Estimate, scale: float = 100) -> Interval | None:
    """Return where an estimate lies in a chart; a point where it has no interval."""
    if estimate.value is None:
        return None
    low = estimate.value if estimate.low is None else estimate.low  # a dot without whiskers
    high = estimate.value if estimate.high is None else estimate.high
    return Interval(scale * estimate.value, scale * low, scale * high)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return about ``wanted`` round numbers that cover ``low`` … ``high``; steps 1, 2, 5 x 10^k."""
    span = max(high - low, 1e-9)
    raw = span / max(wanted - 1, 1)
    power = 10 ** math.floor(math.log10(raw))
    # the tolerances keep a step that is round in decimals from being missed by its binary error
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
    wide: bool = False,
    distance: bool = False,
) -> DotPlot:
    """Place (label, first, second) rows on one axis, zero always in view.

    A ``wide`` one has room for the names of two paths, and joins the series of a row. Marks of a
    ``distance`` carry no sign.
    """
    ends = [0.0]
    for _, first, second in rows:
        ends += [end for each in (first, second) if each for end in (each.low, each.high)]
    marks = nice_ticks(min(ends), max(ends))  # the intervals fit too, not only the values
    letters = min(44, max(len(label) for label, *_ in rows)) if wide else 16
    left, right, top, step = 22 + 6.25 * letters, 16.0, 14.0, 26.0
    width, bottom = 700.0 if wide else 560.0, 34.0
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
        ticks=tuple(
            Tick(place(mark), written(mark, "g" if distance else "+g") if mark else "0")
            for mark in marks
        ),
        rows=tuple(
            # the table beside the chart has the whole name
            DotRow(shorten(label, letters), top + step * (index + 0.5), dot(first), dot(second))
            for index, (label, first, second) in enumerate(rows)
        ),
        first=series[0],
        second=series[1],
        unit=unit,
        wide=wide,
    )


def line_plot(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    id: str,  # noqa: A002
    title: str,
    zero: bool = False,
) -> LinePlot:
    """Draw lines through (x, y) points on a small chart; ``zero`` keeps y = 0 in view."""
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points] + ([0.0] if zero else [])
    frame = Frame(
        id,
        title,
        # three marks at most: the chart is small
        x_marks=sorted({min(xs), round((min(xs) + max(xs)) / 2), max(xs)}),
        y_marks=nice_ticks(min(ys), max(ys), wanted=4),
        width=280.0,
        height=150.0,
        left=40.0,
        right=254.0,
        bottom=126.0,
    )
    lines = (
        Line(" ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in points), label)
        for label, points in series
        if points
    )
    return LinePlot(frame, tuple(lines))


def spread_plot(
    series: Sequence[tuple[str, Sequence[Spot]]],
    *,
    id: str,  # noqa: A002
    title: str,
    names: tuple[str, str],
) -> LinePlot:
    """Draw lines with intervals over counts, zero always in view.

    Counts are positive, their axis logarithmic.
    """
    spots = [spot for _, line in series for spot in line]
    counts = sorted({count for count, *_ in spots})
    ends = [0.0, *(end for _, *values in spots for end in values)]
    frame = Frame(
        id,
        title,
        [math.log(count) for count in counts] or [0.0],
        nice_ticks(min(ends), max(ends)),
        *names,
        x_texts=[grouped(int(count)) for count in counts],
        inset=24.0,  # so that the intervals of the first and the last count stand free
    )
    lines = []
    for index, (label, line) in enumerate(series):
        aside = 4.0 * (index - (len(series) - 1) / 2)  # lines of one count lie beside each other
        whiskers = tuple(
            Whisker(round(frame.x(math.log(count)) + aside, 1), *map(frame.y, values))
            for count, *values in line
        )
        points = " ".join(f"{each.x:g},{each.y:g}" for each in whiskers)
        lines.append(Line(points, label, whiskers))
    return LinePlot(frame, tuple(lines), zero=frame.y(0.0))
