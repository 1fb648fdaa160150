"""Charts: marks on axes → a figure with inline SVG, a legend, and words for all readers.

A view describes its chart in data units; a template shows it as any other value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from alignkit.report.axis import Axis, Interval, LaidAxis, Ranged, spread
from alignkit.report.marks import (
    LETTER,
    LINE,
    Canvas,
    Dot,
    Line,
    PlotMark,
    RuleLine,
    Strokes,
    number,
)
from alignkit.text.numbers import shorten

_ROW = 26.0
"""Height of a category."""
_WIDTHS = {"small": 280.0, "middle": 440.0, "wide": 620.0}
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
    words: str = "A table beside or below it contains the numbers."
    """What else a reader who does not see it should know."""
    note: str = ""
    size: Literal["middle", "small", "wide"] = "middle"
    """Its width."""
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
        return _ends([x for x, _ in every]), _ends([y for _, y in every])

    def canvas(self) -> tuple[Canvas, float]:
        """Lay out the axes; returns the height of all, too. More words make it higher."""
        xs, ys = self.values()
        x_marks, y_marks = self.x.marks(xs), self.y.marks(ys, upright=True)
        rows, rules = len(self.y.rows), [each for each in self.marks if isinstance(each, RuleLine)]
        left = 12 + LETTER * max(map(len, self.rows or map(self.y.text, y_marks)))
        right = self.width - max((16, *(8 + LETTER * len(each) for each in self.y.beside)))
        head = 14 + LINE * bool(self.y.name)
        top = head - 6 + LINE * sum(bool(each.label) for each in rules)
        bottom = top + (_ROW * rows or self.height)
        y = LaidAxis(self.y, y_marks, *((top, bottom) if rows else (bottom, top)))
        x = LaidAxis(self.x, x_marks, left, right, self.inset)
        return Canvas(x, y, head), bottom + 22 + LINE * bool(self.x.name)

    def __html__(self) -> str:
        """Return the figure with its caption and legend."""
        from alignkit.report.templates import html  # late, as of a table

        on, height = self.canvas()
        keys: dict[str, Strokes] = {}  # a legend names each once
        for each in self.marks:
            if not isinstance(each, RuleLine) and each.key and each.key not in keys:
                keys[each.key] = each.sample()
        return html(
            "plot.html.j2",
            plot=self,
            on=on,
            height=height,
            at=number,
            said=self._said(on),
            linked=any(each.href for each in self.marks),
            # labels are of the canvas once all marks are drawn
            marks=[each.draw(on) for each in self.marks],
            keys=keys,
        )

    def _said(self, on: Canvas) -> str:
        """Say its axes and what is drawn, for readers who do not see it."""
        said = [
            f"{laid.axis.name}, from {laid.axis.text(laid.marks[0])} to "
            f"{laid.axis.text(laid.marks[-1])}"
            for laid in (on.y, on.x)
            if laid.axis.name
        ]
        said += dict.fromkeys(each.key for each in self.marks if each.key)
        said += [each.label for each in self.marks if isinstance(each, RuleLine) and each.label]
        return ". ".join(filter(None, ("; ".join(said), self.words)))

    @property
    def rows(self) -> list[str]:
        """Return the names of its categories, as long as there is room for."""
        return [shorten(each, int(self.width / 16)) for each in self.y.rows]


def _ends(values: Sequence[Ranged | None]) -> list[float]:
    """Return both ends of each value that is given."""
    known = [spread(each) for each in values if each is not None]
    return [end for each in known for end in (each.low, each.high)]


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
