"""Lines of a baseline that nobody approved: edited by hand, or left without their approvals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alignkit.baseline import Baseline, MetricLine
from alignkit.baseline.approval import LineValue, head_key, read_approvals, without_predictions
from alignkit.errors import BaselineError
from alignkit.workspace import content_key


def unapproved(folder: Path, baseline: Baseline) -> list[str]:
    """Name every line whose value no approval in ``folder`` gave to it; raise `BaselineError`.

    An older approval covers its line too: a change that was taken back was approved once.
    """
    approved: set[object] = set()
    for approval in read_approvals(folder):
        if approval.fingerprint == baseline.fingerprint:
            approved |= {_value(*_key(line), line.new) for line in approval.lines}
            approved |= {_metrics(change.new) for change in approval.metrics}
    lines: dict[object, str] = {
        _value(*key, LineValue.model_validate(line, from_attributes=True)): " ".join(key)
        for key, line in baseline.lines.items()
    }
    entries: dict[object, str] = {
        _metrics(without_predictions(line)): " ".join(line.place.names)
        for line in baseline.metrics.values()
    }
    return [name for value, name in (lines | entries).items() if value not in approved]


def head_approved(folder: Path, baseline: Baseline) -> bool:
    """Return whether an approval wrote the head, and no hand or merge."""
    key = head_key(baseline.head)
    return any(approval.head == key for approval in read_approvals(folder))


def refuse_unapproved(folder: Path, baseline: Baseline) -> None:
    """Raise `BaselineError` unless approvals cover every line: no rule may rest on the others."""
    if found := unapproved(folder, baseline):
        raise BaselineError(
            f"no approval covers {len(found)} of {baseline.count} lines of "
            f"{folder / baseline.fingerprint}.jsonl, the first {found[0]}: restore the file and "
            "'approvals' from version control; or, outside CI, remove the file and record it "
            "again: alignkit baseline record FILE"
        )


def _key(line: Any) -> tuple[str, str, str]:
    return line.path, line.image, line.stage


def _value(path: str, image: str, stage: str, value: LineValue) -> tuple[object, ...]:
    return path, image, stage, value.sha256, value.outcome, value.mean


def _metrics(line: MetricLine) -> str:
    return content_key(line.model_dump(mode="json"))
