"""`alignkit baseline record`: add lines that are missing; existing lines are never overwritten."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from alignkit.baseline import Baseline, baseline_environment, baseline_file, read_baseline
from alignkit.baseline.approval import approve, changes, metric_changes, refuse_in_ci
from alignkit.baseline.pending import pending_changes, pending_file, write_pending
from alignkit.baseline.snapshot import snapshot_of
from alignkit.errors import MissingDependency, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.gate.gate_check import baseline_folder
from alignkit.preprocess import StageName
from alignkit.workspace import Context


@dataclass(frozen=True, slots=True)
class BaselineRecording:
    """Outcome of a recording."""

    file: Path
    added: int
    known: int
    """Lines that were approved before."""
    pending: int
    """Lines that differ from the approved ones and wait for an approval."""


def record_baseline(
    experiment: Experiment,
    context: Context,
    *,
    baselines: Path | None,
    golden: Collection[StageName],
    reason: str,
) -> BaselineRecording:
    """Record every path's stages and add the lines of images and paths that have none.

    Raises `ConfigError` in CI, `MissingDependency` if a path cannot run here: a baseline without it
    would compare nothing.
    """
    refuse_in_ci("recording a baseline")
    for preprocess in experiment.paths:
        if reason_missing := preprocess.missing():
            raise MissingDependency(f"preprocess.{preprocess.name}: {reason_missing}")
    folder = baseline_folder(experiment, baselines)
    file = baseline_file(folder, baseline_environment(experiment.paths))
    approved = read_baseline(file) if file.exists() else None
    now = _now(experiment, context, folder, approved, golden)
    if not any(line.sha256 for line in now.lines.values()):
        first = next(iter(now.lines.values()), None)
        why = f": {first.image}: {first.reason}" if first else ""
        raise NothingCompared(f"no image could be decoded; there is nothing to record{why}")
    new = [
        change for change in changes(approved, now) if _is_new(change.path, change.image, approved)
    ]
    metrics = [change for change in metric_changes(approved, now) if change.old is None]
    if new or metrics:
        approve(folder, now, new, metrics, reason=reason)
    left = pending_changes(read_baseline(file), now)
    write_pending(pending_file(context.workspace, experiment.name, now.fingerprint), left)
    known = len(approved.lines) if approved else 0
    return BaselineRecording(file, len(new), known, len(left.lines))


def _now(
    experiment: Experiment,
    context: Context,
    folder: Path,
    approved: Baseline | None,
    golden: Collection[StageName],
) -> Baseline:
    record, run = None, None
    if experiment.labelled:
        from alignkit.run import run_experiment

        record, run = run_experiment(experiment, context)
    return snapshot_of(
        experiment,
        folder,
        record=record,
        run=run,
        approved=approved,
        keep=golden,
        progress=context.progress,
    ).as_baseline()


def _is_new(path: str, image: str, approved: Baseline | None) -> bool:
    """Return whether the image has no line at all; a new stage of a known image is a change."""
    if approved is None:
        return True
    return not any((path, image) == key[:2] for key in approved.lines)
