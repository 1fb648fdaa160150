"""Lines of a baseline that nobody approved, and approved lines that it lost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from alignkit.baseline import Baseline, MetricLine, StageLine
from alignkit.baseline.approval import (
    Approval,
    LineValue,
    head_key,
    read_approvals,
    without_predictions,
)
from alignkit.errors import BaselineError
from alignkit.workspace import content_key

_RESTORE = (
    "restore the file and 'approvals' from version control; or, outside CI, remove the file and "
    "record it again: alignkit baseline record FILE"
)


def unapproved(approvals: Iterable[Approval], baseline: Baseline) -> list[str]:
    """Name every line whose value no approval gave to it.

    An older approval covers its line too: a change that was taken back was approved once.
    """
    approved: set[object] = set()
    for approval in approvals:
        if approval.fingerprint == baseline.fingerprint:
            approved |= {_value(*_key(line), line.new) for line in approval.lines}
            approved |= {_metrics(change.new) for change in approval.metrics}
    lines: dict[object, str] = {
        _value(*key, line): " ".join(key) for key, line in baseline.lines.items()
    }
    entries: dict[object, str] = {
        _metrics(without_predictions(line)): " ".join(line.place.names)
        for line in baseline.metrics.values()
    }
    return [name for value, name in (lines | entries).items() if value not in approved]


def lost(approvals: Iterable[Approval], baseline: Baseline) -> list[str]:
    """Name every approved line whose place the baseline no longer has.

    Approvals only add lines; an approval without earlier versions began a new file.
    """
    kept: dict[object, str] = {}
    for approval in approvals:
        if approval.fingerprint == baseline.fingerprint:
            if not approval.versions_before:  # there was no file
                kept = {}
            kept |= {_key(line): " ".join(_key(line)) for line in approval.lines}
            kept |= {each.new.place: " ".join(each.new.place.names) for each in approval.metrics}
    there = baseline.lines.keys() | baseline.metrics.keys()
    return [name for place, name in kept.items() if place not in there]


def head_approved(folder: Path, baseline: Baseline) -> bool:
    """Return whether an approval wrote the head, and no hand or merge."""
    key = head_key(baseline.head)
    return any(approval.head == key for approval in read_approvals(folder))


def refuse_unapproved(folder: Path, baseline: Baseline) -> None:
    """Raise `BaselineError` unless approvals cover every line and every approved line is there."""
    file = folder / f"{baseline.fingerprint}.jsonl"
    approvals = read_approvals(folder)
    if found := unapproved(approvals, baseline):
        raise BaselineError(
            f"no approval covers {len(found)} of {baseline.count} lines of "
            f"{file}, the first {found[0]}: {_RESTORE}"
        )
    if gone := lost(approvals, baseline):
        raise BaselineError(
            f"{file} no longer has {len(gone)} approved lines, the first {gone[0]}: {_RESTORE}"
        )


def _key(line: Any) -> tuple[str, str, str]:
    return line.path, line.image, line.stage


def _value(path: str, image: str, stage: str, value: LineValue | StageLine) -> tuple[object, ...]:
    return path, image, stage, value.sha256, value.outcome, value.mean


def _metrics(line: MetricLine) -> str:
    return content_key(line.model_dump(mode="json"))
