"""Axes of charts: their ends and round marks, and where a value lies between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from alignkit.record import Estimate
from alignkit.text.numbers import written

AxisKind: TypeAlias = Literal["linear", "log", "root"]
_BENT: dict[AxisKind, Callable[[float], float]] = {
    "linear": float,
    "log": math.log10,
    "root": math.sqrt,  # zero has its place, and small shares stand apart
}
_APART = 0.09
"""Least distance of two marks of a square root, as a share of its axis: their texts do not meet."""
_DECADES = 7
"""Most steps of a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval, in data units."""

    value: float
    low: float
    high: float


Ranged: TypeAlias = float | Interval


def spread(value: Ranged) -> Interval:
    """Return a value with its interval, of no width where none is known."""
    return value if isinstance(value, Interval) else Interval(value, value, value)


def drawn(estimate: Estimate, scale: float = 100) -> Interval | None:
    """Return where an estimate lies in a chart; a point where it has no interval."""
    if estimate.value is None:
        return None
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return Interval(scale * estimate.value, scale * low, scale * high)


def plain_mark(mark: float) -> str:
    """Write a mark."""
    return written(mark, "g")


def signed_mark(mark: float) -> str:
    """Write a mark with its sign; zero has none."""
    return written(mark, "+g")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One direction of a chart, before it is known what lies on it."""

    name: str = ""
    kind: AxisKind = "linear"
    rows: tuple[str, ...] = ()
    """Names of categories, which lie at 0, 1, 2 … from the top, instead of numbers."""
    beside: tuple[str, ...] = ()
    """Words at the other end of each row."""
    holds: tuple[float, ...] = ()
    """Values that are in view, whatever is drawn."""
    ticks: tuple[float, ...] = ()
    """Marks in ascending order, of which the outer ones are the ends; else round ones."""
    text: Callable[[float], str] = plain_mark
    """Writes a mark."""

    def marks(self, values: Iterable[float], *, upright: bool = False) -> tuple[float, ...]:
        """Return the marks of an axis that holds some values.

        One that stands ``upright`` begins at 0 unless all values lie far from it.
        """
        if self.ticks or self.rows:
            return self.ticks
        held = (*values, *self.holds)
        low, high = min(held), max(held)
        if self.kind == "log":
            return log_ticks(low, high)
        if self.kind == "root":
            return root_ticks(high)
        if upright and not 0 < high - low < low:
            low = min(low, 0.0)
        room = abs(low) / 10 if low == high else 0.0  # marks around a value that stands alone
        return nice_ticks(low - room, high + room)


@dataclass(frozen=True, slots=True)
class LaidAxis:
    """An axis with its marks, laid from one position to another."""

    axis: Axis
    marks: tuple[float, ...]
    start: float
    end: float
    inset: float = 0.0
    """From both positions to the outer marks."""

    def __call__(self, value: Ranged) -> float:
        """Place a value."""
        at = spread(value).value
        if self.axis.rows:
            return self.start + (at + 0.5) / len(self.axis.rows) * (self.end - self.start)
        bent = _BENT[self.axis.kind]
        low, high, at = bent(self.marks[0]), bent(self.marks[-1]), bent(at)
        inset = math.copysign(self.inset, self.end - self.start)
        share = (at - low) / (high - low or 1.0)  # a single mark spans nothing
        return self.start + inset + share * (self.end - self.start - 2 * inset)


def nice_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return about five round numbers that cover ``low`` … ``high``; steps 1, 2, 5 x 10^k."""
    raw = max(high - low, 1e-9) / 4
    power = 10 ** math.floor(math.log10(raw))
    # the tolerances keep a step that is round in decimals from being missed by its binary error
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(index * step, 10) for index in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return powers of ten that cover ``low`` … ``high``; of many every second or third one."""
    # the tolerances keep a power of ten from being missed by its binary error
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    step = math.ceil((last - first) / _DECADES)
    first = last - step * math.ceil((last - first) / step)
    return tuple(10.0**power for power in range(first, last + 1, step))


def root_ticks(most: float) -> tuple[float, ...]:
    """Return round numbers from 0 to ``most`` or more, apart on a scale of square roots."""
    rounds = [step * 10.0**power for power in range(-4, 9) for step in (1, 2, 3, 5)]
    # an axis has some length, also if all is zero
    marks = [next(each for each in rounds if each >= max(most, 1e-3) - 1e-12)]
    for mark in reversed(rounds):
        share = math.sqrt(mark / marks[-1])
        if math.sqrt(marks[0] / marks[-1]) - share >= _APART <= share:
            marks.insert(0, round(mark, 10))
    return (0.0, *marks)
