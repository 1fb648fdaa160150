"""The columns of a run: cells, entries of the matrix and classes, each fact declared once.

Pages show the columns with a head, ``cells.parquet`` and DataFrames those with a name: a new fact
of an entry, a cell or their drift is one more column here. docs/python.md lists the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from alignkit.record import Cell, ClassCounts, Drift, Estimate, LogitDistance, MatrixEntry
from alignkit.record.cell_facts import Evaluated
from alignkit.record.stored import Placed
from alignkit.samples import NO_LABELS
from alignkit.task_facts import TaskFacts
from alignkit.text.column import Fact, arrow, named, of_part
from alignkit.text.measured import engine_words
from alignkit.text.names import Names, state_words, why_not
from alignkit.text.numbers import percent, plain
from alignkit.text.part_commands import cell_option
from alignkit.text.task_words import TaskWords, capital, size_in

if TYPE_CHECKING:
    import pyarrow as pa

OWN = "the baseline of its row: the others are compared with it"
UNMEASURED = Estimate(None, None, None, "not measured")
_NO_NAMES = Names(())


def place_columns(names: Names) -> tuple[Fact[Placed], ...]:
    """Return where a result stands: what its model was trained with, and how it is served."""
    return (
        Fact("Trained with", lambda each: names.short(each.trained_with)),
        Fact("Evaluated with", lambda each: names.short(each.evaluated_with)),
        Fact("Runtime", lambda each: names.cells(each)[2]),
        *named("text", "trained_with", "evaluated_with", "backend", "precision"),
    )


def entry_columns(words: TaskWords, names: Names = _NO_NAMES) -> tuple[Fact[MatrixEntry], ...]:
    """Return every column of an entry of the matrix, the cells of all seeds joined."""
    tests: tuple[Fact[Drift], ...] = (
        Fact(f"{words.task.test} p", lambda drift: drift.mcnemar_p, "p", note=_untested),
        *map(partial(_corrected, words), words.cell_metrics),
        Fact(
            f"Smallest Δ {words.task.rated} it could show", lambda drift: drift.detectable,
            "points", format=lambda value, _: _detectable(words, value), note=_untested,
        ),
    )  # fmt: skip
    return (
        *place_columns(names),
        Fact("", lambda each: len(each.seeds), "count", name="seeds"),
        *_state_columns(),
        *(replace(_own_value(words, metric), head="") for metric in words.own_metrics),
        *of_drifts((Fact("Images", lambda drift: drift.n, "count", name="compared"),)),
        *of_drifts(_drift_columns(words, tests)),
        Fact("To run it alone", cell_option),
    )


def cell_columns(words: TaskWords, names: Names = _NO_NAMES) -> tuple[Fact[Cell], ...]:
    """Return every column of a cell, the evaluation of one seed's model."""
    correct: Fact[Cell] = Fact("", _correct, "count", name="correct")
    return (
        *place_columns(names),
        Fact("Seed", lambda each: each.seed, "ordinal", name="seed"),
        *_state_columns(),
        Fact("Images", lambda each: _if_ran(each, each.n), "count", note=why_not, name="images"),
        *([correct] if words.task.class_scores else []),
        *(_own_value(words, metric) for metric in words.own_metrics),
        *of_drifts((Fact("", lambda drift: drift.n, "count", name="compared"),)),
        *of_drifts(_drift_columns(words)),
        Fact("What ran", _what_ran),
    )


def class_columns(task: TaskFacts) -> tuple[Fact[tuple[Cell, int]], ...]:
    """Return every column of a class in a cell, for programs."""
    counts: tuple[Fact[ClassCounts], ...] = (
        Fact("", lambda each: each.name, name="class"),
        *named("count", "true_positive", "false_positive", "false_negative"),
        Fact("", lambda each: _ratio(each.true_positive, each.false_negative), "value",
               name="class_recall"),
        Fact("", lambda each: _ratio(each.true_positive, each.false_positive), "value",
               name="class_precision"),
    )  # fmt: skip
    further: list[Fact[tuple[Cell, int]]] = [
        Fact("", partial(_class_value, each.name), "value", name=f"class_{each.name}")
        for each in task.class_metrics
        if each.name not in ("recall", "precision")
    ]
    of_cell = (*place_columns(_NO_NAMES), *named("count", "seed"))
    return (*of_part(of_cell, itemgetter(0)), *of_part(counts, _class_counts), *further)


def cell_table(cells: Sequence[Cell], task: TaskFacts) -> pa.Table:
    """Return a row for each cell, in the order of the record; ``cells.parquet`` is this table."""
    return arrow(cell_columns(TaskWords(task)), cells)


def matrix_table(entries: Sequence[MatrixEntry], task: TaskFacts) -> pa.Table:
    """Return a row for each entry."""
    return arrow(entry_columns(TaskWords(task)), entries)


def class_table(cells: Sequence[Cell], task: TaskFacts) -> pa.Table:
    """Return a row for each class of each cell that ran."""
    rows = [(cell, index) for cell in cells for index in range(len(cell.counts))]
    return arrow(class_columns(task), rows)


