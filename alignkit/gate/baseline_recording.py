"""`alignkit baseline record`: the stages of every path, and metrics of a run, as approved lines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from alignkit.baseline import (
    baseline_environment,
    baseline_file,
    baseline_folder,
    read_baseline,
    recording,
)
from alignkit.baseline.approval import approve, changes, metric_changes, refuse_in_ci
from alignkit.baseline.golden import GoldenStore
from alignkit.baseline.pending import pending_changes, pending_file, write_pending
from alignkit.baseline.snapshot import snapshot_of
from alignkit.baseline.tapped_lots import TapLots
from alignkit.errors import MissingDependency, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.gate.pixel_gate import judged_images
from alignkit.lots.kept_lots import KeptLots
from alignkit.preprocess import StageName
from alignkit.runner import run_experiment
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

    Existing lines are never overwritten: changes become pending. Raises `ConfigError` in CI,
    `MissingDependency` if a path cannot run here: a baseline without it would compare nothing.
    """
    refuse_in_ci("recording a baseline", recording(experiment.file))
    for preprocess in experiment.paths:
        if reason_missing := preprocess.missing():
            raise MissingDependency(f"preprocess.{preprocess.name}: {reason_missing}")
    folder = baseline_folder(experiment, baselines)
    file = baseline_file(folder, baseline_environment(experiment.paths))
    approved = read_baseline(file) if file.exists() else None
    record, run = run_experiment(experiment, context) if experiment.predicts else (None, None)
    samples = judged_images(experiment, record) if record else experiment.data.evaluation()
    now = snapshot_of(
        experiment,
        folder,
        record=record,
        run=run,
        approved=approved,
        keep=golden,
        samples=samples,
        context=context,
    ).as_baseline()
    if not any(line.sha256 for line in now.lines.values()):
        first = next(iter(now.lines.values()), None)
        why = f": {first.image}: {first.reason}" if first else ""
        raise NothingCompared(f"no image could be decoded; there is nothing to record{why}")
    # a new stage of a known image is a change, which somebody has to approve
    known = {key[:2] for key in approved.lines} if approved else set()
    new = [each for each in changes(approved, now) if (each.path, each.image) not in known]
    metrics = [change for change in metric_changes(approved, now) if change.old is None]
    # through an approval, so that the log names who recorded, and when
    if new or metrics:
        approve(folder, now, new, metrics, reason=reason)
    if new:
        # nobody asks for these lots again, as approved lines are part of their keys
        store = KeptLots(context.workspace)
        work = TapLots.of(experiment.paths, approved, GoldenStore(folder / "golden"))
        for lot in store.stored(work, samples):
            store.forget(work, lot, samples.fingerprint)
    left = pending_changes(read_baseline(file), now)
    write_pending(pending_file(context.workspace, experiment.name, now.fingerprint), left)
    before = len(approved.lines) if approved else 0
    return BaselineRecording(file, len(new), before, len(left.lines))
