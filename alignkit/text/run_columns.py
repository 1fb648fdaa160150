"""The columns of a run: cells, entries of the matrix and classes, each fact declared once.

Pages, summaries and notebooks show the columns with a head, ``cells.parquet`` and DataFrames those
with a name. Counts are the record's, and ratios follow from them. docs/python.md lists the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from alignkit.record import Cell, ClassCounts, Drift, Estimate, LogitDistance, MatrixEntry
from alignkit.record.cell_facts import Evaluated
from alignkit.record.stored import Placed
from alignkit.samples import NO_LABELS
from alignkit.task_facts import TaskFacts
from alignkit.text.column import Column, arrow, of_part
from alignkit.text.engine_words import engine_words
from alignkit.text.names import Names, state_words, why_not
from alignkit.text.numbers import Quantity, percent, plain
from alignkit.text.part_commands import cell_option
from alignkit.text.task_words import TaskWords, capital, size_in

if TYPE_CHECKING:
    import pyarrow as pa

OWN = "the baseline of its row: the others are compared with it"
UNMEASURED = Estimate(None, None, None, "not measured")
_NO_NAMES = Names(())
_METRICS = ("top1", "recall.macro", "precision.macro")
"""Metrics of classes for programs; the record has the micro and weighted averages too."""


def _distance(
    field: str, head: str, unit: Quantity = "value", digits: int = 3
) -> Column[LogitDistance]:
    return Column(
        head, attrgetter(field), unit, digits,
        note=lambda found: found.reason, name=f"logit_{field}",
    )  # fmt: skip


LOGITS: dict[str, Column[LogitDistance]] = {
    "max_abs": _distance("max_abs", "Max"),
    "mean_abs": _distance("mean_abs", "Mean"),
    "p50": _distance("p50", "p50"),
    "p99": _distance("p99", "p99"),
    "p99_9": _distance("p99_9", "p99.9"),
    "cosine": _distance("cosine", "Cosine", "levels", 5),
}
"""Distances of two models' outputs, by their field."""


def place_columns(names: Names) -> tuple[Column[Placed], ...]:
    """Return where a result stands: what its model was trained with, and how it is served."""
    return (
        Column("Trained with", lambda each: names.short(each.trained_with)),
        Column("Evaluated with", lambda each: names.short(each.evaluated_with)),
        Column("Runtime", lambda each: names.cells(each)[2]),
        *(
            Column("", attrgetter(field), name=field)
            for field in ("trained_with", "evaluated_with", "backend", "precision")
        ),
    )


def entry_columns(words: TaskWords, names: Names = _NO_NAMES) -> tuple[Column[MatrixEntry], ...]:
    """Return every column of an entry of the matrix, the cells of all seeds joined."""
    task = words.task
    return (
        *place_columns(names),
        Column("", lambda each: len(each.seeds), "count", name="seeds"),
        *_state_columns(),
        Column("", lambda each: each.non_finite if each.ran else None, "count", name="non_finite"),
        *(_own_value(metric, "", words) for metric in _named_metrics(task)),
        *of_drifts((
            *_compared_columns("Images"),
            *_changes(words, words.cell_metrics),
            CHURN_COLUMN,
            *flip_columns(task, 3),
            Column(f"{task.test} p", lambda drift: drift.mcnemar_p, "p", note=_untested),
            *_corrected(words),
            Column(
                f"Smallest Δ {task.rated} it could show", lambda drift: drift.detectable, "points",
                format=lambda value, _: _detectable(words, value), note=_untested,
            ),
            *_distances(task),
            *_measures(words),
            Column("Non-finite", lambda drift: drift.non_finite, "count", alarm=True),
        )),
        Column("To run it alone", cell_option),
    )  # fmt: skip


def cell_columns(words: TaskWords, names: Names = _NO_NAMES) -> tuple[Column[Cell], ...]:
    """Return every column of a cell, the evaluation of one seed's model."""
    task = words.task
    metrics = dict.fromkeys((*words.cell_metrics, *_named_metrics(task)))
    correct = Column("", _correct, "count", name="correct")
    return (
        *place_columns(names),
        Column("Seed", lambda each: each.seed, "ordinal", name="seed"),
        *_state_columns(),
        Column("Images", lambda each: each.n if each.ran else None, "count", note=why_not,
               name="images"),
        *((correct,) if task.class_scores else ()),
        Column("", lambda each: each.non_finite if each.ran else None, "count", name="non_finite"),
        *(
            _own_value(each, capital(words.brief(each)) * (each in words.cell_metrics), words)
            for each in metrics
        ),
        *of_drifts((
            *_compared_columns(""),
            *_changes(words, (words.headline,)),
            CHURN_COLUMN,
            *flip_columns(task, 2),
            *(replace(each, head="") for each in _distances(task)),
            *_measures(words),
        )),
        Column("What ran", _what_ran),
    )  # fmt: skip


