"""Marks of charts: lines, dots and rules in data units → paths of SVG.

Colours are the style sheet's: tones ``t0`` and ``t1`` are the two sides of a comparison, ``t2`` is
what is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from alignkit.report.axis import LaidAxis, Ranged, spread
from alignkit.text.numbers import shorten

TONES = ("t0", "t1", "t2", "t3")
"""Colours and dashes of lines, in turn."""
LETTER = 6.25
"""Width of a letter at 11 px, rather more than less."""
LINE = 14.0
"""Height of a line of text."""
_LETTERS = 60
"""Most letters of a label within a chart."""

Held: TypeAlias = Sequence[tuple[Ranged | None, Ranged | None]]
"""Values of both axes that a chart must hold."""
DotShape: TypeAlias = Literal["circle", "square", "diamond", "cross", "level", "tick"]
_SHAPES: dict[DotShape, str] = {
    "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "m-4.5-4.5h9v9h-9z",
    "diamond": "m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z",
    "cross": "m-3-3l6 6m0-6l-6 6",
    "level": "m0-9v18",
    "tick": "m0-8v16",
}


def number(value: float) -> str:
    """Write a coordinate."""
    return f"{round(value, 1):g}"


def strokes(*parts: str | float) -> str:
    """Write the data of a path: ``strokes("M", 1, 2, "h3")`` is ``M1 2h3``."""
    words = [each if isinstance(each, str) else f"{number(each)} " for each in parts]
    return "".join(words).replace(" -", "-").rstrip()


@dataclass(frozen=True, slots=True)
class Label:
    """Words in a chart, and where they stand."""

    x: float
    y: float
    """Of the base line."""
    anchor: str
    """``start``, ``middle`` or ``end``."""
    text: str

    @property
    def ends(self) -> tuple[float, float]:
        """Left and right end, about."""
        width = LETTER * len(self.text)
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width
        return left, left + width

    def meets(self, others: Iterable[Label]) -> bool:
        """Tell whether it would overlap one of some labels."""
        left, right = self.ends
        return any(
            abs(self.y - other.y) < LINE and left < other.ends[1] and other.ends[0] < right
            for other in others
        )


@dataclass(frozen=True, slots=True)
class Canvas:
    """The scales of a chart, and the labels that have their place."""

    x: LaidAxis
    y: LaidAxis
    head: float
    """Where the highest label of a rule stands."""
    labels: list[Label] = field(default_factory=list)


Strokes: TypeAlias = tuple[str, str]
"""A path: its classes, and its data."""


class DrawnMark(NamedTuple):
    """A mark in place, of one tone where it has one."""

    paths: Sequence[Strokes]
    tone: str = ""
    title: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points in the order given, on a band where they have intervals."""

    points: Sequence[tuple[float, Ranged]]
    tone: str = "t0"
    key: str = ""
    """Words of the legend."""
    loose: bool = False
    """Whether it is only dots: thousands of elements would make a page large and slow."""
    href: ClassVar[str] = ""

    def values(self) -> Held:
        return self.points

    def draw(self, on: Canvas) -> DrawnMark:
        spots = [(on.x(x), on.y(y)) for x, y in self.points]
        if self.loose:
            dots = "".join(strokes("M", x, y, "h0") for x, y in spots)
            return DrawnMark([(f"cloud {self.tone}", dots)])
        ends = [spread(y) for _, y in self.points]
        low = [(x, on.y(each.low)) for (x, _), each in zip(spots, ends, strict=True)]
        top = [(x, on.y(each.high)) for (x, _), each in zip(spots, ends, strict=True)]
        line = (f"line {self.tone}", _line(spots))
        # an interval of no width has no band
        band = (f"band {self.tone}", _line([*low, *top[::-1]]) + "z")
        return DrawnMark([band, line] if low != top else [line])

    def sample(self) -> Strokes:
        """Draw it for a legend, in 26 by 12 pixels."""
        return (f"cloud {self.tone}", "M13 6h0") if self.loose else (f"line {self.tone}", "M0 6h26")


def _line(spots: Sequence[tuple[float, float]]) -> str:
    """Join points, each place once; one alone is a short stroke."""
    places = [at for at, _ in groupby((round(x, 1), round(y, 1)) for x, y in spots)]
    parts = [part for at, (x, y) in enumerate(places) for part in ("L" if at else "M", x, y)]
    return strokes(*parts, *(("m-2 0h4",) if len(places) == 1 else ()))


@dataclass(frozen=True, slots=True)
class Dot:
    """A value of both axes, with an interval on each that has one."""

    x: Ranged
    y: Ranged
    tone: str = "t0"
    shape: DotShape = "circle"
    key: str = ""
    title: str = ""
    """All of it in words, for the pointer."""
    href: str = ""
    label: str = ""
    """Beside it, where there is room."""

    def values(self) -> Held:
        return ((self.x, self.y),)

    def draw(self, on: Canvas) -> DrawnMark:
        x, y, wide, high = on.x(self.x), on.y(self.y), spread(self.x), spread(self.y)
        paths = [(f"dot {self.shape}", strokes("M", x, y, _SHAPES[self.shape]))]
        if (wide.low, high.low) != (wide.high, high.high):  # below the dot
            across = "M", on.x(wide.low), y, "H", on.x(wide.high)
            paths.insert(
                0, ("whisker", strokes(*across, "M", x, on.y(high.low), "V", on.y(high.high)))
            )
        around = ((8, -7, "start"), (-8, -7, "end"), (8, 15, "start"), (-8, 15, "end"))
        places = [Label(x + dx, y + dy, anchor, self.label) for dx, dy, anchor in around]
        free = [each for each in places if self.label and not each.meets(on.labels)]
        on.labels.extend(free[:1])
        return DrawnMark(paths, self.tone, self.title, self.href)

    def sample(self) -> Strokes:
        return f"dot {self.tone} {self.shape}", strokes("M", 13, 6, _SHAPES[self.shape])


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A line across the chart at a value of one axis."""

    x: float | None = None
    y: float | None = None
    dashed: bool = False
    label: str = ""
    """Above the chart, of a rule of the horizontal axis."""
    key: ClassVar[str] = ""
    href: ClassVar[str] = ""

    def values(self) -> Held:
        return ((self.x, self.y),)

    def draw(self, on: Canvas) -> DrawnMark:
        d = "" if self.y is None else strokes("M", on.x.start, on.y(self.y), "H", on.x.end)
        if self.x is not None:
            x, (top, bottom) = on.x(self.x), sorted((on.y.start, on.y.end))
            if self.label:
                text = shorten(self.label, _LETTERS)
                side, anchor = (
                    (4, "start") if x + 4 + LETTER * len(text) <= on.x.end else (-4, "end")
                )
                # each on a line of its own, so that none meets another
                top = on.head + LINE * len(on.labels)
                on.labels.append(Label(x + side, top, anchor, text))
                top -= 9
            d = strokes("M", x, top, "V", bottom)
        return DrawnMark([("rule dashed" if self.dashed else "rule", d)])


PlotMark: TypeAlias = Line | Dot | RuleLine
