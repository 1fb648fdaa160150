"""Changes that wait for a decision: a baseline file of only the changed lines, among the reports.

Written by `alignkit gate` outside CI, read by `alignkit review` and `alignkit baseline approve`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from alignkit.baseline import Baseline, LineKey, baseline_text, read_baseline
from alignkit.baseline.approval import LineChange, MetricChange, changes, metric_changes
from alignkit.errors import ConfigError
from alignkit.place import Place
from alignkit.preprocess import STAGES, StageName
from alignkit.workspace import Workspace, write_atomically


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes of one path that begin at the same stage."""

    path: str
    stage: StageName
    """The first stage that changed; the changes of later stages follow from it."""
    lines: tuple[LineChange, ...]
    """The changes, including those of later stages."""

    @property
    def images(self) -> tuple[str, ...]:
        """Ids of the images, in order."""
        return tuple(dict.fromkeys(line.image for line in self.lines))

    @property
    def new(self) -> bool:
        """Whether these images had no line before."""
        return all(line.old is None for line in self.lines)


def pending_file(workspace: Workspace, name: str, fingerprint: str) -> Path:
    """Return the file of an experiment's pending changes."""
    return workspace.root / name / f"pending-{fingerprint}.jsonl"


def pending_changes(approved: Baseline | None, now: Baseline) -> Baseline:
    """Return only the lines of ``now`` that are not approved."""
    lines = {change.key: change.new for change in changes(approved, now)}
    metrics = {change.new.place: change.new for change in metric_changes(approved, now)}
    return Baseline(now.head, lines, metrics)


def write_pending(path: Path, pending: Baseline) -> None:
    """Replace the file, or remove it if nothing is left to decide."""
    if pending.metrics or not all(line.rejected for line in pending.lines.values()):
        write_atomically(path, baseline_text(pending))
    else:
        path.unlink(missing_ok=True)


def read_pending(path: Path) -> Baseline:
    """Read a file; raise `ConfigError` if nothing is pending, `BaselineError` if it is damaged."""
    if not path.exists():
        raise ConfigError(f"nothing is pending in {path}; run alignkit gate FILE first")
    return read_baseline(path)


def without(pending: Baseline, lines: Collection[LineKey], metrics: Collection[Place]) -> Baseline:
    """Return the changes that are still pending once these lines are decided."""
    return Baseline(
        pending.head,
        {key: line for key, line in pending.lines.items() if key not in lines},
        {key: line for key, line in pending.metrics.items() if key not in metrics},
    )


def rejecting(pending: Baseline, lines: Collection[LineKey]) -> Baseline:
    """Return the same changes with these lines marked as rejected."""
    marked = {key: pending.lines[key].model_copy(update={"rejected": True}) for key in lines}
    return Baseline(pending.head, pending.lines | marked, pending.metrics)


def grouped(lines: Iterable[LineChange]) -> list[ChangeGroup]:
    """Group changes by path and first changed stage, in this order; leave out rejected lines."""
    by_image: dict[tuple[str, str], list[LineChange]] = {}
    for line in lines:
        if line.new.rejected:
            continue
        by_image.setdefault((line.path, line.image), []).append(line)
    groups: dict[tuple[str, StageName], list[LineChange]] = {}
    for (path, _), of_image in by_image.items():
        first = min((line.new.stage for line in of_image), key=STAGES.index)
        groups.setdefault((path, first), []).extend(of_image)
    ordered = sorted(groups.items(), key=lambda each: (each[0][0], STAGES.index(each[0][1])))
    return [ChangeGroup(path, stage, tuple(members)) for (path, stage), members in ordered]


def chosen(
    groups: Iterable[ChangeGroup], *, path: str | None, stage: str | None, image: str | None
) -> tuple[LineChange, ...]:
    """Return the lines of a path, a first changed stage and a pattern of images; None: all."""
    return tuple(
        line
        for group in groups
        if path in (None, group.path) and stage in (None, group.stage)
        for line in group.lines
        if image is None or fnmatch(line.image, image)
    )


def chosen_metrics(
    approved: Baseline | None, pending: Baseline, *, path: str | None
) -> tuple[MetricChange, ...]:
    """Return the changed metrics of the entries evaluated on a path, or of all."""
    return tuple(
        change
        for change in metric_changes(approved, pending)
        if path in (None, change.new.evaluated_with)
    )
