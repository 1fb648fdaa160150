"""How much difference a run's models bear: of their outputs, and of the pixels of two paths.

Both rest on the logits that the run stored. A tolerance of the outputs needs no assumption; one of
pixels assumes that outputs are linear along the difference of two paths, which is checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.answers import aligned
from alignkit.compare.linear_answers import greatest_changes, greatest_safe_changes
from alignkit.errors import NothingCompared
from alignkit.machine import cpu_name
from alignkit.progress import NoProgress, Progress
from alignkit.record import Cell
from alignkit.record.document import read_record
from alignkit.record.tolerance_facts import (
    CellReach,
    LogitTolerance,
    SeedLimit,
    ToleranceDocument,
    least_value,
)
from alignkit.studies.tolerance.line_models import StoredRow, line_models, stored_rows
from alignkit.studies.tolerance.pixel_curves import (
    checked_pairs,
    limit_of,
    pair_passes,
    pixel_tolerances,
    rounded_down,
)
from alignkit.version import __version__


def tolerance(
    run: Path, *, budget: float, check: bool, command: str, progress: Progress
) -> ToleranceDocument:
    """Measure the tolerance of every row of a run for a share of answers, ``budget``, above 0.

    With ``check`` the network is run between the paths. Raises `RecordError` if the run, its
    answers or, with ``check``, its stored work are gone, and `NothingCompared` if no model ran or
    the task's answers have no tolerance.
    """
    record = read_record(run)
    folder = run.parent if run.is_file() else run
    rows = stored_rows(folder, record)
    for row in rows:  # an answer without margins is known before a model is loaded
        row.home(next(iter(row.homes)))
    models = line_models(folder, record, progress) if check else None
    logits = tuple(_logit_tolerance(each, budget) for each in rows)
    passes = sum(map(pair_passes, rows)) if models else 0
    shown = progress if passes else NoProgress()
    with shown.stage("tolerance", passes, f"{record.name}, passes of a network") as stage:
        pixels = [
            pair
            for each in rows
            for pair in pixel_tolerances(
                each, budget, models, checked_pairs(each, models, stage.advance)
            )
        ]
    return ToleranceDocument(
        alignkit=__version__,
        command=command,
        name=record.name,
        key=record.key,
        cpu=record.environment.cpu,
        checked_on=cpu_name() if models else "",
        quick=record.quick,
        images=record.data.eval,
        copies=len(record.data.copies),
        task=record.task,
        paths=record.paths,
        budget=budget,
        logits=logits,
        pixels=tuple(pixels),
    )


def _logit_tolerance(row: StoredRow, budget: float) -> LogitTolerance:
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
