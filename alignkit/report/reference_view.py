"""View of the matrices with another cell of each row as the reference, for the page's script.

A cell is offered where every interval it asks for was computed; nothing is derived from intervals.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from alignkit.findings.matrix import corrected
from alignkit.place import Column, Place, Row
from alignkit.record import CellPair, Drift, Estimate, LogitDistance, MatrixEntry, RunRecord
from alignkit.record.picture_facts import pack
from alignkit.report.matrix_view import MatrixView, matrix_views
from alignkit.report.templates import html
from alignkit.text.names import Names, why_not

_NO_LOGITS = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason="no matrix shows it")
_OTHER_WAY = Estimate(None, None, None, "it was measured with the other cell as the reference")
"""A measure need not have the same value in both directions."""
Changes = dict[tuple[Row, Column, Column], CellPair]
"""By row, reference and candidate."""


@dataclass(frozen=True, slots=True)
class ReferenceView:
    """The matrices against one column."""

    name: str
    """As the page's address has it."""
    title: str
    matrices: tuple[MatrixView, ...]


def reference_views(record: RunRecord, names: Names) -> tuple[ReferenceView, ...]:
    """Return a view for each column that can be the reference and is not that of every row."""
    known = changes_of(record)
    columns = dict.fromkeys(entry.column for entry in record.matrix)  # in the matrix's order
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
    content = [
        {
            "name": view.name,
            "title": view.title,
            "panels": {
                each.id: html("matrix_panel.html.j2", matrix=each) for each in view.matrices
            },
        }
        for view in reference_views(record, names)
    ]
    if not content:
        return ""
    # packed, since each reference repeats every cell of every matrix in HTML
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return pack(np.frombuffer(text.encode(), np.uint8))["data"]


def changes_of(record: RunRecord) -> Changes:
    """Collect all that was computed, and the same the other way round."""
    aligned = {entry.row: entry.column for entry in record.matrix if entry.aligned}
    known: Changes = {
        (Row.parse(pair.trained_with), Column(*pair.reference), Column(*pair.candidate)): pair
        for pair in record.row_pairs
    }
    for entry in record.matrix:
        if entry.drift and entry.row in aligned:
            known[entry.row, aligned[entry.row], entry.column] = entry.drift
    return known | {(row, b, a): _turned(change) for (row, a, b), change in known.items()}


def _turned(change: CellPair) -> CellPair:
    """Return reference minus candidate; churn is the same in both directions."""
    return replace(
        change,
        metrics={name: _negated(each) for name, each in change.metrics.items()},
        measures=dict.fromkeys(change.measures, _OTHER_WAY),
        right_to_wrong=change.wrong_to_right,
        wrong_to_right=change.right_to_wrong,
    )


def _negated(each: Estimate) -> Estimate:
    # the ends of an interval change places with their signs
    ends = [None if end is None else -end for end in (each.value, each.high, each.low)]
    return Estimate(value=ends[0], low=ends[1], high=ends[2], reason=each.reason)


def _switched(record: RunRecord, column: Column, known: Changes) -> RunRecord | None:
    """Return the record with drifts against ``column``; ``None`` if that cannot be, or is so."""
    at = {entry.place: entry for entry in record.matrix}
    if all(entry.aligned for place, entry in at.items() if place.column == column):
        return None
    entries = []
    for place, entry in at.items():
        reference = at.get(Place(place.row, column))
        drift: Drift | None
        if not entry.ran or place.column == column:
            drift = None
        elif reference is None or not reference.ran:
            drift = _absent(reference, record.task.matrices)
        # never two intervals subtracted: they are paired by image
        elif change := known.get((place.row, column, place.column)):
            shown = {each.name: getattr(change, each.name) for each in fields(CellPair)}
            drift = Drift(**shown, mcnemar_p=None, logits=_NO_LOGITS)
        else:
            return None
        entries.append(entry.model_copy(update={"drift": drift}))
    verdict = record.verdict.model_copy(update={"rules": ()})  # rules are about aligned cells
    # p-values are corrected again, because there are other comparisons than in the record
    return record.model_copy(update={"matrix": corrected(entries), "verdict": verdict})


def _absent(reference: MatrixEntry | None, metrics: Sequence[str]) -> Drift:
    """Return the drift of an entry in a row without the reference."""
    why = why_not(reference) if reference else "not part of this run"
    nothing = Estimate(None, None, None, f"no reference in this row: {why}")
    return Drift(
        n=0,
        metrics=dict.fromkeys(metrics, nothing),
        churn=nothing,
        right_to_wrong=0,
        wrong_to_right=0,
        wrong_to_wrong=0,
        detectable=None,
        mcnemar_p=None,
        logits=_NO_LOGITS,
    )
