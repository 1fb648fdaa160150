"""Amounts that add up, such as mean times of stages → stacked bars, a row for each option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from alignkit.report.charts import Frame, nice_ticks
from alignkit.text.bench_words import three_digits
from alignkit.text.numbers import shorten_middle

_STEP = 24.0
_LETTER = 6.25
_LETTERS = 34


class Amounts(NamedTuple):
    """The amounts of one bar."""

    name: str
    parts: Mapping[Any, float]  # the keys of a mapping are invariant, and stages have literals
    """Part, a text → amount; a part that is not known is left out."""
    text: str
    """Behind the bar."""


@dataclass(frozen=True, slots=True)
class StagePart:
    """A stage of one bar."""

    stage: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class StageBar:
    """An option: its stages from left to right, in the order of a request."""

    label: str
    y: float
    parts: tuple[StagePart, ...]
    end: float
    text: str
    title: str
    """All of it in words."""


@dataclass(frozen=True, slots=True)
class StagePlot:
    """Bars of several options."""

    frame: Frame
    bars: tuple[StageBar, ...]
    stages: tuple[str, ...]
    """Those that any option shows; none is named where there is no other."""


def stage_plot(
    rows: Sequence[Amounts],
    stages: Sequence[str],
    title: str,
    unit: str = "milliseconds",
    *,
    id: str,  # noqa: A002 - the attribute it becomes
) -> StagePlot:
    """Draw the amounts of each row, of ``stages`` in their order."""
    names = [shorten_middle(each.name, _LETTERS) for each in rows]
    most = max(sum(each.parts.values()) for each in rows)
    bottom = 12.0 + _STEP * len(rows)
    frame = Frame(
        id,
        title,
        nice_ticks(0.0, most or 1.0, wanted=5),
        [0.0],
        x_name=unit,
        width=620.0,
        height=bottom + 36,
        left=18 + _LETTER * max(map(len, names)),
        # a text stands behind its bar
        right=min(560.0, 614.0 - _LETTER * max(len(each.text) for each in rows)),
        top=8.0,
        bottom=bottom,
    )
    bars = []
    for index, (row, name) in enumerate(zip(rows, names, strict=True)):
        begin, parts, said = 0.0, [], []
        for stage in (each for each in stages if each in row.parts):
            taken, x = row.parts[stage], frame.x(begin)
            begin += taken
            said.append(f"{stage} {three_digits(taken)}" if len(stages) > 1 else row.text)
            if taken:
                parts.append(StagePart(stage, x, round(frame.x(begin) - x, 1)))
        title = f"{row.name}: {', '.join(said)} {unit}"
        y = 12.0 + _STEP * (index + 0.5)
        bars.append(StageBar(name, y, tuple(parts), frame.x(begin), row.text, title))
    shown = [stage for stage in stages if any(stage in row.parts for row in rows)]
    return StagePlot(frame, tuple(bars), tuple(shown) if len(stages) > 1 else ())