LOGITS: dict[str, Fact[LogitDistance]] = {
    field: Fact(
        head, attrgetter(field), "value", note=lambda found: found.reason, name=f"logit_{field}"
    )
    for field, head in (
        ("max_abs", "Max"), ("mean_abs", "Mean"), ("p50", "p50"), ("p99", "p99"),
        ("p99_9", "p99.9"), ("cosine", "Cosine"),
    )
}  # fmt: skip
# near one, where three digits tell nothing
LOGITS["cosine"] = replace(LOGITS["cosine"], unit="levels", digits=5)
"""Distances of two models' outputs, by their field."""
CHURN_COLUMN: Fact[Drift] = Fact(
    "Churn", lambda drift: drift.churn, "share",
    format=lambda found, _: percent(found.value, 2), name="churn", interval=True,
)  # fmt: skip


def of_drifts(columns: Iterable[Fact[Drift]]) -> tuple[Fact[Any], ...]:
    """Return columns of a cell or entry: the baseline of a row has no drift."""
    return of_part(columns, attrgetter("drift"), _no_drift)


def _no_drift(found: Evaluated) -> str:
    return OWN if found.ran else why_not(found)


def change_column(metric: str, words: TaskWords, head: str) -> Fact[Drift]:
    """Return the change in a metric, or the value of a measure, with its interval."""
    changed = "" if words.is_size(metric) else "_change"
    return Fact(
        head, lambda drift: {**drift.metrics, **drift.measures}.get(metric, UNMEASURED), "points",
        format=lambda found, _: words.estimated(metric, found), interval=True,
        name=f"{_name(metric)}{changed}",
    )  # fmt: skip


def _drift_columns(words: TaskWords, tests: Sequence[Fact[Drift]] = ()) -> Iterator[Fact[Drift]]:
    yield Fact("", lambda drift: drift.changed, "count", name="changed")
    for metric in words.own_metrics:
        shown = metric in words.cell_metrics
        yield change_column(metric, words, words.header(metric) if shown else "")
    yield CHURN_COLUMN
    fields = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong")
    for field, head in zip(fields, words.task.turned, strict=True):
        yield Fact(capital(head), attrgetter(field), "count", note=NO_LABELS, name=field)
    yield from tests
    scores = capital(words.task.outputs)
    heads = {"max_abs": f"{scores} max |Δ|", "mean_abs": f"{scores} mean |Δ|", "p99": ""}
    for field in ("max_abs", "mean_abs", "p99", "cosine") if words.task.class_scores else ():
        head = heads.get(field, LOGITS[field].head)
        yield LOGITS[field].of(lambda drift: drift.logits, head=head)
    for measure in words.task.measures:
        yield change_column(measure.name, words, "")  # tables of their own show them
    yield Fact("Non-finite", lambda drift: drift.non_finite, "count", alarm=True)


def _state_columns() -> tuple[Fact[Any], ...]:
    return (
        *named("value", "fraction"),
        *named("flag", "aligned"),
        *named("text", "state", "reason", "simulation"),
        Fact("", lambda each: _if_ran(each, each.non_finite), "count", name="non_finite"),
    )


def _if_ran(evaluated: Evaluated, number: int) -> int | None:
    return number if evaluated.ran else None


def _name(metric: str) -> str:
    return metric.replace(".", "_")


def _own_value(words: TaskWords, metric: str) -> Fact[Any]:
    return Fact(
        capital(words.brief(metric)) * (metric in words.cell_metrics),
        lambda each: each.metrics.get(metric), "value",
        format=lambda value, _: words.value(metric, value),
        note=lambda each: "not computed" if each.ran else why_not(each), name=_name(metric),
    )  # fmt: skip


def _corrected(words: TaskWords, metric: str) -> Fact[Drift]:
    head = f"Holm p, {words.phrase(metric)}" * (metric == words.headline)
    name = f"{_name(metric)}_p"
    return Fact(head, lambda drift: drift.holm.get(metric), "p", note=_untested, name=name)


def _untested(drift: Drift) -> str:
    return NO_LABELS if drift.right_to_wrong is None else "not tested"


def _detectable(words: TaskWords, value: float) -> str:
    unit = words.task.rated_unit
    return plain(100 * value, 2) if unit == "share" else size_in(unit, value)


def _correct(cell: Cell) -> int | None:
    known = cell.ran and cell.counts
    return sum(each.true_positive for each in cell.counts) if known else None


def _what_ran(cell: Cell) -> str:
    if cell.ran:
        return ", ".join(f"{name} {value}" for name, value in cell.effective.items())
    state = state_words(cell.state)
    return f"{state}; {engine_words([cell.engine])}" if cell.engine else state


def _ratio(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None


def _class_counts(row: tuple[Cell, int]) -> ClassCounts:
    cell, index = row
    return cell.counts[index]


def _class_value(name: str, row: tuple[Cell, int]) -> float | None:
    cell, index = row
    values = cell.class_values.get(name)
    return None if values is None else values[index]
