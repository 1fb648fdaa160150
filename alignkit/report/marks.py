"""Marks of charts: lines, dots, rules and cells in data units → SVG.

Colours are the style sheet's: tones ``t0`` and ``t1`` are the two sides of a comparison, ``t2`` is
what is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, TypeAlias

from markupsafe import Markup, escape

from alignkit.report.axis import LaidAxis, Ranged, spread
from alignkit.text import printable
from alignkit.text.numbers import shorten

TONES = ("t0", "t1", "t2", "t3")
"""Colours and dashes of lines, in turn."""
SHADES = 10
"""Shades of a map, of equal width from 0 to its greatest cell."""
LETTER = 6.25
"""Width of a letter at 11 px, rather more than less."""
LINE = 14.0
"""Height of a line of text."""
_LETTERS = 60
"""Most letters of a label within a chart."""

Spot: TypeAlias = tuple[float, float]
DotShape: TypeAlias = Literal["circle", "square", "diamond", "cross", "level", "tick", "point"]
_SHAPES: dict[DotShape, str] = {
    "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "m-4.5-4.5h9v9h-9z",
    "diamond": "m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z",
    "cross": "m-3-3l6 6m0-6l-6 6",
    "level": "m0-9v18",
    "tick": "m0-8v16",
    "point": "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z",
}


def element(tag: str, *inside: str, **attributes: str | float) -> Markup:
    """Write an element: all that is no markup is escaped, and what is not seen is written out."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_said(value)}"'
        for name, value in attributes.items()
        if value != ""
    )
    body = "".join(each if isinstance(each, Markup) else _said(each) for each in inside)
    return Markup(f"<{tag}{given}>{body}</{tag}>")  # noqa: S704 - each part is escaped above


def _said(value: str | float) -> str:
    return str(escape(printable(value if isinstance(value, str) else number(value))))


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

    def lowered(self, others: Sequence[Label]) -> Label:
        """Return it at the first height downwards where it meets none of some labels."""
        free = self
        while free.meets(others):
            free = replace(free, y=free.y + LINE)
        return free

    def svg(self, class_: str = "label") -> Markup:
        """Write it."""
        return element(
            "text", self.text, class_=class_, x=self.x, y=self.y, text_anchor=self.anchor
        )


@dataclass(frozen=True, slots=True)
class Canvas:
    """The scales of a chart, and the labels that have their place."""

    x: LaidAxis
    y: LaidAxis
    head: float
    """Where the highest label of a rule stands."""
    labels: list[Label] = field(default_factory=list)

    def at(self, x: Ranged, y: Ranged) -> Spot:
        """Place a value of both axes."""
        return self.x(spread(x).value), self.y(spread(y).value)


