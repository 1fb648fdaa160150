"""Charts: marks on axes → a figure with inline SVG, a legend, and words for all readers.

A view describes its chart in data units; a template shows it as any other value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from markupsafe import Markup

from alignkit.report.axis import Axis, Interval, LaidAxis, ends
from alignkit.report.marks import (
    LETTER,
    LINE,
    Canvas,
    Dot,
    Label,
    Line,
    PlotMark,
    RuleLine,
    element,
    number,
    strokes,
)
from alignkit.text.numbers import shorten

_ROW = 26.0
"""Height of a category."""
_WIDTHS = {"map": 192.0, "small": 280.0, "middle": 440.0, "wide": 620.0}
"""The style sheet's, too: a chart is never smaller, so that its letters stay legible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart, which a template shows as its figure."""

    title: str
    """Its name for readers who do not see it: no other chart of a page has it."""
    x: Axis
    y: Axis
    marks: Sequence[PlotMark]
    caption: str = ""
    """Above it; empty where a heading says what it is."""
    words: str = "The table beside it contains the numbers."
    """What else a reader who does not see it should know."""
    note: str = ""
    size: Literal["middle", "small", "wide", "map"] = "middle"
    """Its width; a map has no axes."""
    height: float = 180.0
    """Between the axes, of a chart without rows."""
    inset: float = 0.0
    """From the ends of the horizontal axis to its outer marks."""

    @property
    def width(self) -> float:
        """Return the width of all."""
        return _WIDTHS[self.size]

    @property
    def id(self) -> str:
        """Return what its title and words are found by."""
        return f"chart-{sha256(self.title.encode()).hexdigest()[:8]}"

    def values(self) -> tuple[list[float], list[float]]:
        """Return all that its axes must hold."""
        every = [at for each in self.marks for at in each.values()]
        return ends(x for x, _ in every), ends(y for _, y in every)

    def canvas(self) -> tuple[Canvas, float]:
        """Lay out the axes; returns the height of all, too. More words make it higher."""
        xs, ys = self.values()
        x_marks, y_marks = self.x.marks(xs), self.y.marks(ys, upright=True)
        rows, left, right, top, below = len(self.y.rows), 0.0, self.width, 0.0, 0.0
        if self.size != "map":
            heads = map(self._row, self.y.rows or self.y.texts(y_marks))
            left = 12 + LETTER * max(map(len, heads))
            right -= max((16, *(8 + LETTER * len(each) for each in self.y.beside)))
            top, below = 8 + LINE * bool(self.y.name), 22 + LINE * bool(self.x.name)
        head = top + LINE - 8
        top += LINE * sum(isinstance(each, RuleLine) and bool(each.label) for each in self.marks)
        top += LINE * any(isinstance(each, Line) and bool(each.label) for each in self.marks)
        bottom = top + (_ROW * rows or self.height)
        y = LaidAxis(self.y, y_marks, *((top, bottom) if rows else (bottom, top)))
        return Canvas(LaidAxis(self.x, x_marks, left, right, self.inset), y, head), bottom + below

    def __html__(self) -> str:
        """Write the figure."""
        on, height = self.canvas()
        marks = [part for each in self.marks for part in each.draw(on)]
        linked = any(isinstance(each, Dot) and each.href for each in self.marks)
        drawn = [
            element("title", self.title, id=f"{self.id}-title"),
            element("desc", self._said(on), id=f"{self.id}-words"),
            *(self._axes(on, height) if self.size != "map" else ()),
            *marks,
            *(each.svg() for each in on.labels),
        ]
        svg = element(
            "svg",
            Markup("\n").join(drawn),
            class_=f"chart {self.size}",
            viewBox=f"0 0 {number(self.width)} {number(height)}",
            role="group" if linked else "img",  # what an image holds cannot be reached
            aria_labelledby=f"{self.id}-title {self.id}-words",
        )
        # a narrow screen scrolls, so that letters stay legible
        name = f"Chart of {self.title}"
        parts = [element("div", svg, tabindex="0", role="region", aria_label=name)]
        if self.caption:
            parts.insert(0, element("figcaption", self.caption))
        keyed = [each for each in self.marks if not isinstance(each, RuleLine) and each.key]
        first = {each.key: each for each in reversed(keyed)}  # a legend names each once
        keys = [element("span", first[key].sample(), " ", key) for key in reversed(first)]
        parts += [element("p", *keys, class_="series")] if keys else []
        parts += [element("p", self.note, class_="notes")] if self.note else []
        return element("figure", *parts, class_="plot")

    def _said(self, on: Canvas) -> str:
        """Say its axes and what is drawn, for readers who do not see it."""
        axes = ((self.y, on.y.marks), (self.x, on.x.marks))
        said = [
            f"{axis.name}, from {axis.texts(marks)[0]} to {axis.texts(marks)[-1]}"
            for axis, marks in axes
            if axis.name
        ]
        said += dict.fromkeys(each.key for each in self.marks if not isinstance(each, RuleLine))
        said += [each.label for each in self.marks if isinstance(each, RuleLine)]
        return ". ".join(filter(None, ("; ".join(filter(None, said)), self.words)))

    def _row(self, text: str) -> str:
        return shorten(text, int(self.width / 16))

    def _axes(self, on: Canvas, height: float) -> Iterator[Markup]:
        left, right, (top, bottom) = on.x.start, on.x.end, sorted((on.y.start, on.y.end))
        upright = bool(self.y.rows) or self.x.kind != "linear"
        for mark, text in zip(on.x.marks, self.x.texts(on.x.marks), strict=True):
            if upright:
                yield element("path", class_="grid", d=strokes("M", on.x(mark), top, "V", bottom))
            yield Label(on.x(mark), bottom + 16, "middle", text).svg("")
        for mark, text in zip(on.y.marks, self.y.texts(on.y.marks), strict=True):
            yield element("path", class_="grid", d=strokes("M", left, on.y(mark), "H", right))
            yield Label(left - 6, on.y(mark) + 4, "end", text).svg("")
        for row, text in enumerate(self.y.rows):
            yield Label(left - 6, on.y(row) + 4, "end", self._row(text)).svg()
        for row, text in enumerate(self.y.beside):
            yield Label(right + 8, on.y(row) + 4, "start", text).svg()
        if self.x.name:
            yield Label(right, height - 6, "end", self.x.name).svg("")
        if self.y.name:
            yield Label(6, 12, "start", self.y.name).svg("")


def facets(plots: Sequence[Plot]) -> list[Plot]:
    """Give plots of one caption the same horizontal axis, so that they can be compared."""
    held: dict[str, list[float]] = {}
    for each in plots:
        held.setdefault(each.caption, []).extend(each.values()[0])
    return [replace(each, x=replace(each.x, holds=tuple(held[each.caption]))) for each in plots]


def dot_rows(
    rows: Sequence[tuple[str, Interval | None, Interval | None]],
    keys: tuple[str, str],
    *,
    joined: bool = False,
    **options: Any,
) -> Plot:
    """Describe two values a row, and zero in view; those of a row may be ``joined`` by a line."""
    marks: list[PlotMark] = [RuleLine(x=0)]
    for row, (_, first, second) in enumerate(rows):
        upper, lower = row - 0.16, row + 0.18
        if joined and first and second:
            marks.append(Line(((first.value, upper), (second.value, lower)), "t2 joined"))
        marks += [Dot(first, upper, "t0", "circle", keys[0])] if first else []
        marks += [Dot(second, lower, "t1", "diamond", keys[1])] if second else []
    return Plot(y=Axis(rows=tuple(label for label, *_ in rows)), marks=marks, **options)
