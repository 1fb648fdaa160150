"""The greatest |Δ output| within a budget of changed answers, and how far each cell is from it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.answers import aligned
from alignkit.compare.linear_answers import greatest_changes, greatest_safe_changes
from alignkit.errors import NothingCompared
from alignkit.findings.answer_limits import limit_of, rounded_down
from alignkit.findings.stored_row import StoredRow
from alignkit.record import Cell
from alignkit.record.tolerance_facts import CellReach, LogitTolerance, SeedLimit, least_value


def logit_tolerance(row: StoredRow, budget: float) -> LogitTolerance:
    """Find the tolerance of a row's models, and compare its other cells with it."""
    limits = tuple(_seed_limit(row, seed, budget) for seed in row.homes)
    least = least_value([each.limit for each in limits])
    atol = None if least is None else rounded_down(least)
    return LogitTolerance(
        **row.place.fields,
        atol=atol,
        seeds=limits,
        cells=tuple(_reach(row, cells, atol) for cells in row.others().values()),
    )


def _seed_limit(row: StoredRow, seed: int, budget: float) -> SeedLimit:
    answers = row.home(seed)
    return SeedLimit(
        seed=seed,
        images=len(answers),
        non_finite=int((~answers.finite()).sum()),
        limit=limit_of(greatest_safe_changes(answers), budget),
    )


def _reach(row: StoredRow, cells: Sequence[Cell], atol: float | None) -> CellReach:
    """Compare the cells of all seeds at one place with the aligned cells."""
    most: list[FloatArray] = []
    bearable: list[FloatArray] = []
    changed = 0
    first = cells[0]
    place = {**first.place.fields, "simulation": first.simulation}
    try:
        for cell in cells:
            home, other = aligned(row.home(cell.seed), row.answers(cell))
            most.append(greatest_changes(home, other))
            bearable.append(greatest_safe_changes(home))
            changed += int(home.changed(other).sum())
    except NothingCompared as error:
        return CellReach(**place, reason=str(error))
    moved, safe = np.concatenate(most), np.concatenate(bearable)
    greatest = float(moved.max())
    return CellReach(
        **place,
        images=len(moved),
        max_abs=greatest if math.isfinite(greatest) else None,
        beyond=None if atol is None else int((moved > atol).sum()),
        could_change=int((moved >= safe).sum()),
        changed=changed,
        reason="" if math.isfinite(greatest) else "an output is not finite",
    )
