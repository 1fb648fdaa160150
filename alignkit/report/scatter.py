"""Coordinates of charts of many images; each series is one SVG path, so that a page stays small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.report.svg import Tick, nice_ticks
from alignkit.text.numbers import grouped

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 460.0, 230.0, 52.0, 40.0, 14.0, 10.0
MOST = 2_000
"""Images that did not flip and are drawn; those that flipped are all drawn."""
KNOTS = 200
"""Points of a distribution's line."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Axes."""

    id: str
    title: str
    x_name: str
    y_name: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


@dataclass(frozen=True, slots=True)
class Steps:
    """A cumulative distribution."""

    frame: Frame
    points: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """Two clouds: images whose prediction stayed, and those that flipped."""

    frame: Frame
    stayed: str
    """SVG path of dots."""
    flipped: str
    """SVG path of crosses."""
    stayed_words: str
    flipped_words: str


def steps(values: npt.NDArray[np.float32], *, id: str, title: str) -> Steps:  # noqa: A002 - the attribute it becomes
    """The empirical distribution of finite values, at `KNOTS` evenly spaced shares."""
    import numpy as np

    shares = np.linspace(0, 1, min(KNOTS, len(values)) + 1)
    xs = np.quantile(values, shares)
    frame, place = _frame((0.0, float(values.max())), (0.0, 1.0), id=id, title=title,
                          names=("mean |Δ|, grey levels", "share of images"))  # fmt: skip
    points = " ".join(f"{x:g},{y:g}" for x, y in map(place, xs.tolist(), shares.tolist()))
    return Steps(frame, points)


def scatter(
    drift: npt.NDArray[np.float32],
    margin: npt.NDArray[np.float32],
    flipped: npt.NDArray[np.bool_],
    *,
    id: str,  # noqa: A002
    title: str,
) -> Scatter:
    """(n,) each; images without drift or margin (NaN) are not drawn."""
    import numpy as np

    known = np.isfinite(drift) & np.isfinite(margin)
    stayed, lost = np.flatnonzero(known & ~flipped), np.flatnonzero(known & flipped)
    drawn = stayed[np.linspace(0, len(stayed) - 1, min(MOST, len(stayed))).astype(int)]
    ends = (0.0, float(margin[known].max(initial=0.0))), (0.0, float(drift[known].max(initial=0.0)))
    frame, place = _frame(*ends, id=id, title=title,
                          names=("margin of the model", "mean |Δ|, grey levels"))  # fmt: skip

    def placed(which: npt.NDArray[np.intp], mark: str) -> str:
        spots = (place(float(margin[each]), float(drift[each])) for each in which)
        return "".join(f"M{x:g} {y:g}{mark}" for x, y in spots)

    of = f", {grouped(len(drawn))} of them drawn" if len(drawn) < len(stayed) else ""
    return Scatter(
        frame,
        placed(drawn, "h0"),
        placed(lost, "m-3-3l6 6m0-6l-6 6"),
        f"{grouped(len(stayed))} kept their class{of}",
        f"{grouped(len(lost))} flipped",
    )


def _frame(
    x_ends: tuple[float, float],
    y_ends: tuple[float, float],
    *,
    id: str,  # noqa: A002
    title: str,
    names: tuple[str, str],
) -> tuple[Frame, _Place]:
    x_marks, y_marks = nice_ticks(*x_ends), nice_ticks(*y_ends)
    place = _Place(x_marks[0], x_marks[-1] - x_marks[0], y_marks[0], y_marks[-1] - y_marks[0])
    frame = Frame(
        id,
        title,
        *names,
        x_ticks=tuple(Tick(place(mark, 0.0)[0], f"{mark:g}") for mark in x_marks),
        y_ticks=tuple(Tick(place(0.0, mark)[1], f"{mark:g}") for mark in y_marks),
    )
    return frame, place


@dataclass(frozen=True, slots=True)
class _Place:
    """Data units → the chart's."""

    x_low: float
    x_span: float
    y_low: float
    y_span: float

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x_low) / (self.x_span or 1.0) * (WIDTH - LEFT - RIGHT)
        up = (y - self.y_low) / (self.y_span or 1.0) * (HEIGHT - BOTTOM - TOP)
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)
