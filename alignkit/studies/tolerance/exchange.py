"""The exchange table: levels of one named difference that cost as much as a level of another.

Differences of outputs, as a precision makes them, stand in it with a unit of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np

from alignkit.arrays import Labels
from alignkit.compare.answers import aligned
from alignkit.compare.linear_answers import LinearAnswers, greatest_changes
from alignkit.compare.statistics import percentile_interval
from alignkit.errors import AlignkitError, NothingCompared
from alignkit.findings.line_models import LineModels, PixelLine
from alignkit.findings.pixel_curves import curve
from alignkit.findings.stored_row import StoredRow
from alignkit.record import Cell, Estimate
from alignkit.record.tolerance_facts import (
    OPEN_END,
    UNIT,
    DifferenceName,
    NamedTolerance,
    PixelDifference,
    SeedCurve,
)
from alignkit.studies.tolerance.lines import LineCurves, curves_along, drawn_ids
from alignkit.studies.tolerance.named_differences import NamedSwitch, named_switches

_NOT_RUN = "it takes passes of the run's models, which were not asked for"
_PRECISIONS: tuple[DifferenceName, ...] = ("fp16", "int8")
_RESAMPLES = 1000
_FEWEST = 5
"""Fewest images that may change for an interval: a quantile further out has no bootstrap."""


def named_lines(row: StoredRow, models: LineModels) -> dict[DifferenceName, PixelLine | str]:
    """Return the line of each named difference of pixels, or why there is none."""
    own = models.side(row.place.column.preprocess)
    ids = drawn_ids(row)
    lines: dict[DifferenceName, PixelLine | str] = {}
    for name, switch in named_switches(own.preprocess).items():
        if isinstance(switch, str):
            lines[name] = switch
            continue
        try:
            sides = [models.prepared_side(each, ids) for each in (switch.begin, switch.end)]
        except AlignkitError as error:
            lines[name] = str(error)
        else:
            lines[name] = PixelLine(own, *sides)
    return lines


def exchange(
    row: StoredRow, budget: float, models: LineModels | None, advance: Callable[[int], None]
) -> tuple[NamedTolerance, ...]:
    """Measure every named difference for a row's models; without ``models`` only those of outputs.

    ``advance`` is called with the passes of the networks that are done.
    """
    switches: Mapping[DifferenceName, NamedSwitch | str] = {}
    if models is None:
        made = {each: LineCurves(reason=_NOT_RUN) for each in get_args(PixelDifference)}
    else:
        path = models.side(row.place.column.preprocess).preprocess
        switches, lines = named_switches(path), named_lines(row, models)
        made = curves_along(row, models, lines, budget, advance)
    base = _costliest(made)
    rows = []
    for name, found in made.items():
        switch = switches.get(name, "")
        rows.append(
            _facts(
                row,
                name,
                "" if isinstance(switch, str) else switch.by,
                size=found.size or None,
                curves=found.curves,
                reason=found.reason,
                rate=None if base is None else exchange_rate(made[base], found),
            )
        )
    return (*rows, *_of_outputs(row, budget))


def _costliest(made: Mapping[DifferenceName, LineCurves]) -> DifferenceName | None:
    """Return the difference of which the fewest levels are borne, of those with a limit."""
    known: dict[DifferenceName | None, float] = {
        name: each.factor * each.size
        for name, each in made.items()
        if each.factor and each.size and not each.open_end
    }
    return min(known, key=lambda name: known[name], default=None)


def exchange_rate(base: LineCurves, other: LineCurves) -> Estimate | None:
    """Divide the levels borne of ``other`` by those of ``base``, with a paired interval.

    Images are resampled, with their turning points on both lines and for all models. ``None`` if
    ``other`` has no limit.
    """
    if not (base.factor and base.size and other.factor and other.size):
        return None
    value = (other.factor * other.size) / (base.factor * base.size)
    if base is other:
        return Estimate(1.0, None, None, UNIT)
    if other.open_end:
        return Estimate(value, None, None, OPEN_END)
    reason = _no_interval(base, other)
    if reason:
        return Estimate(value, None, None, reason)
    generator = np.random.default_rng(0)
    n = len(base.ids)
    draws = np.empty((1, _RESAMPLES))
    for each in range(_RESAMPLES):
        rows = generator.integers(0, n, n)
        draws[0, each] = _borne(other, rows) / _borne(base, rows)
    low, high = percentile_interval(draws)[:, 0]
    return Estimate(value, float(low), float(high))


def _no_interval(base: LineCurves, other: LineCurves) -> str:
    curves = [*base.curves, *other.curves]
    if any(_measured(each) for each in curves):
        return "one of the limits is a measured point"
    if base.ids != other.ids:
        return "the two are known of different images"
    fewest = min(each.limit.changed or 0 for each in curves)
    if fewest < _FEWEST:
        return f"{fewest} images may change, and an interval takes {_FEWEST}: give a greater budget"
    return ""


def _measured(curve: SeedCurve) -> bool:
    beyond = curve.source == "line to 1, measured beyond" and (curve.limit.value or 0.0) >= 1
    return beyond or curve.source == "measured points"


def _borne(found: LineCurves, rows: Labels) -> float:
    """Return the levels borne in a resample of the images: the least of the models."""
    pairs = zip(found.turns, found.curves, strict=True)
    places = [(turns[rows], each.limit.changed or 0) for turns, each in pairs]
    limits = [float(np.partition(turns, place)[place]) for turns, place in places]
    return min(limits) * (found.size or 0.0)


def _of_outputs(row: StoredRow, budget: float) -> list[NamedTolerance]:
    """Measure the differences that other precisions make on the row's own path."""
    own = row.place.column
    rows = []
    for name in _PRECISIONS:
        places = {
            place: cells
            for place, cells in row.others().items()
            if place.column.preprocess == own.preprocess and place.column.precision == name
        }
        if not places:
            why = f"the run evaluated no model in {name} on {own.preprocess}"
            rows.append(_facts(row, name, "", size=None, curves=(), reason=why, outputs=True))
        for place, cells in places.items():
            by = f"{own.backend} {own.precision} → {place.column.backend} {name}"
            try:
                sides = [aligned(row.home(each.seed), row.answers(each)) for each in cells]
            except NothingCompared as error:
                why = str(error)
                rows.append(_facts(row, name, by, size=None, curves=(), reason=why, outputs=True))
                continue
            rows.append(_row_of_outputs(row, name, by, cells, sides, budget))
    return rows


