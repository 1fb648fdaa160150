"""The drift of a matrix in words where no rule says it: how much moved, or that nothing did."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.record import MatrixEntry, Measurements
from alignkit.task_facts import TaskFacts
from alignkit.text.numbers import count, grouped, percent, significant
from alignkit.text.task_words import TaskWords

NOTHING_MOVED = "Aligned: "
"""Beginning of the sentence if nothing changed and every rule holds."""


def compared_entries(record: Measurements) -> list[MatrixEntry]:
    """List the entries whose predictions were compared with their row's aligned ones."""
    return [
        entry
        for entry in record.matrix
        if not entry.aligned and entry.drift and entry.drift.changed is not None
    ]


def nothing_changed(record: Measurements) -> str:
    """Say that no prediction of any entry changed; empty if one did, or none was compared."""
    measured = compared_entries(record)
    if not measured or any(entry.churn for entry in measured):
        return ""
    many = f"any of {len(measured)} comparisons" if len(measured) > 1 else "the comparison"
    none = f"no prediction changed in {many}"
    moved = "" if record.labelled else logits_moved(measured, record.task)
    return f"{none}; {moved}" if moved else none


def effect_words(entry: MatrixEntry, words: TaskWords) -> str:
    """Say which answers and logits of images without labels move in an entry."""
    drift = entry.drift
    assert drift is not None
    assert drift.changed is not None
    # without a change of class, the images that moved most keep theirs
    shown = drift.moved[:1] if drift.changed else ()
    first = "".join(f", e.g. {each.before} → {each.after}" for each in shown)
    share = words.changed_share(percent(entry.churn, 2))
    said = f"{share} change ({grouped(drift.changed)} of {grouped(drift.compared)}{first})"
    if drift.margins and drift.margins.halved:
        said += f", and {grouped(drift.margins.halved)} more lose half of their margin"
    moved = logits_moved([entry], words.task)
    return f"{said}; {moved}" if moved else said


def lost_words(entry: MatrixEntry, record: Measurements) -> str:
    """Say how many images of an entry have an output that is not finite; empty if none has."""
    if entry.drift is None or not entry.drift.non_finite:
        return ""
    own = next((e for e in record.matrix if e.aligned and e.row == entry.row), None)
    before = f", {grouped(own.non_finite)} as trained" if own else ""
    return (
        f"{grouped(entry.drift.non_finite)} of {count(entry.drift.n, 'image')} have an output that "
        f"is NaN or infinite ({grouped(entry.non_finite)} as served{before})"
    )


def logits_moved(entries: Sequence[MatrixEntry], task: TaskFacts) -> str:
    """Say how far outputs move in the entry with the greatest difference; empty without any."""
    distances = [entry.drift.logits for entry in entries if entry.drift]
    known = [each for each in distances if each.max_abs is not None]
    if not known:
        return ""
    most = max(known, key=lambda each: each.max_abs or 0.0)
    if not most.max_abs:
        return f"no {task.output} differs"
    mean, p99 = most.mean_abs or 0.0, most.p99 or 0.0
    return (
        f"{task.outputs} move by {significant(mean)} on average, 99 % of them by at most "
        f"{significant(p99)}, and {significant(most.max_abs)} at most"
    )
