"""RunRecord → the few lines a terminal shows: verdict, the entries that moved most, the report."""

from __future__ import annotations

from pathlib import Path

from alignkit.record import MatrixEntry, RunRecord
from alignkit.report.advice_view import advice_sentence
from alignkit.report.entry_view import entry_view
from alignkit.report.matrix_view import interval_words, seeds_of, significance, warnings
from alignkit.report.published_view import published_label, tally
from alignkit.text import columns
from alignkit.text.names import Names
from alignkit.text.numbers import count

_SHOWN = 16
"""Rows; with all else, fewer than 30 lines."""


def summary(record: RunRecord, page: Path) -> str:
    """At most 30 lines."""
    informational = " (informational)" if record.verdict.informational else ""
    lines = [
        f"{record.name}: {record.verdict.state.upper()}{informational}",
        record.verdict.sentence,
        "",
        *_matrix(record),
        "",
        *(f"advice    {advice_sentence(each)}" for each in record.advice[:3]),
        *_published(record),
        *_controls(record),
        f"report  {page}",
    ]
    return "\n".join(lines)


def _matrix(record: RunRecord) -> list[str]:
    """One row for each pair of paths: the runtime in which most predictions changed."""
    worst: dict[tuple[str, str], MatrixEntry] = {}
    for entry in record.matrix:
        pair = entry.trained_with, entry.evaluated_with
        if entry.drift and (pair not in worst or entry.churn > worst[pair].churn):
            worst[pair] = entry
    compared = sorted(worst.values(), key=lambda each: each.churn, reverse=True)
    head = ("trained with", "evaluated with", "worst in", "Δ macro recall, pp", "churn", "flips")
    rows = [head, *map(_row, compared[:_SHOWN])]
    lines = columns(rows).splitlines() if compared else []
    if len(compared) > _SHOWN:
        lines.append(f"… and {len(compared) - _SHOWN} that moved less; see the report")
    if told := significance(record.matrix, "recall.macro"):
        lines.append(f"* {told}")
    if compared and len(seeds_of(record)) == 1:
        lines.append(interval_words(record))
    for state in ("skipped", "failed"):
        ended = [entry for entry in record.matrix if entry.state == state]
        if ended:
            lines.append(f"{state}: {count(len(ended), 'entry', 'entries')}; {ended[0].reason}")
    return lines + [f"warning: {told}" for told in warnings(record.matrix)]


def _row(entry: MatrixEntry) -> tuple[str, ...]:
    view = entry_view(entry, Names(()))
    return *view.place, view.change + " *" * view.is_significant, view.churn, view.flips


def _published(record: RunRecord) -> list[str]:
    if record.published is None:
        return []
    return [f"{published_label(record.published)}: {tally(record.published)}"]


def _controls(record: RunRecord) -> list[str]:
    failed = [control for control in record.controls if not control.passed]
    if not failed:
        return [f"controls  {len(record.controls)} of {len(record.controls)} passed"]
    return [
        f"control failed: {control.name}: expected {control.expected}, observed {control.observed}"
        for control in failed[:3]
    ]
