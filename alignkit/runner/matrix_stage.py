"""The cells of a run: a model is trained, its cells are predicted and shown, then the next one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.compare.metrics import logit_distance
from alignkit.compare.predictions import Predictions, aligned
from alignkit.errors import NothingCompared
from alignkit.findings.matrix import predictions_of
from alignkit.findings.provenance import path_facts
from alignkit.outcome import Failed, Measured
from alignkit.predict.predict_cells import Predicted, is_worked_on, predict_cells
from alignkit.text import printable
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, percent, points, shorten, significant
from alignkit.train import Trained, train_models
from alignkit.workspace import Context

if TYPE_CHECKING:
    from alignkit.place import Row
    from alignkit.plan import Plan
    from alignkit.prepare.prepared_sets import Sets

_MOST_REASON = 160
"""Characters of a failed cell's reason; the page has it in full."""


def measure_matrix(
    plan: Plan, sets: Sets, context: Context, folder: Path
) -> tuple[tuple[Trained, ...], tuple[Predicted, ...]]:
    """Train each model and predict its cells; return both in the plan's order.

    Each cell is shown as soon as it and the cell that it is compared with ended.
    """
    trained, cells = [], {}
    lines = CellLines(Names([path_facts(each) for each in plan.preprocesses]))
    total = sum(map(is_worked_on, plan.evaluations))
    with context.progress.stage("cells", total, "of every model") as stage:
        for model in train_models(plan, sets, context, folder):
            trained.append(model)
            # closed at once after an error: the other ranks must leave the cell too
            with closing(predict_cells(plan, model, sets, context)) as predicted:
                for cell in predicted:
                    cells[cell.evaluation.place, cell.seed] = cell
                    for line in lines.after(cell):
                        context.progress.note(line)
                    stage.advance(is_worked_on(cell.evaluation))
    ordered = (cells[each.place, each.training.seed] for each in plan.evaluations)
    return tuple(trained), tuple(ordered)


@dataclass(frozen=True, slots=True, eq=False)
class CellLines:
    """One line for each cell that ran or failed, with its drift of one seed."""

    names: Names
    _references: dict[tuple[Row, int], Predicted] = field(default_factory=dict)
    _waiting: list[Predicted] = field(default_factory=list)

    def after(self, cell: Predicted) -> Iterator[str]:
        """Yield the line of a cell, and of those that waited for it as their reference.

        A cell whose reference is still to come yields nothing now.
        """
        if cell.evaluation.aligned:
            self._references[_of(cell)] = cell
        self._waiting.append(cell)
        ready = [each for each in self._waiting if _of(each) in self._references]
        self._waiting[:] = [each for each in self._waiting if _of(each) not in self._references]
        for each in ready:
            if isinstance(each.ended, Measured | Failed):
                yield printable(self._line(each, self._references[_of(each)]))

    def _line(self, cell: Predicted, reference: Predicted) -> str:
        evaluation = cell.evaluation
        row, column = evaluation.place.row, evaluation.place.column
        parts = [f"{self.names.short(str(row))} → {self.names.short(column.preprocess)}"]
        parts.append(column.runtime)  # its name says so where it simulates
        if evaluation.training.given is None:
            parts.append(f"seed {cell.seed}")
        return f"cell {' · '.join(parts)}: {_result(cell, reference)}"


def _of(cell: Predicted) -> tuple[Row, int]:
    """Return what a cell and its reference share."""
    return cell.evaluation.training.row, cell.seed


def _result(cell: Predicted, reference: Predicted) -> str:
    if isinstance(cell.ended, Failed):
        return f"failed: {shorten(' '.join(cell.ended.message.split()), _MOST_REASON)}"
    own, base = predictions_of(cell), predictions_of(reference)
    assert own is not None
    if cell is reference:
        return f"{_metrics(own)}; the other cells are compared with it"
    if base is None:
        return f"{_metrics(own)}; no drift, as the cell it is compared with did not run"
    try:
        return _drift(base, own)
    except NothingCompared as error:  # the record has it too, and the run goes on
        return f"{_metrics(own)}; no drift, as {error}"


def _metrics(own: Predictions) -> str:
    if not own.labelled:
        return f"{count(len(own), 'image')} without labels"
    found = own.metrics()
    return f"top-1 {_share(found['top1'])}, macro recall {_share(found['recall.macro'])}"


def _share(value: float | None) -> str:
    return DASH if value is None else percent(value)


def _drift(base: Predictions, own: Predictions) -> str:
    """State churn and the change of macro recall, which `alignkit.compare.drift` gives a seed."""
    before, after = aligned(base, own)
    churn = float((before.predicted != after.predicted).mean())
    if not own.labelled:
        moved = logit_distance(before.logits, after.logits).max_abs
        most = DASH if moved is None else significant(moved)
        return f"churn {percent(churn)}, max |Δlogit| {most}"
    old, new = (each.metrics()["recall.macro"] for each in (before, after))
    recall = DASH if old is None or new is None else f"{points(new - old)} pp"
    return f"churn {percent(churn)}, macro recall {recall}"
