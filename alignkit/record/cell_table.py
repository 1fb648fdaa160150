"""Cells, matrix entries and classes as tables; ``cells.parquet`` of a run's folder is the first.

A row is a cell, or an entry of the matrix. Counts are those of the record, and ratios follow from
them; a value that does not exist is null: every number of a cell that did not run, and every
difference of the aligned cell, which is compared with nothing. docs/python.md lists the columns.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alignkit.record.cell_facts import Cell, Drift, MatrixEntry
from alignkit.record.stored import Artifact, Estimate
from alignkit.stored_file import write_atomically
from alignkit.task_facts import CLASSIFICATION, TaskFacts

if TYPE_CHECKING:
    import pyarrow as pa

    from alignkit.record import RunRecord

# `load_run` makes its table of the record's cells and never reads this file, so that a damaged
# one cannot give other numbers than the record.
CELLS_FILE = "cells.parquet"
_METRICS = ("top1", "recall.macro", "precision.macro")
"""Metrics with columns; the record has the micro and weighted averages too."""
_Kind = Literal["text", "flag", "count", "real"]


def _column(metric: str) -> str:
    return metric.replace(".", "_")


_PLACE: dict[str, _Kind] = {
    "trained_with": "text",
    "evaluated_with": "text",
    "backend": "text",
    "precision": "text",
}
_STATE: dict[str, _Kind] = {
    "aligned": "flag",
    "state": "text",
    "reason": "text",
    "simulation": "text",
}
_DRIFT: dict[str, _Kind] = {
    "compared": "count",
    "changed": "count",
    "right_to_wrong": "count",
    "wrong_to_right": "count",
    "wrong_to_wrong": "count",
    **dict.fromkeys(("churn", "churn_low", "churn_high"), "real"),
    **{
        f"{_column(metric)}_{part}": "real"
        for metric in _METRICS
        for part in ("change", "change_low", "change_high")
    },
    **dict.fromkeys(("logit_mean_abs", "logit_p99", "logit_max_abs", "logit_cosine"), "real"),
}
_VALUES: dict[str, _Kind] = {_column(metric): "real" for metric in _METRICS}
_CELL: dict[str, _Kind] = {
    **_PLACE, "seed": "count", "fraction": "real", **_STATE, "images": "count",
    "correct": "count", "non_finite": "count", **_VALUES, **_DRIFT,
}  # fmt: skip
_ENTRY: dict[str, _Kind] = {
    **_PLACE, "seeds": "count", "fraction": "real", **_STATE, "non_finite": "count", **_VALUES,
    **_DRIFT, **{f"{name}_p": "real" for name in _VALUES},
}  # fmt: skip
_CLASS: dict[str, _Kind] = {
    **_PLACE, "seed": "count", "class": "text", "true_positive": "count",
    "false_positive": "count", "false_negative": "count", "class_recall": "real",
    "class_precision": "real",
}  # fmt: skip


def with_cell_table(record: RunRecord, folder: Path) -> RunRecord:
    """Write ``cells.parquet`` into a run's folder; return the record that names it."""
    from pyarrow import parquet

    written = io.BytesIO()
    parquet.write_table(cell_table(record.cells, record.task), written)
    data = written.getvalue()
    write_atomically(folder / CELLS_FILE, data)
    named = Artifact(path=CELLS_FILE, sha256=hashlib.sha256(data).hexdigest())
    return record.model_copy(update={"cell_table": named})


def cell_table(cells: Sequence[Cell], task: TaskFacts = CLASSIFICATION) -> pa.Table:
    """Return a row for each cell, in the order of the record."""
    return _table(_columns(_CELL, task), map(_of_cell, cells))


def _columns(kinds: dict[str, _Kind], task: TaskFacts) -> dict[str, _Kind]:
    """Replace the columns of classification's metrics by those of a task that has others."""
    if task.class_scores:
        return kinds
    own = (*_VALUES, "logit", "correct")
    kept = {name: kind for name, kind in kinds.items() if not name.startswith(own)}
    values: dict[str, _Kind] = {_column(each.name): "real" for each in task.metrics}
    changes: dict[str, _Kind] = {
        f"{_column(each.name)}_{part}": "real"
        for each in task.metrics
        for part in ("change", "change_low", "change_high")
    }
    measures: dict[str, _Kind] = {
        f"{_column(each.name)}{part}": "real"
        for each in task.measures
        for part in ("", "_low", "_high")
    }
    return {**kept, **values, **changes, **measures}