def _row_of_outputs(
    row: StoredRow,
    name: DifferenceName,
    by: str,
    cells: Sequence[Cell],
    sides: Sequence[tuple[LinearAnswers, LinearAnswers]],
    budget: float,
) -> NamedTolerance:
    metrics = row.record.task.matrices
    curves = [
        # a multiple of a difference of outputs is what it is: no network could contradict it
        curve(cell.seed, *both, budget, "", metrics).model_copy(
            update={"source": "multiples of the outputs"}
        )
        for cell, both in zip(cells, sides, strict=True)
    ]
    greatest = max(float(greatest_changes(*both).max()) for both in sides)
    finite = bool(np.isfinite(greatest))
    return _facts(
        row,
        name,
        f"{by}, {cells[0].simulation}" if cells[0].simulation else by,
        size=greatest if finite else None,
        curves=curves,
        reason="" if finite else "an output is not finite",
        outputs=True,
    )


def _facts(
    row: StoredRow,
    name: DifferenceName,
    by: str,
    *,
    size: float | None,
    curves: Sequence[SeedCurve],
    reason: str,
    rate: Estimate | None = None,
    outputs: bool = False,
) -> NamedTolerance:
    place = row.place.column
    factor = LineCurves(curves=list(curves)).factor
    return NamedTolerance(
        trained_with=str(row.place.row),
        backend=place.backend,
        precision=place.precision,
        reference=place.preprocess,
        factor=factor,
        seeds=tuple(curves),
        reason=reason,
        difference=name,
        by=by,
        unit="outputs" if outputs else "grey levels",
        size=size,
        borne=None if factor is None or size is None else factor * size,
        rate=rate,
    )
