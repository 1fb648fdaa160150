"""The curves of a row's models along lines of pixels whose far end no cell of the run is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.linear_answers import LinearAnswers, bent_turning_points, turning_points
from alignkit.errors import NothingCompared
from alignkit.findings.checked_lines import CHECK_AT, checked_line, drawn_rows
from alignkit.findings.line_models import LineModels, LineSession, PixelLine
from alignkit.findings.pixel_curves import curve
from alignkit.findings.stored_row import StoredRow
from alignkit.outcome import Measured, capture
from alignkit.record.tolerance_facts import SeedCurve, is_open, least_value

PASSES = 1 + len(CHECK_AT)
"""Times that a network is run on the images of a line: at its far end, and for the check."""
_Line = TypeVar("_Line")


@dataclass(slots=True, eq=False)
class LineCurves:
    """The curves of a row's models along one line."""

    ids: tuple[str, ...] = ()
    """The images: at most 1,000, that all sides of the line decoded."""
    size: float | None = None
    """Mean |Δ| at 1, grey levels."""
    curves: list[SeedCurve] = field(default_factory=list)
    turns: list[FloatArray] = field(default_factory=list)
    """Of each curve (images,), where each answer changes by the line or the quadratic."""
    reason: str = ""

    @property
    def factor(self) -> float | None:
        """The least limit of the seeds; ``None`` if one has none."""
        return least_value([each.limit for each in self.curves])

    @property
    def open_end(self) -> bool:
        """Whether ``factor`` is a lower bound."""
        return is_open([each.limit for each in self.curves])


def drawn_ids(row: StoredRow) -> tuple[str, ...]:
    """Draw at most 1,000 of a row's images."""
    home = row.home(next(iter(row.homes)))
    return tuple(home.ids[each] for each in drawn_rows(len(home)))


def curves_along(
    row: StoredRow,
    models: LineModels,
    lines: Mapping[_Line, PixelLine | str],
    budget: float,
    advance: Callable[[int], None],
) -> dict[_Line, LineCurves]:
    """Draw each line's curve for each seed's model; a line may be the reason why it is missing.

    ``advance`` is called with the passes of the network that are done.
    """
    found = {key: _measured(row, each) for key, each in lines.items()}
    advance(PASSES * len(row.homes) * sum(bool(each.reason) for each in found.values()))
    for seed in row.homes:
        open_lines = {
            each: found[key]
            for key, each in lines.items()
            if not (isinstance(each, str) or found[key].reason)
        }

        def work(seed: int = seed, todo: dict[PixelLine, LineCurves] = open_lines) -> None:
            with models.opened(row, seed) as session:
                for line, kept in todo.items():
                    try:
                        _add(kept, row, seed, session, line, budget, advance)
                    except NothingCompared as error:
                        kept.reason = str(error)

        ended = capture(work)
        if not isinstance(ended, Measured):
            for kept in open_lines.values():
                kept.reason = kept.reason or ended.message
    return found


def _measured(row: StoredRow, line: PixelLine | str) -> LineCurves:
    """Find the images of a line and its size; a reason where it changes no pixel."""
    if isinstance(line, str):
        return LineCurves(reason=line)
    common = tuple(each for each in drawn_ids(row) if all(each in s.decoded for s in line.sides))
    if not common:
        return LineCurves(reason="no image was decoded on both sides of it")
    try:
        line.batch(common[:1], 1.0)
        size = line.mean_levels(common)
    except NothingCompared as error:
        return LineCurves(reason=str(error))
    return LineCurves(common, size, reason="" if size else "it changes no pixel of these images")


def _add(
    kept: LineCurves,
    row: StoredRow,
    seed: int,
    session: LineSession,
    line: PixelLine,
    budget: float,
    advance: Callable[[int], None],
) -> None:
    def at(images: LinearAnswers, factor: float) -> LinearAnswers:
        answered = session.answers_along(line, images.ids, factor)
        advance(1)
        return answered

    home = row.home(seed)
    places = {name: place for place, name in enumerate(home.ids)}
    home = home.rows(np.array([places[each] for each in kept.ids if each in places], np.int64))
    end = at(home, 1.0)
    names = row.record.task.matrices
    checked = checked_line(home, end, at, names)
    found = curve(seed, home, end, budget, checked, names)
    kept.curves.append(found)
    bent = checked.bent if found.source == "quadratic, checked" else None
    turns = bent_turning_points(home, bent.middle, end) if bent else turning_points(home, end)
    kept.turns.append(turns)
