"""Headroom: how much of each path's difference the models bear, for the rules about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import NothingCompared
from alignkit.findings.line_models import LineModels, line_models
from alignkit.findings.pixel_curves import pixel_tolerances
from alignkit.findings.stored_row import StoredRow, stored_rows
from alignkit.record import HeadroomFacts, RunRecord

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.progress import Progress
    from alignkit.workspace import Context


def measure_headroom(
    experiment: Experiment, record: RunRecord, run: Path, context: Context
) -> tuple[HeadroomFacts, ...]:
    """Draw the curve of every path for each budget of the rules; nothing if no rule is about it.

    The models of the run are run between the paths. Raises `RecordError` if some are gone.
    """
    budgets = {
        rule.bearable for rule in experiment.gate.expanded if rule.measured.kind == "headroom"
    }
    if not budgets:
        return ()
    try:
        rows = stored_rows(run, record)
    except NothingCompared as error:
        return tuple(HeadroomFacts(budget=each, reason=str(error)) for each in sorted(budgets))
    models = line_models(run, record, context.progress)
    return tuple(headroom_of(rows, each, models, context.progress) for each in sorted(budgets))


def headroom_of(
    rows: tuple[StoredRow, ...], budget: float, models: LineModels, progress: Progress
) -> HeadroomFacts:
    """Draw the curves for one budget."""
    with progress.stage("headroom", sum(len(row.homes) for row in rows)) as stage:
        found = [pixel_tolerances(row, budget, models, stage.advance) for row in rows]
    return HeadroomFacts(budget=budget, pixels=tuple(each for some in found for each in some))
