"""`Shard`: a pixel gate over some of the images, which merges exactly with the others.

A shard keeps sums and histograms, not ratios, so that the merged result equals that of one run over
all images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from alignkit.baseline import baseline_folder
from alignkit.baseline.baseline_diff import compare_with_baseline
from alignkit.baseline.snapshot import Snapshot, snapshot_of
from alignkit.compare.compare_pixels import compare_preprocess, coverage_diff, pixel_stage
from alignkit.compare.pixel_diff import PixelDiff
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.gate.gate_check import Checked, approved_baseline, conclude
from alignkit.gate.gate_taps import judged_taps
from alignkit.gate.pixel_gate import Advance, for_each_pair, pixel_record
from alignkit.lots import Shard
from alignkit.preprocess import Preprocess
from alignkit.record import CoverageDiff, PixelStage, RunRecord
from alignkit.workspace import Context


@dataclass(frozen=True, slots=True)
class PairSums:
    """Measurements of one pair of paths, which can be added."""

    reference: str
    candidate: str
    diffs: tuple[PixelDiff, ...]
    coverage: CoverageDiff
    digests: tuple[str, ...] = ()
    """See `alignkit.compare.pixel_diff.StageDiffs.digests`."""

    @property
    def stages(self) -> tuple[PixelStage, ...]:
        """The stage table."""
        return tuple(
            pixel_stage(diff, reference=self.reference, candidate=self.candidate)
            for diff in self.diffs
        )


@dataclass(frozen=True, slots=True)
class ShardResult:
    """Measurements of one shard, for the merge."""

    shard: Shard
    data: str
    """Fingerprint of all images, those of the other shards included."""
    images: tuple[str, ...]
    """Ids of this shard's images."""
    total: int
    """Number of all images."""
    record: RunRecord
    pairs: tuple[PairSums, ...]
    now: Snapshot | None


def check_shard(
    experiment: Experiment,
    context: Context,
    shard: Shard,
    *,
    baselines: Path | None,
) -> Checked:
    """Measure one shard and judge its images alone.

    Raises `ConfigError` for an experiment that trains, `NothingCompared` for a shard without an
    image.
    """
    if experiment.predicts:
        raise ConfigError("--shard is for pixel gates; the cells of an experiment are not divided")
    whole = experiment.data.evaluation()
    samples = whole.take(shard.positions(len(whole)))
    if not len(samples):
        place = f"shard {shard.index} of {shard.count}"
        raise NothingCompared(f"{place} has none of {len(whole)} images")
    folder = baseline_folder(experiment, baselines)
    # before the images are compared, as it may be missing
    approved = approved_baseline(experiment, folder)

    def compare(reference: Preprocess, candidate: Preprocess, advance: Advance) -> PairSums:
        diffs = compare_preprocess(reference, candidate, samples, progress=advance)
        names = diffs.reference, diffs.candidate
        return PairSums(*names, diffs.diffs, coverage_diff(diffs), diffs.digests)

    pairs = for_each_pair(experiment.paths, len(samples), context.progress, compare)
    record = pixel_record(experiment, samples, pairs, context.workspace, whole)
    now, facts = None, None
    if approved is not None:
        now = snapshot_of(experiment, folder, approved=approved, samples=samples, context=context)
        # the images of the other shards are not here, and not gone either
        ids = frozenset(samples.ids)
        own = {key: line for key, line in approved.lines.items() if key[1] in ids}
        facts = compare_with_baseline(replace(approved, lines=own), now)
    run = context.workspace.run_folder(experiment.name, record.key)
    checked = conclude(
        experiment,
        record,
        run,
        approved=approved,
        now=now,
        baseline=facts,
        asserted=judged_taps(experiment),
    )
    part = ShardResult(
        shard, whole.fingerprint, samples.ids, len(whole), checked.record, pairs, now
    )
    return replace(checked, part=part)
