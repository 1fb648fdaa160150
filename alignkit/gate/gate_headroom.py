"""Headroom: how much of each path's difference the models bear, for the rules about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import NothingCompared
from alignkit.findings.line_models import line_models
from alignkit.findings.pixel_curves import checked_pairs, pair_passes, pixel_tolerances
from alignkit.findings.stored_row import stored_rows
from alignkit.record import HeadroomFacts, RunRecord

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.record.tolerance_facts import PixelTolerance
    from alignkit.workspace import Context


def measure_headroom(
    experiment: Experiment, record: RunRecord, run: Path, context: Context
) -> tuple[HeadroomFacts, ...]:
    """Draw the curve of every path for each budget of the rules; nothing if no rule is about it.

    The models of the run are run between the paths. Raises `RecordError` if some are gone.
    """
    rules = (each for each in experiment.gate.expanded if each.measured.kind == "headroom")
    return headroom_facts(record, run, sorted({each.bearable for each in rules}), context)


def headroom_facts(
    record: RunRecord, run: Path, budgets: Sequence[float], context: Context
) -> tuple[HeadroomFacts, ...]:
    """Draw the curves of a run for each budget; raise `RecordError` if its models are gone."""
    if not budgets:
        return ()
    try:
        rows = stored_rows(run, record)
    except NothingCompared as error:
        return tuple(HeadroomFacts(budget=each, reason=str(error)) for each in budgets)
    models = line_models(run, record, context.progress)
    passes = sum(map(pair_passes, rows))
    with context.progress.stage("headroom", passes, "passes of a network") as stage:
        checked = [checked_pairs(row, models, stage.advance) for row in rows]

    def drawn(budget: float) -> Iterator[PixelTolerance]:
        for row, own in zip(rows, checked, strict=True):
            yield from pixel_tolerances(row, budget, models, own)

    return tuple(HeadroomFacts(budget=each, pixels=tuple(drawn(each))) for each in budgets)