def _sample(*inside: str, width: float = 14) -> Markup:
    return element("svg", *inside, width=width, height=12, aria_hidden="true")


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points in the order given, on a band where they have intervals."""

    points: Sequence[tuple[float, Ranged]]
    tone: str = "t0"
    key: str = ""
    """Words of the legend."""
    label: str = ""
    """Above its peak, within the chart, or as far below as no others stand."""
    loose: bool = False
    """Whether it is only dots: thousands of elements would make a page large and slow."""

    def values(self) -> Sequence[tuple[Ranged | None, Ranged | None]]:
        return self.points

    def draw(self, on: Canvas) -> Iterator[Markup]:
        spots = [on.at(*point) for point in self.points]
        if self.loose:
            dots = "".join(strokes("M", x, y, "h0") for x, y in spots)
            yield element("path", class_=f"cloud {self.tone}", d=dots)
            return
        ends = [spread(y) for _, y in self.points]
        low = [(x, on.y(each.low)) for (x, _), each in zip(spots, ends, strict=True)]
        top = [(x, on.y(each.high)) for (x, _), each in zip(spots, ends, strict=True)]
        if low != top:
            yield element("path", class_=f"band {self.tone}", d=_line([*low, *top[::-1]]) + "z")
        title = element("title", self.key) if self.key else Markup()
        yield element("path", title, class_=f"line {self.tone}", d=_line(spots))
        if self.label:
            x, y = min(spots, key=lambda at: at[1])
            text = shorten(self.label, _LETTERS)
            half = LETTER * len(text) / 2
            x = min(max(x, on.x.start + half), on.x.end - half)
            on.labels.append(Label(x, y - 5, "middle", text).lowered(on.labels))

    def sample(self) -> Markup:
        if self.loose:
            return _sample(element("path", class_=f"cloud {self.tone}", d="M7 6h0"))
        return _sample(element("path", class_=f"line {self.tone}", d="M0 6h26"), width=26)


def _line(spots: Sequence[Spot]) -> str:
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

    def values(self) -> Sequence[tuple[Ranged | None, Ranged | None]]:
        return ((self.x, self.y),)

    def draw(self, on: Canvas) -> Iterator[Markup]:
        (x, y), wide, high = on.at(self.x, self.y), spread(self.x), spread(self.y)
        parts = [element("title", self.title)] if self.title else []
        d = strokes("M", on.x(wide.low), y, "H", on.x(wide.high)) if wide.low < wide.high else ""
        d += strokes("M", x, on.y(high.low), "V", on.y(high.high)) if high.low < high.high else ""
        parts += [element("path", class_="whisker", d=d)] if d else []
        d = strokes("M", x, y, _SHAPES[self.shape])
        parts.append(element("path", class_=f"dot {self.shape}", d=d))
        # links of hundreds of dots are not stops of the keyboard: the list of images has them too
        link = {"href": self.href, "tabindex": "-1"} if self.href else {}
        yield element("a" if self.href else "g", *parts, class_=self.tone, **link)
        around = ((8, -7, "start"), (-8, -7, "end"), (8, 15, "start"), (-8, 15, "end"))
        places = [Label(x + dx, y + dy, anchor, self.label) for dx, dy, anchor in around]
        free = [each for each in places if self.label and not each.meets(on.labels)]
        on.labels.extend(free[:1])

    def sample(self) -> Markup:
        d = strokes("M", 7, 6, _SHAPES[self.shape])
        return _sample(element("path", class_=f"dot {self.tone} {self.shape}", d=d))


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A line across the chart at a value of one axis."""

    x: float | None = None
    y: float | None = None
    dashed: bool = False
    label: str = ""
    """Above the chart, of a rule of the horizontal axis."""

    def values(self) -> Sequence[tuple[Ranged | None, Ranged | None]]:
        return ((self.x, self.y),)

    def draw(self, on: Canvas) -> Iterator[Markup]:
        d = "" if self.y is None else strokes("M", on.x.start, on.y(self.y), "H", on.x.end)
        if self.x is not None:
            x, (top, bottom) = on.x(self.x), sorted((on.y.start, on.y.end))
            if self.label:
                text = shorten(self.label, _LETTERS)
                starts = x + 4 + LETTER * len(text) <= on.x.end + 10
                place = Label(
                    x + (4 if starts else -4), on.head, "start" if starts else "end", text
                )
                on.labels.append(place := place.lowered(on.labels))
                top = place.y - 9
            d = strokes("M", x, top, "V", bottom)
        yield element("path", class_="rule dashed" if self.dashed else "rule", d=d)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A map: a shade for each cell, from 0 to `SHADES`; a path for each shade."""

    shades: Sequence[Sequence[int]]
    key: str = ""
    """The greatest value."""

    def values(self) -> Sequence[tuple[Ranged | None, Ranged | None]]:
        return (0, 0), (len(self.shades[0]), len(self.shades))

    def draw(self, on: Canvas) -> Iterator[Markup]:
        paths: dict[int, list[str]] = {}
        for row, line in enumerate(self.shades):
            at, top = 0, len(self.shades) - row
            for shade, run in groupby(line):
                start, at = at, at + len(list(run))
                corners = on.x(start), on.y(top), "H", on.x(at), "V", on.y(top - 1)
                paths.setdefault(shade, []).append(strokes("M", *corners, "H", on.x(start), "z"))
        for shade, cells in sorted(paths.items()):
            yield _cell("".join(cells), shade)

    def sample(self) -> Markup:
        steps = (_cell(f"M{8 * at} 1h8v10h-8z", at) for at in range(SHADES))
        return Markup("0 ") + _sample(*steps, width=8 * SHADES)


def _cell(d: str, shade: int) -> Markup:
    return element("path", class_="cell", fill_opacity=f"{(shade + 0.4) / (SHADES - 0.6):.2f}", d=d)


PlotMark: TypeAlias = Line | Dot | RuleLine | HeatMap
