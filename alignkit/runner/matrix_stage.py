"""The cells of a run: a model is trained, its cells are predicted and shown, then the next one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.compare.answers import Answers, aligned, plain_metrics
from alignkit.compare.idle_answers import nothing_answered
from alignkit.errors import NothingCompared
from alignkit.findings.matrix import predictions_of
from alignkit.findings.provenance import path_facts
from alignkit.outcome import Failed, Measured
from alignkit.predict.predict_cells import Predicted, is_worked_on, predict_cells
from alignkit.task_facts import MetricFacts, TaskFacts
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
    lines = CellLines(Names([path_facts(each) for each in plan.experiment.paths]))
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
    _reasons: dict[str, None] = field(default_factory=dict)
    """Those of failed cells so far."""

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
        return f"cell {' · '.join(parts)}: {self._result(cell, reference)}"

    def _result(self, cell: Predicted, reference: Predicted) -> str:
        if not isinstance(cell.ended, Failed):
            return _result(cell, reference)
        if cell.ended.message in self._reasons:
            return "failed for the same reason as a cell above"
        self._reasons[cell.ended.message] = None
        return f"failed: {shorten(' '.join(cell.ended.message.split()), _MOST_REASON)}"


def _of(cell: Predicted) -> tuple[Row, int]:
    """Return what a cell and its reference share."""
    return cell.evaluation.training.row, cell.seed


def _result(cell: Predicted, reference: Predicted) -> str:
    own, base, task = predictions_of(cell), predictions_of(reference), cell.evaluation.task.facts()
    assert own is not None
    if cell is reference:
        return f"{_metrics(own, task)}; the other cells are compared with it"
    if base is None:
        return f"{_metrics(own, task)}; no drift, as the cell it is compared with did not run"
    try:
        return _drift(base, own, task)
    except NothingCompared as error:  # the record has it too, and the run goes on
        return f"{_metrics(own, task)}; no drift, as {error}"


def _metrics(own: Answers, task: TaskFacts) -> str:
    if task.needs_labels and not own.labelled:
        return f"{count(len(own), 'image')} without labels"
    found = plain_metrics(own)
    shown = sorted(_of_cells(task), key=lambda each: each.name != task.rated_metric)[:2]
    return ", ".join(f"{_called(each)} {_value(found[each.name], each)}" for each in shown)


def _of_cells(task: TaskFacts) -> list[MetricFacts]:
    """List the metrics of one cell that have a matrix, in the order of the page."""
    by_name = {each.name: each for each in task.metrics}
    return [by_name[name] for name in task.matrices if name in by_name]


def _called(metric: MetricFacts) -> str:
    """Name a metric inside a line: ``macro recall``, and ``mAP50`` as it is."""
    name = metric.short or metric.label
    return name if name[1:2].isupper() else name[:1].lower() + name[1:]


def _value(value: float | None, metric: MetricFacts) -> str:
    if value is None:
        return DASH
    if metric.unit == "share":
        return percent(value)
    return f"{significant(value)} px" if metric.unit == "px" else significant(value)


def _drift(base: Answers, own: Answers, task: TaskFacts) -> str:
    """State churn and the change of the headline, which `alignkit.compare.drift` gives a seed."""
    before, after = aligned(base, own)
    if reason := nothing_answered([(before, after)]):
        return reason
    churn = f"churn {percent(float(before.changed(after).mean()))}"
    if not task.needs_labels or own.labelled:
        first = _of_cells(task)[0]
        old, new = (plain_metrics(each)[first.name] for each in (before, after))
        change = None if old is None or new is None else new - old
        return f"{churn}, {_called(first)} {_change(change, first)}"
    if not task.class_scores:
        return churn
    moved = type(before).distance([(before, after)]).max_abs
    most = DASH if moved is None else significant(moved)
    return f"{churn}, max |Δlogit| {most}"


def _change(change: float | None, metric: MetricFacts) -> str:
    if change is None:
        return DASH
    return f"{points(change)} pp" if metric.unit == "share" else _value(change, metric)