def class_columns(task: TaskFacts) -> tuple[Column[tuple[Cell, int]], ...]:
    """Return every column of a class in a cell, for programs."""
    counts: tuple[Column[ClassCounts], ...] = (
        Column("", lambda each: each.name, name="class"),
        Column("", lambda each: each.true_positive, "count", name="true_positive"),
        Column("", lambda each: each.false_positive, "count", name="false_positive"),
        Column("", lambda each: each.false_negative, "count", name="false_negative"),
        Column("", lambda each: _ratio(each.true_positive, each.false_negative), "value",
               name="class_recall"),
        Column("", lambda each: _ratio(each.true_positive, each.false_positive), "value",
               name="class_precision"),
    )  # fmt: skip
    further = [each.name for each in task.class_metrics if each.name not in ("recall", "precision")]
    return (
        *(each.of(lambda row: row[0]) for each in place_columns(_NO_NAMES)),
        Column("", lambda row: row[0].seed, "count", name="seed"),
        *(each.of(lambda row: row[0].counts[row[1]]) for each in counts),
        *(
            Column("", partial(_class_value, name), "value",
                   name=f"class_{name}")
            for name in further
        ),
    )  # fmt: skip


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


CHURN_COLUMN: Column[Drift] = Column(
    "Churn", lambda drift: drift.churn, "share",
    format=lambda found, _: percent(found.value, 2), name="churn", interval=True,
)  # fmt: skip


def flip_columns(task: TaskFacts, most: int) -> Iterator[Column[Drift]]:
    """Yield the images whose answer changed: for the worse, for the better, neither.

    The first ``most`` are for readers too.
    """
    fields = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong")
    for place, (field, head) in enumerate(zip(fields, task.turned, strict=True)):
        shown = capital(head) * (place < most)
        yield Column(
            shown, attrgetter(field), "count",
            note=NO_LABELS, name=field,
        )  # fmt: skip


def of_drifts(columns: Iterable[Column[Drift]], **own: Any) -> tuple[Column[Any], ...]:
    """Return columns of a cell or entry: the baseline of a row has no drift."""
    return of_part(columns, attrgetter("drift"), _no_drift, **own)


def _no_drift(found: Evaluated) -> str:
    return OWN if found.ran else why_not(found)


def _state_columns() -> Iterator[Column[Any]]:
    yield Column("", lambda each: each.fraction, "value", name="fraction")
    yield Column("", lambda each: each.aligned, "flag", name="aligned")
    for field in ("state", "reason", "simulation"):
        yield Column("", attrgetter(field), name=field)


def _compared_columns(head: str) -> Iterator[Column[Drift]]:
    yield Column(head, lambda drift: drift.n, "count", name="compared")
    yield Column("", lambda drift: drift.changed, "count", name="changed")


def _named_metrics(task: TaskFacts) -> tuple[str, ...]:
    return _METRICS if task.class_scores else tuple(each.name for each in task.metrics)


def _name(metric: str) -> str:
    return metric.replace(".", "_")


def _own_value(metric: str, head: str, words: TaskWords) -> Column[Any]:
    named = metric in _named_metrics(words.task)
    return Column(
        head, lambda each: each.metrics.get(metric), "value",
        format=lambda value, _: words.value(metric, value),
        note=lambda each: "not computed" if each.ran else why_not(each),
        name=_name(metric) * named,
    )  # fmt: skip


def change_column(metric: str, words: TaskWords, head: str = "", name: str = "") -> Column[Drift]:
    """Return the change in a metric, or the value of a measure, with its interval."""
    return Column(
        head, lambda drift: {**drift.metrics, **drift.measures}.get(metric, UNMEASURED), "points",
        format=lambda found, _: words.estimated(metric, found), name=name, interval=True,
    )  # fmt: skip


def _changes(words: TaskWords, shown: Sequence[str]) -> Iterator[Column[Drift]]:
    named = _named_metrics(words.task)
    for each in dict.fromkeys((*shown, *named)):
        head = words.header(each) if each in shown else ""
        yield change_column(each, words, head, f"{_name(each)}_change" * (each in named))


def _measures(words: TaskWords) -> Iterator[Column[Drift]]:
    # tables of their own show them
    for each in words.task.measures:
        yield change_column(each.name, words, name=_name(each.name))


def _corrected(words: TaskWords) -> Iterator[Column[Drift]]:
    named = _named_metrics(words.task)
    tested = named if words.task.class_scores else [e for e in named if e in words.task.matrices]
    for each in dict.fromkeys((words.headline, *tested)):
        yield Column(
            f"Holm p, {words.phrase(each)}" * (each == words.headline),
            partial(_holm, each), "p", note=_untested,
            name=f"{_name(each)}_p" * (each in tested),
        )  # fmt: skip


def _distances(task: TaskFacts) -> tuple[Column[Drift], ...]:
    if not task.class_scores:
        return ()
    scores = capital(task.outputs)
    heads = {"max_abs": f"{scores} max |Δ|", "mean_abs": f"{scores} mean |Δ|", "cosine": "Cosine"}
    return tuple(
        LOGITS[field].of(lambda drift: drift.logits, head=heads.get(field, ""))
        for field in ("max_abs", "mean_abs", "p99", "cosine")
    )


def _holm(metric: str, drift: Drift) -> float | None:
    return drift.holm.get(metric)


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


def _class_value(name: str, row: tuple[Cell, int]) -> float | None:
    cell, index = row
    values = cell.class_values.get(name)
    return None if values is None else values[index]
