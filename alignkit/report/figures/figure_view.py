"""Views of the figures that a task gives: a `Figure` → the coordinates of its inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from alignkit.record import Figure, Series
from alignkit.report.charts import Frame, nice_ticks
from alignkit.report.table import Notes, RowCells, Table, numbers
from alignkit.text.numbers import count, listed, shorten, significant, written

_ROWS = 21
"""Most rows of a figure's table."""
_LINE = 14.0
"""Height of a line of text."""
_LETTER = 6.25
"""Width of a letter at 11 px, rather more than less."""
_LETTERS = 60
"""Of a label in the chart, for which there is room."""
_TONES = {"reference": "l0", "candidate": "l1", "": "l2"}
"""Side → the colour and dashes of its lines; those of a page's other charts."""


@dataclass(frozen=True, slots=True)
class FigureLine:
    """A series as it is drawn."""

    path: str
    """SVG path."""
    tone: str
    """Classes of the style sheet."""
    label: str
    """Its name with that of its side."""


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
        width = _LETTER * len(self.text)
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width
        return left, left + width

    def meets(self, other: Label) -> bool:
        """Tell whether two labels would overlap."""
        (left, right), (start, end) = self.ends, other.ends
        return abs(self.y - other.y) < _LINE and left < end and start < right


@dataclass(frozen=True, slots=True)
class FigureMark:
    """A marked position: a vertical line below its label."""

    x: float
    label: Label


@dataclass(frozen=True, slots=True)
class FigureView:
    """A figure as it is drawn, with its words and the numbers of its lines."""

    frame: Frame
    lines: tuple[FigureLine, ...]
    marks: tuple[FigureMark, ...]
    labels: tuple[Label, ...]
    """Of the marks and, where several kinds of lines are drawn, their names at their peaks."""
    description: str
    """For readers who do not see it."""
    note: str
    table: Table


def figure_view(
    figure: Figure,
    *,
    id: str,  # noqa: A002 - the attribute it becomes
    sides: tuple[str, str],
    of: str = "",
) -> FigureView:
    """Draw a figure; ``sides`` name the reference and the candidate in its legend.

    ``of`` names what is compared, in the caption of its table.

    An axis of values that lie far from 0 need not begin there; a logarithmic one has powers of ten.
    """
    labels = [_label(each, sides) for each in figure.series]
    kinds = list(dict.fromkeys(each.name for each in figure.series))
    frame = _frame(figure, id)
    marks = _marks(figure, frame)
    # the name of the axis, the labels of marks, and a line for names above the highest peak
    rows = len({each.label.y for each in marks})
    top = _LINE * (1 + rows + (len(kinds) > 1)) + 6
    frame = _lowered(frame, top)
    return FigureView(
        frame,
        tuple(
            FigureLine(
                _path([_spot(frame, figure, x, y) for x, y in zip(each.x, each.y, strict=True)]),
                _TONES[each.side] + (" thin" if each.name != kinds[0] else ""),
                label,
            )
            for each, label in zip(figure.series, labels, strict=True)
        ),
        marks,
        (*(each.label for each in marks), *(_names(figure, frame) if len(kinds) > 1 else ())),
        _description(figure, labels),
        figure.note,
        _table(figure, labels, of),
    )


def _label(series: Series, sides: tuple[str, str]) -> str:
    side = {"reference": sides[0], "candidate": sides[1], "": ""}[series.side]
    return ", ".join(filter(None, (series.name, side)))


def _frame(figure: Figure, id: str) -> Frame:  # noqa: A002
    xs = [x for each in figure.series for x in each.x] + [each.x for each in figure.marks]
    ys = [y for each in figure.series for y in each.y]
    texts = None
    if figure.x_scale == "log":
        low, high = math.floor(math.log10(min(xs)) + 1e-9), math.ceil(math.log10(max(xs)) - 1e-9)
        powers = range(low, max(high, low + 1) + 1)
        step = math.ceil(len(powers) / 7)  # of many decades not every one has its text
        x_marks = [float(power) for power in powers]
        texts = [_power(power) if not (power - high) % step else "" for power in powers]
    else:
        x_marks = nice_ticks(min(xs), max(xs))
    return Frame(
        id, figure.title, x_marks, _heights(ys), figure.x_label, figure.y_label, x_texts=texts
    )  # fmt: skip


def _heights(ys: Sequence[float]) -> list[float]:
    """Return marks of the vertical axis, which begins at 0 unless all lies far from it."""
    low, high = min(ys), max(ys)
    far = low > 0 and high - low < low
    return nice_ticks(low if far else min(low, 0.0), high, wanted=6)


def _power(power: int) -> str:
    return written(10.0**power, "g") if -5 < power < 4 else f"1e{power}"


