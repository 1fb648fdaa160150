"""The matrices with another cell of each row as the reference, for the page's script to put in.

A cell is offered where every interval it asks for was computed; nothing is derived from intervals.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace

from alignkit.place import Column, Place, Row
from alignkit.record import CellPair, Drift, Estimate, LogitDistance, MatrixEntry, RunRecord
from alignkit.report.matrix_view import MatrixView, matrix_views
from alignkit.text.names import MATRIX_METRICS, Names

NO_LOGITS = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason="no matrix shows it")
Known = dict[tuple[Row, Column, Column], CellPair]
"""By row, reference and candidate."""


@dataclass(frozen=True, slots=True)
class ReferenceView:
    """The matrices against one column."""

    name: str
    """As the page's address has it."""
    title: str
    matrices: tuple[MatrixView, ...]


def reference_views(record: RunRecord, names: Names) -> tuple[ReferenceView, ...]:
    """One for each column that can be the reference and is not already that of every row."""
    known = _changes(record)
    columns = dict.fromkeys(entry.column for entry in record.matrix)
    views = []
    for column in columns:
        switched = _switched(record, column, known)
        if switched is None:
            continue
        title = f"{names.short(column.preprocess)}, {column.runtime}"
        views.append(
            ReferenceView(str(column), title, matrix_views(switched, names, against=title))
        )
    return tuple(views)


def packed_references(record: RunRecord, names: Names) -> str:
    """Deflated JSON in base64, ``[{name, title, panels: {metric: HTML}}]``; empty without any."""
    views = reference_views(record, names)
    if not views:
        return ""
    import numpy as np

    from alignkit.record.pictures import pack
    from alignkit.report.templates import html

    content = [
        {
            "name": view.name,
            "title": view.title,
            "panels": {
                each.id: html("matrix_panel.html.j2", matrix=each) for each in view.matrices
            },
        }
        for view in views
    ]
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return pack(np.frombuffer(text.encode(), np.uint8))["data"]


def _changes(record: RunRecord) -> Known:
    """All that was computed, and the same the other way round."""
    aligned = {entry.row: entry.column for entry in record.matrix if entry.aligned}
    found: Known = {
        (Row.parse(pair.trained_with), Column(*pair.reference), Column(*pair.candidate)): pair
        for pair in record.row_pairs
    }
    for entry in record.matrix:
        if entry.drift and entry.row in aligned:
            found[entry.row, aligned[entry.row], entry.column] = entry.drift
    turned = {(row, b, a): _turned(change) for (row, a, b), change in found.items()}
    return found | turned


def _turned(change: CellPair) -> CellPair:
    """Reference minus candidate."""
    return replace(
        change,
        metrics={name: _negated(each) for name, each in change.metrics.items()},
        right_to_wrong=change.wrong_to_right,
        wrong_to_right=change.right_to_wrong,
    )


def _negated(each: Estimate) -> Estimate:
    ends = [None if end is None else -end for end in (each.value, each.high, each.low)]
    return Estimate(value=ends[0], low=ends[1], high=ends[2], reason=each.reason)


def _switched(record: RunRecord, column: Column, known: Known) -> RunRecord | None:
    """The record with each entry's drift against ``column``; ``None`` if it cannot be, or is."""
    from alignkit.findings.matrix import corrected

    at = {entry.place: entry for entry in record.matrix}
    entries = []
    for place, entry in at.items():
        reference = at.get(Place(place.row, column))
        if entry.state != "measured" or place.column == column:
            entries.append(entry.model_copy(update={"drift": None}))
        elif reference is None or reference.state != "measured":
            entries.append(entry.model_copy(update={"drift": _absent(reference)}))
        elif change := known.get((place.row, column, place.column)):
            entries.append(entry.model_copy(update={"drift": _drift(change)}))
        else:
            return None
    if all(entry.aligned for place, entry in at.items() if place.column == column):
        return None
    verdict = record.verdict.model_copy(update={"rules": ()})  # rules are about aligned cells
    return record.model_copy(update={"matrix": corrected(entries), "verdict": verdict})


def _drift(change: CellPair) -> Drift:
    """With what a matrix shows of it."""
    shown = {each.name: getattr(change, each.name) for each in fields(CellPair)}
    return Drift(**shown, mcnemar_p=None, logits=NO_LOGITS)


def _absent(reference: MatrixEntry | None) -> Drift:
    """Of a row without the reference."""
    why = f"{reference.state}: {reference.reason}" if reference else "not part of this run"
    nothing = Estimate(value=None, low=None, high=None, reason=f"no reference in this row: {why}")
    return Drift(
        n=0, metrics=dict.fromkeys(MATRIX_METRICS, nothing), churn=nothing, right_to_wrong=0,
        wrong_to_right=0, wrong_to_wrong=0, detectable=None, mcnemar_p=None, logits=NO_LOGITS,
    )  # fmt: skip
