"""The shards of one gate, joined and judged as one run over all images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from alignkit.baseline import baseline_folder
from alignkit.baseline.baseline_diff import compare_with_baseline
from alignkit.baseline.snapshot import Snapshot
from alignkit.compare.coverage_tally import CoverageTally
from alignkit.compare.pixel_diff import joined
from alignkit.controls.planted_faults import PIXEL_CONTROLS
from alignkit.errors import ConfigError
from alignkit.experiment.experiment import Experiment
from alignkit.gate.gate_check import Checked, approved_baseline, conclude
from alignkit.gate.gate_shard import PairSums, ShardResult
from alignkit.gate.gate_taps import judged_taps
from alignkit.lots import Shard
from alignkit.samples import copies_among, selection_fingerprint
from alignkit.workspace import Workspace, content_key


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
    lacking = [part.shard.index for part in ordered if part.now is None]
    if approved is not None and lacking:
        raise ConfigError(
            f"shard {lacking[0]} holds no stages, which rules against a baseline compare; measure "
            "it again with the baseline at hand"
        )
    now = _joined_snapshots(ordered)
    facts = compare_with_baseline(approved, now) if approved and now else None
    images = sum(part.record.data.eval for part in ordered)
    record = first.model_copy(
        update={
            "key": content_key([part.record.key for part in ordered]),
            "seconds": round(sum(part.record.seconds for part in ordered), 1),
            "data": first.data.model_copy(
                update={
                    "eval": images,
                    "fingerprint": ordered[0].data,
                    "copies": _copies(ordered),
                }
            ),
            # every shard tested its own machine
            "controls": tuple(c for part in ordered for c in part.record.controls),
            "pixels": tuple(stage for pair in pairs for stage in pair.stages),
            "coverage_diffs": tuple(pair.coverage for pair in pairs),
        }
    )
    run = workspace.run_folder(experiment.name, record.key)
    return conclude(
        experiment,
        record,
        run,
        approved=approved,
        now=now,
        baseline=facts,
        asserted=judged_taps(experiment),
    )


def _belong_together(experiment: Experiment, parts: Sequence[ShardResult]) -> None:
    if not parts:
        raise ConfigError("name the shards to merge, each written by --out shard=PATH")
    counts = {part.shard.count for part in parts}
    indices = [part.shard.index for part in parts]
    missing = sorted(set(range(1, max(counts) + 1)) - set(indices))
    records = [part.record for part in parts]
    stages = ([stage.version for path in each.paths for stage in path.stages] for each in records)
    makers = {(each.alignkit, *own) for each, own in zip(records, stages, strict=True)}
    images = {(part.data, part.total) for part in parts}
    # only the first is reported: the others may follow from it
    problems = (
        (len(counts) > 1, f"the shards are of {', '.join(map(str, sorted(counts)))} each"),
        (bool(missing), f"shards {', '.join(map(str, missing))} of {max(counts)} are missing"),
        (len(set(indices)) < len(indices), "a shard is given twice"),
        (len(images) > 1, "the shards are of different images"),
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
    _cover_all_images(parts)
    for part in parts:
        if problem := _lacking(experiment, part):
            raise ConfigError(f"shard {part.shard.index} {problem}; measure it again")


def _lacking(experiment: Experiment, part: ShardResult) -> str:
    """Say which part of a shard's record is not what its measurement writes; empty if none."""
    record = part.record
    names = [path.name for path in experiment.paths]
    if [path.name for path in record.paths] != names:
        return f"does not list the paths {', '.join(names)}"
    # none is made of a reference that cannot run there
    held = len({control.name for control in record.controls})
    if held != PIXEL_CONTROLS and not record.paths[0].skipped:
        return f"holds {held} of {PIXEL_CONTROLS} controls of the self-test"
    positions = part.shard.positions(part.total)
    if record.data.fingerprint != selection_fingerprint(part.data, positions):
        return f"is not of {part.shard.index}/{part.shard.count} of {part.total} images"
    return ""


def _compared(part: ShardResult) -> tuple[object, ...]:
    """Return what can be added up: each pair of paths with its stages, in order."""
    return tuple(
        (each.reference, each.candidate, tuple((diff.stage, diff.mode) for diff in each.diffs))
        for each in part.pairs
    )


def _cover_all_images(parts: Sequence[ShardResult]) -> None:
    """Raise `ConfigError` unless every image is in one shard, whatever number it calls itself."""
    seen: dict[str, Shard] = {}
    for part in parts:
        for image in part.images:
            if (other := seen.setdefault(image, part.shard)) != part.shard:
                raise ConfigError(
                    f"shards {other.index} and {part.shard.index} both hold {image}: one was given "
                    "twice, or measured with another --shard than it says"
                )
        counted = {part.record.data.eval, *(pair.coverage.images for pair in part.pairs)}
        if counted != {len(part.images)}:
            raise ConfigError(
                f"shard {part.shard.index} holds {len(part.images)} images and counts "
                f"{', '.join(map(str, sorted(counted)))}; measure it again"
            )
    if len(seen) != parts[0].total:
        raise ConfigError(
            f"the shards hold {len(seen)} of {parts[0].total} images; measure them again"
        )


def _joined(pairs: tuple[PairSums, ...]) -> PairSums:
    """Add up what the shards measured of one pair of paths."""
    coverage = CoverageTally.joined([pair.coverage for pair in pairs])
    return replace(pairs[0], diffs=joined(pair.diffs for pair in pairs), coverage=coverage)


def _copies(parts: Sequence[ShardResult]) -> dict[str, str]:
    """Find the images with the pixels of an earlier one, in whichever shards both are."""
    placed: list[tuple[int, str, str]] = []
    for part in parts:
        if part.pairs:
            places = part.shard.positions(part.total)
            placed += zip(places, part.images, part.pairs[0].digests, strict=True)
    placed.sort()
    return copies_among([name for _, name, _ in placed], [digest for _, _, digest in placed])


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
