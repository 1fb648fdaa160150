"""Pending changes → approvals, for `alignkit review` and `alignkit baseline approve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alignkit.baseline import Baseline, baseline_environment, baseline_file, read_baseline
from alignkit.baseline.approval import (
    Approval,
    LineChange,
    MetricChange,
    approve,
    changes,
    refuse_in_ci,
)
from alignkit.baseline.pending import (
    ChangeGroup,
    chosen,
    chosen_metrics,
    grouped,
    pending_file,
    read_pending,
    rejecting,
    without,
    write_pending,
)
from alignkit.baseline.review import Decided, cause_of
from alignkit.errors import ConfigError
from alignkit.experiment.experiment import Experiment
from alignkit.gate.gate_check import baseline_folder
from alignkit.preprocess import StageName
from alignkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Undecided:
    """The pending changes of one file and environment."""

    folder: Path
    """The folder of the baselines."""
    source: Path
    """The file of pending lines."""
    approved: Baseline | None
    pending: Baseline
    groups: list[ChangeGroup]
    page: Path | None
    """The newest report of the experiment."""

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        workspace: Workspace,
        baselines: Path | None,
        source: Path | None = None,
    ) -> Undecided:
        """Read both sides; raises `ConfigError` in CI or if nothing is pending."""
        refuse_in_ci("deciding on a baseline")
        folder = baseline_folder(experiment, baselines)
        file = baseline_file(folder, baseline_environment(experiment.paths))
        source = source or pending_file(workspace, experiment.name, file.stem)
        pending = read_pending(source)
        known = baseline_file(folder, pending.head.environment)
        approved = read_baseline(known) if known.exists() else None
        pages = (workspace.root / experiment.name).glob("*/index.html")
        newest = max(pages, key=lambda page: page.stat().st_mtime, default=None)
        return cls(folder, source, approved, pending, grouped(changes(approved, pending)), newest)

    def cause(self, group: ChangeGroup) -> str:
        """Return what else changed of the group's stage, in words."""
        return cause_of(group, self.approved, self.pending)

    def metrics(self, path: str | None = None) -> tuple[MetricChange, ...]:
        """Return pending matrix entries of models evaluated on a path, or on all."""
        return chosen_metrics(self.approved, self.pending, path=path)


def approve_pending(
    experiment: Experiment,
    workspace: Workspace,
    *,
    baselines: Path | None,
    source: Path | None,
    path: str | None,
    stage: StageName | None,
    image: str | None,
    models: bool = False,
    reason: str,
) -> Approval:
    """Approve the pending lines that match; raises `ConfigError` if none does.

    ``models`` approves predictions and no pixels.
    """
    narrowed = stage is not None or image is not None
    if models and narrowed:
        raise ConfigError("--models is about no stage and no image; leave --stage and --image out")
    waiting = Undecided.of(experiment, workspace, baselines, source)
    lines = () if models else chosen(waiting.groups, path=path, stage=stage, image=image)
    metrics = () if narrowed else waiting.metrics(path)
    if not lines and not metrics:
        there = [f"--path {each.path} --stage {each.stage}" for each in waiting.groups]
        there += ["--models"] if waiting.metrics() else []
        raise ConfigError(f"no pending change matches; there are: {'; '.join(there) or 'none'}")
    return _approved(waiting, lines, metrics, reason)


def apply_decisions(waiting: Undecided, decided: Decided, *, reason: str) -> Approval | None:
    """Approve accepted groups and mark rejected ones; skipped groups stay pending.

    Raises as `approve` does, and then decides nothing.
    """
    rejected = {line.key for group in decided.reject for line in group.lines}
    waiting = replace(waiting, pending=rejecting(waiting.pending, rejected))
    lines = tuple(line for group in decided.accept for line in group.lines)
    if lines:
        return _approved(waiting, lines, (), reason)
    write_pending(waiting.source, waiting.pending)
    return None


def _approved(
    waiting: Undecided,
    lines: Sequence[LineChange],
    metrics: Sequence[MetricChange],
    reason: str,
) -> Approval:
    approval = approve(waiting.folder, waiting.pending, lines, metrics, reason=reason)
    gone = {line.key for line in lines}
    left = without(waiting.pending, gone, {change.new.place for change in metrics})
    write_pending(waiting.source, left)
    return approval
