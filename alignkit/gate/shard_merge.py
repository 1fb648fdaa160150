"""Pixel gates in shards: each measures some of the images, and all are judged as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from alignkit.baseline.baseline_diff import compare_with_baseline
from alignkit.baseline.snapshot import Snapshot, snapshot_of
from alignkit.compare.pixel_diff import joined
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.gate.gate_check import Checked, approved_baseline, baseline_folder, judged
from alignkit.gate.gate_shard import PairSums, Shard, ShardResult
from alignkit.gate.pixel_gate import compare_sums, pixel_record, self_test_controls, stages_of
from alignkit.record import BaselineFacts, CoverageDiff, RunRecord
from alignkit.record.document import write_record
from alignkit.workspace import Context, Workspace, content_key


def check_shard(
    experiment: Experiment,
    context: Context,
    shard: Shard,
    *,
    baselines: Path | None,
) -> tuple[Checked, ShardResult]:
    """Measure one shard and judge its images alone.

    Raises `ConfigError` for an experiment that trains, `NothingCompared` for a shard without an
    image.
    """
    if experiment.labelled:
        raise ConfigError("--shard is for pixel gates; the cells of an experiment are not divided")
    whole = experiment.data.evaluation()
    samples = shard.take(whole)
    if not len(samples):
        raise NothingCompared(
            f"shard {shard.index} of {shard.count} has none of {len(whole)} images"
        )
    folder = baseline_folder(experiment, baselines)
    approved = approved_baseline(experiment, folder)
    pairs = compare_sums(experiment.paths, samples, context.progress)
    controls = self_test_controls(experiment.reference, samples)
    coverage = tuple(pair.coverage for pair in pairs)
    record = pixel_record(experiment, samples, stages_of(pairs), coverage, controls)
    now, facts = None, None
    if approved is not None:
        now = snapshot_of(
            experiment, folder, approved=approved, samples=samples, progress=context.progress
        )
        # the images of the other shards are not gone
        facts = compare_with_baseline(approved, now).model_copy(update={"gone": 0})
    run = context.workspace.run_folder(experiment.name, record.key)
    done = judged(experiment, record, facts)
    write_record(done, run)
    checked = Checked(done, run, approved, now.as_baseline() if now else None)
    return checked, ShardResult(shard, whole.fingerprint, done, pairs, now)


def merge(
    experiment: Experiment,
    parts: Sequence[ShardResult],
    workspace: Workspace,
    *,
    baselines: Path | None,
) -> Checked:
    """Join all shards of one gate and judge them as one run over all images.

    Raises `ConfigError` if shards are missing, repeated, or of another file, data or library.
    """
    ordered = sorted(parts, key=lambda part: part.shard.index)
    _belong_together(experiment, ordered)
    first = ordered[0].record
    pairs = _joined_pairs(ordered)
    approved = approved_baseline(experiment, baseline_folder(experiment, baselines))
    now = _joined_snapshots(ordered)
    facts: BaselineFacts | None = None
    if approved is not None and now is not None:
        facts = compare_with_baseline(approved, now)
    images = sum(part.record.data.eval for part in ordered)
    record = first.model_copy(
        update={
            "key": content_key([part.record.key for part in ordered]),
            "seconds": round(sum(part.record.seconds for part in ordered), 1),
            "data": first.data.model_copy(update={"eval": images, "fingerprint": ordered[0].data}),
            "controls": tuple(c for part in ordered for c in part.record.controls),
            "pixels": stages_of(pairs),
            "coverage_diffs": tuple(pair.coverage for pair in pairs),
        }
    )
    run = workspace.run_folder(experiment.name, record.key)
    done = judged(experiment, record, facts)
    write_record(done, run)
    return Checked(done, run, approved, now.as_baseline() if now else None)


def _belong_together(experiment: Experiment, parts: Sequence[ShardResult]) -> None:
    if not parts:
        raise ConfigError("name the shards to merge, each written by --out shard=PATH")
    counts = {part.shard.count for part in parts}
    indices = [part.shard.index for part in parts]
    missing = sorted(set(range(1, max(counts) + 1)) - set(indices))
    problems = (
        (len(counts) > 1, f"the shards are of {', '.join(map(str, sorted(counts)))} each"),
        (bool(missing), f"shards {', '.join(map(str, missing))} of {max(counts)} are missing"),
        (len(set(indices)) < len(indices), "a shard is given twice"),
        (len({part.data for part in parts}) > 1, "the shards are of different images"),
        (len({_made_by(part.record) for part in parts}) > 1,
         "the shards were made by different libraries"),
        (any(part.record.yaml != experiment.text for part in parts),
         f"the shards are of another file than {experiment.file}, or of another version of it"),
        (any(part.record.overrides != experiment.overrides for part in parts),
         "the shards were made with other --set than is given here"),
    )  # fmt: skip
    for wrong, message in problems:
        if wrong:
            raise ConfigError(message)


def _made_by(record: RunRecord) -> str:
    versions = [[stage.version for stage in path.stages] for path in record.paths]
    return content_key([record.alignkit, versions])


def _joined_pairs(parts: Sequence[ShardResult]) -> tuple[PairSums, ...]:
    def join(left: PairSums, right: PairSums) -> PairSums:
        diffs = joined((left.diffs, right.diffs))
        return replace(left, diffs=diffs, coverage=_added(left.coverage, right.coverage))

    of_pairs = zip(*(part.pairs for part in parts), strict=True)
    return tuple(reduce(join, pairs) for pairs in of_pairs)


def _added(left: CoverageDiff, right: CoverageDiff) -> CoverageDiff:
    return left.model_copy(
        update={
            "images": left.images + right.images,
            "only_reference": left.only_reference + right.only_reference,
            "only_candidate": left.only_candidate + right.only_candidate,
            "examples": (*left.examples, *right.examples)[:20],
        }
    )


def _joined_snapshots(parts: Sequence[ShardResult]) -> Snapshot | None:
    snapshots = [part.now for part in parts if part.now is not None]
    if not snapshots:
        return None
    total = Snapshot(snapshots[0].head.model_copy(update={"data": parts[0].data}))
    for now in snapshots:
        total.lines.update(now.lines)
        total.measured.update(now.measured)
        for place, sums in now.golden.items():
            known = total.golden.get(place)
            total.golden[place] = sums if known is None else known + sums
    return total
