"""Labels of dots in a chart, placed so that they cover neither each other nor a dot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from alignkit.report.charts import Frame
from alignkit.report.figures.figure_view import Label

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom."""
_DOT = 6.0
"""Half the side of the square that a dot keeps free."""
_RINGS = (9.0, 20.0, 34.0, 50.0, 70.0)
"""Distances of a label from its dot; beyond the first a line joins them."""


@dataclass(frozen=True, slots=True)
class DotLabel:
    """A label, and whether a line leads to it from its dot."""

    label: Label
    led: bool


def dot_labels(
    dots: Mapping[int, tuple[float, float]],
    names: Mapping[int, str],
    lines: Sequence[Box],
    frame: Frame,
) -> dict[int, DotLabel]:
    """Write beside each dot its number and name, or its number alone where that has no room.

    ``dots`` are places by number and ``names`` those to be written, the most important first; one
    without any room has no label. ``lines`` are crossed only where nothing else is free.
    """
    taken: dict[int, DotLabel] = {}
    for number, name in names.items():
        for text, rings in ((f"{number} {name}", _RINGS[:2]), (str(number), _RINGS)):
            free = [
                each
                for each in _inside(text, rings, dots[number], frame)
                if not any(each.label.meets(other.label) for other in taken.values())
                and not any(_covers(each.label, *dot, *dot) for dot in dots.values())
                and (each.led or _is_nearest(each.label, number, dots))
            ]
            if free:
                taken[number] = min(free, key=lambda each: _worse(each, lines))
                break
    return taken


def _worse(placed: DotLabel, lines: Sequence[Box]) -> int:
    """Rate a place: a label on a line is legible, and one that a line leads to is worse."""
    crossed = sum(_covers(placed.label, *line, room=0.0) for line in lines)
    return crossed + 3 * placed.led


def _inside(
    text: str, rings: Sequence[float], at: tuple[float, float], frame: Frame
) -> Iterator[DotLabel]:
    """Yield labels about a dot inside the chart, the nearest first, and whether a line leads."""
    for far in rings:
        for label in _around(text, far, *at):
            left, right = label.ends
            # half a line above and below the base line's letters
            below = frame.top + 10 < label.y < frame.bottom - 3
            if frame.left < left and right < frame.width - 2 and below:
                yield DotLabel(label, far > _RINGS[0])


def _around(text: str, far: float, x: float, y: float) -> Iterator[Label]:
    """Yield places about a dot, first those between its intervals."""
    slant = 0.8 * far
    for down in (-slant, slant + 8):
        yield Label(round(x + slant, 1), round(y + down, 1), "start", text)
        yield Label(round(x - slant, 1), round(y + down, 1), "end", text)
    yield Label(round(x + far, 1), round(y + 4, 1), "start", text)
    yield Label(round(x - far, 1), round(y + 4, 1), "end", text)
    yield Label(round(x, 1), round(y - far, 1), "middle", text)
    yield Label(round(x, 1), round(y + far + 8, 1), "middle", text)


def _is_nearest(label: Label, number: int, places: Mapping[int, tuple[float, float]]) -> bool:
    """Tell whether no other dot is nearer to a label than its own, so that nobody mistakes it."""
    left, right = label.ends

    def distance(at: tuple[float, float]) -> float:
        x, y = at
        beside = max(left - x, 0.0, x - right)
        return math.hypot(beside, max(label.y - 10 - y, 0.0, y - label.y - 3))

    return distance(places[number]) <= min(map(distance, places.values()))


def _covers(
    label: Label, left: float, top: float, right: float, bottom: float, room: float = _DOT
) -> bool:
    """Tell whether a label lies on a box, of which ``room`` more on each side is kept free."""
    start, end = label.ends
    beside = end + room < left or right + room < start
    # letters reach from 10 above the base line to 3 below it
    return not (beside or label.y + 3 + room < top or bottom + room < label.y - 10)