def matrix_table(entries: Sequence[MatrixEntry], task: TaskFacts = CLASSIFICATION) -> pa.Table:
    """Return a row for each entry: the cells of all seeds joined."""
    columns = _columns(_ENTRY, task)
    if not task.class_scores:
        tested = [each.name for each in task.metrics if each.name in task.matrices]
        columns |= dict.fromkeys((f"{_column(name)}_p" for name in tested), "real")
    return _table(columns, map(_of_entry, entries))


def class_table(cells: Sequence[Cell], task: TaskFacts = CLASSIFICATION) -> pa.Table:
    """Return a row for each class of each cell that ran.

    A task's metrics by class that are no ratios of the counts follow as ``class_ap50``, ….
    """
    further = [each.name for each in task.class_metrics if f"class_{each.name}" not in _CLASS]
    columns: dict[str, _Kind] = {**_CLASS, **{f"class_{name}": "real" for name in further}}
    return _table(columns, (row for cell in cells for row in _of_classes(cell)))


def _table(kinds: dict[str, _Kind], rows: Iterable[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    types = {"text": pa.string(), "flag": pa.bool_(), "count": pa.int64(), "real": pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    return pa.Table.from_pylist(list(rows), schema)


def _of_cell(cell: Cell) -> dict[str, Any]:
    row = {**_of_any(cell, cell.drift), "seed": cell.seed}
    if cell.ran:
        counted = sum(each.true_positive for each in cell.counts) if cell.counts else None
        row |= {"images": cell.n, "correct": counted, "non_finite": cell.non_finite}
    return row


def _of_entry(entry: MatrixEntry) -> dict[str, Any]:
    row = {**_of_any(entry, entry.drift), "seeds": len(entry.seeds)}
    if entry.ran:
        row["non_finite"] = entry.non_finite
    if entry.drift:
        row |= {f"{_column(metric)}_p": p for metric, p in entry.drift.holm.items()}
    return row


def _of_any(evaluated: Cell | MatrixEntry, drift: Drift | None) -> dict[str, Any]:
    kept = (*_PLACE, *_STATE, "fraction")
    values = {_column(metric): value for metric, value in evaluated.metrics.items()}
    return {**{name: getattr(evaluated, name) for name in kept}, **values, **_of_drift(drift)}


def _of_drift(drift: Drift | None) -> dict[str, Any]:
    if drift is None:
        return {}
    row: dict[str, Any] = {
        "compared": drift.n,
        "changed": drift.changed,
        "right_to_wrong": drift.right_to_wrong,
        "wrong_to_right": drift.wrong_to_right,
        "wrong_to_wrong": drift.wrong_to_wrong,
        "logit_mean_abs": drift.logits.mean_abs,
        "logit_p99": drift.logits.p99,
        "logit_max_abs": drift.logits.max_abs,
        "logit_cosine": drift.logits.cosine,
        **_estimate("churn", drift.churn),
    }
    for metric, change in drift.metrics.items():
        row |= _estimate(f"{_column(metric)}_change", change)
    for name, measured in drift.measures.items():
        row |= _estimate(_column(name), measured)
    return row


def _estimate(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _of_classes(cell: Cell) -> Iterator[dict[str, Any]]:
    for index, each in enumerate(cell.counts):
        right, wrong, missed = each.true_positive, each.false_positive, each.false_negative
        yield {
            **{name: getattr(cell, name) for name in (*_PLACE, "seed")},
            "class": each.name,
            "true_positive": right,
            "false_positive": wrong,
            "false_negative": missed,
            "class_recall": right / (right + missed) if right + missed else None,
            "class_precision": right / (right + wrong) if right + wrong else None,
            **{f"class_{name}": values[index] for name, values in cell.class_values.items()},
        }
