"""The greatest |Δ output| within a budget of changed answers, and how far each cell is from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from decimal import Context as DecimalContext

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.answers import aligned
from alignkit.compare.linear_answers import greatest_changes, greatest_safe_changes
from alignkit.compare.statistics import greatest_share, images_for_none, most_within
from alignkit.errors import NothingCompared
from alignkit.record import Cell
from alignkit.record.tolerance_facts import CellReach, Limit, LogitTolerance, SeedLimit
from alignkit.studies.tolerance.stored_row import StoredRow
from alignkit.text.numbers import count

_DIGITS = 3


def limit_of(turns: FloatArray, budget: float, most: float = math.inf) -> Limit:
    """Find the greatest size within the budget, of sizes (n,) at which each image's answer changes.

    It is the size of the (k + 1)-th image in order, for the greatest k whose one-sided 95 % bound
    is within the budget: a distribution-free tolerance limit, whose confidence holds although the
    size is chosen by the same images (Wilks, Annals of Mathematical Statistics 12, 1941). Sizes are
    looked at up to ``most``.
    """
    n = len(turns)
    changed = most_within(budget, n) if n else None
    if changed is None:
        return Limit(None, None, None, reason=too_few(n, budget))
    # changed < n, as the bound of n of n is 1
    value = float(np.partition(turns, changed)[changed])
    bound = greatest_share(changed, n)
    if value <= most and math.isfinite(value):
        return Limit(value, changed, bound)
    if math.isfinite(most):
        return Limit(most, changed, bound, more=True)
    return Limit(None, changed, bound, more=True, reason="no change of the outputs changes more")


def too_few(n: int, budget: float) -> str:
    """Say how many images the budget needs if n are too few; empty if they suffice."""
    needed = images_for_none(budget)
    if n >= needed:
        return ""
    return (
        f"inconclusive: a budget of {100 * budget:g} % needs {count(needed, 'image')}, and "
        f"{count(n, 'image')} were compared"
    )


def rounded_down(value: float) -> float:
    """Round a positive number down to three digits, and below itself.

    >>> rounded_down(0.0123987), rounded_down(2.5), rounded_down(0.0)
    (0.0123, 2.49, 0.0)
    """
    if value <= 0:
        return 0.0
    # an answer may change at the limit itself
    below = Decimal(float(np.nextafter(value, 0.0)))
    return float(DecimalContext(prec=_DIGITS, rounding=ROUND_DOWN).create_decimal(below))


def logit_tolerance(row: StoredRow, budget: float) -> LogitTolerance:
    """Find the tolerance of a row's models, and compare its other cells with it."""
    limits = tuple(_seed_limit(row, seed, budget) for seed in row.homes)
    known = [each.limit.value for each in limits if each.limit.value is not None]
    atol = rounded_down(min(known)) if len(known) == len(limits) else None
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