def _lowered(frame: Frame, top: float) -> Frame:
    """Make room above the lines; the chart grows by it."""
    more = top - frame.top
    return replace(frame, height=frame.height + more, top=top, bottom=frame.bottom + more)


def _across(frame: Frame, figure: Figure, x: float) -> float:
    return frame.x(math.log10(x) if figure.x_scale == "log" else x)


def _spot(frame: Frame, figure: Figure, x: float, y: float) -> tuple[float, float]:
    return _across(frame, figure, x), frame.y(y)


def _path(spots: Sequence[tuple[float, float]]) -> str:
    """Join points, without those that lie on a straight line between their neighbours."""
    kept: list[tuple[float, float]] = []
    for spot in spots:
        if kept and spot == kept[-1]:
            continue
        if len(kept) > 1 and _straight(kept[-2], kept[-1], spot):
            kept.pop()
        kept.append(spot)
    first, *others = kept
    lines = " ".join(f"{x:g} {y:g}" for x, y in others or [first])  # one point is a dot
    return f"M{first[0]:g} {first[1]:g}L{lines}"


def _straight(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Tell whether three points go on in one direction."""
    first, second = (b[0] - a[0], b[1] - a[1]), (c[0] - b[0], c[1] - b[1])
    cross = first[0] * second[1] - first[1] * second[0]
    return abs(cross) < 1e-9 and first[0] * second[0] + first[1] * second[1] > 0


def _marks(figure: Figure, frame: Frame) -> tuple[FigureMark, ...]:
    """Place the labels of marks above the chart, in as many rows as keep them apart."""
    placed: list[Label] = []
    marks = []
    for each in sorted(figure.marks, key=lambda mark: mark.x):
        x = _across(frame, figure, each.x)
        text = f"{shorten(each.label, _LETTERS)}: {significant(each.x)}"
        starts = x + 4 + _LETTER * len(text) <= frame.right + 10
        label = Label(x + (4 if starts else -4), 2 * _LINE, "start" if starts else "end", text)
        label = _free(label, placed)
        placed.append(label)
        marks.append(FigureMark(x, label))
    return tuple(marks)


def _free(label: Label, placed: Iterable[Label]) -> Label:
    """Lower a label until it meets no other one."""
    known = list(placed)
    while any(label.meets(each) for each in known):
        label = Label(label.x, label.y + _LINE, label.anchor, label.text)
    return label


def _names(figure: Figure, frame: Frame) -> tuple[Label, ...]:
    """Write each name once, above the peak of its first series."""
    found: list[Label] = []
    for name in dict.fromkeys(each.name for each in figure.series):
        first = next(each for each in figure.series if each.name == name)
        x, y = _spot(frame, figure, *max(zip(first.x, first.y, strict=True), key=lambda at: at[1]))
        text = shorten(name, _LETTERS)
        half = _LETTER * len(text) / 2
        x = min(max(x, frame.left + half), frame.right - half)
        found.append(_free(Label(round(x, 1), y - 5, "middle", text), found))
    return tuple(found)


def _description(figure: Figure, labels: Sequence[str]) -> str:
    xs = [x for each in figure.series for x in each.x]
    scale = ", logarithmic" if figure.x_scale == "log" else ""
    ends = f"from {significant(min(xs))} to {significant(max(xs))}"
    words = [
        f"{figure.y_label} over {figure.x_label}{scale}, {ends}",
        f"{count(len(labels), 'line')}: {'; '.join(labels)}",
    ]
    if figure.marks:
        marks = [f"{each.label} at {significant(each.x)}" for each in figure.marks]
        words.append(f"marked: {listed(marks)}")
    return ". ".join(words) + ". The table below contains numbers of the lines."


def _table(figure: Figure, labels: Sequence[str], of: str) -> Table:
    """Return values of all lines at some of their places, from the first to the last."""
    every = sorted({x for each in figure.series for x in each.x})
    steps = min(_ROWS, len(every)) - 1
    chosen = [every[round(at * (len(every) - 1) / max(steps, 1))] for at in range(steps + 1)]
    values = [dict(zip(each.x, each.y, strict=True)) for each in figure.series]
    notes = Notes()
    rows: list[RowCells] = [
        (
            significant(x, 4),
            *(notes.number(at.get(x), significant, "the line has no point here") for at in values),
        )
        for x in chosen
    ]
    some = f", {len(chosen)} of {len(every)} places" if len(chosen) < len(every) else ""
    caption = f"{figure.title}{', ' * bool(of)}{of}: {figure.y_label}{some}"
    return Table.of(caption, numbers(figure.x_label, *labels), rows, notes=notes)
