"""`Shard`: a pixel gate over some of the images, which merges exactly with the others.

A shard keeps sums and histograms, not ratios, so that the merged result equals that of one run over
all images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alignkit.baseline import baseline_folder
from alignkit.baseline.baseline_diff import compare_with_baseline
from alignkit.baseline.snapshot import Snapshot, snapshot_of
from alignkit.compare.compare_pixels import compare_preprocess, coverage_diff, pixel_stage
from alignkit.compare.pixel_diff import PixelDiff, joined
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.gate.gate_check import Checked, approved_baseline, conclude
from alignkit.gate.pixel_gate import Advance, for_each_pair, pixel_record
from alignkit.preprocess import Preprocess
from alignkit.record import CoverageDiff, PixelStage, RunRecord
from alignkit.record.path_facts import COVERAGE_EXAMPLES
from alignkit.workspace import Context, Workspace, content_key


@dataclass(frozen=True, slots=True)
class Shard:
    """Every ``count``-th image, beginning with the ``index``-th."""

    index: int
    """From 1."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``2/5``; raises `ConfigError` for anything else."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal()):
            raise ConfigError(f"--shard {text}: write it as i/n, for example 2/5")
        shard = cls(int(index), int(count))
        if not 1 <= shard.index <= shard.count:
            raise ConfigError(f"--shard {text}: i counts from 1 to n")
        return shard


@dataclass(frozen=True, slots=True)
class PairSums:
    """Measurements of one pair of paths, which can be added."""

    reference: str
    candidate: str
    diffs: tuple[PixelDiff, ...]
    coverage: CoverageDiff

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
    if experiment.labelled:
        raise ConfigError("--shard is for pixel gates; the cells of an experiment are not divided")
    whole = experiment.data.evaluation()
    samples = whole.take(range(shard.index - 1, len(whole), shard.count))
    if not len(samples):
        place = f"shard {shard.index} of {shard.count}"
        raise NothingCompared(f"{place} has none of {len(whole)} images")
    folder = baseline_folder(experiment, baselines)
    # before the images are compared, as it may be missing
    approved = approved_baseline(experiment, folder)

    def compare(reference: Preprocess, candidate: Preprocess, advance: Advance) -> PairSums:
        diffs = compare_preprocess(reference, candidate, samples, progress=advance)
        return PairSums(diffs.reference, diffs.candidate, diffs.diffs, coverage_diff(diffs))

    pairs = for_each_pair(experiment.paths, len(samples), context.progress, compare)
    record = pixel_record(experiment, samples, pairs)
    now, facts = None, None
    if approved is not None:
        now = snapshot_of(
            experiment, folder, approved=approved, samples=samples, progress=context.progress
        )
        # the images of the other shards are not here, and not gone either
        facts = compare_with_baseline(approved, now).model_copy(update={"gone": 0})
    run = context.workspace.run_folder(experiment.name, record.key)
    checked = conclude(experiment, record, run, approved=approved, now=now, baseline=facts)
    return replace(checked, part=ShardResult(shard, whole.fingerprint, checked.record, pairs, now))


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
    pairs = tuple(map(_joined, zip(*(part.pairs for part in ordered), strict=True)))
    approved = approved_baseline(experiment, baseline_folder(experiment, baselines))
    now = _joined_snapshots(ordered)
    facts = compare_with_baseline(approved, now) if approved and now else None
    images = sum(part.record.data.eval for part in ordered)
    record = first.model_copy(
        update={
            "key": content_key([part.record.key for part in ordered]),
            "seconds": round(sum(part.record.seconds for part in ordered), 1),
            "data": first.data.model_copy(update={"eval": images, "fingerprint": ordered[0].data}),
            # every shard tested its own machine
            "controls": tuple(c for part in ordered for c in part.record.controls),
            "pixels": tuple(stage for pair in pairs for stage in pair.stages),
            "coverage_diffs": tuple(pair.coverage for pair in pairs),
        }
    )
    run = workspace.run_folder(experiment.name, record.key)
    return conclude(experiment, record, run, approved=approved, now=now, baseline=facts)


def _belong_together(experiment: Experiment, parts: Sequence[ShardResult]) -> None:
    if not parts:
        raise ConfigError("name the shards to merge, each written by --out shard=PATH")
    counts = {part.shard.count for part in parts}
    indices = [part.shard.index for part in parts]
    missing = sorted(set(range(1, max(counts) + 1)) - set(indices))
    records = [part.record for part in parts]
    stages = ([stage.version for path in each.paths for stage in path.stages] for each in records)
    makers = {(each.alignkit, *own) for each, own in zip(records, stages, strict=True)}
    # only the first is reported: the others may follow from it
    problems = (
        (len(counts) > 1, f"the shards are of {', '.join(map(str, sorted(counts)))} each"),
        (bool(missing), f"shards {', '.join(map(str, missing))} of {max(counts)} are missing"),
        (len(set(indices)) < len(indices), "a shard is given twice"),
        (len({part.data for part in parts}) > 1, "the shards are of different images"),
        (len(makers) > 1, "the shards were made by different libraries"),
        (any(each.yaml != experiment.text for each in records),
         f"the shards are of another file than {experiment.file}, or of another version of it"),
        (any(each.overrides != experiment.overrides for each in records),
         "the shards were made with other --set than is given here"),
        (len({_compared(part) for part in parts}) > 1, "the shards compare other paths or stages"),
    )  # fmt: skip
    for wrong, message in problems:
        if wrong:
            raise ConfigError(message)


def _compared(part: ShardResult) -> tuple[object, ...]:
    """Return what can be added up: each pair of paths with its stages, in order."""
    return tuple(
        (each.reference, each.candidate, tuple((diff.stage, diff.mode) for diff in each.diffs))
        for each in part.pairs
    )


def _joined(pairs: tuple[PairSums, ...]) -> PairSums:
    """Add up what the shards measured of one pair of paths."""
    first, covered = pairs[0], [pair.coverage for pair in pairs]
    counts = {
        name: sum(getattr(each, name) for each in covered)
        for name in ("images", "only_reference", "only_candidate")
    }
    examples = {
        # as many as one run over all images would name
        name: tuple(image for each in covered for image in getattr(each, name))[:COVERAGE_EXAMPLES]
        for name in ("reference_examples", "candidate_examples")
    }
    coverage = first.coverage.model_copy(update={**counts, **examples})
    return replace(first, diffs=joined(pair.diffs for pair in pairs), coverage=coverage)


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
