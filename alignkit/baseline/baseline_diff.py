"""Comparison of a `Snapshot` with its approved `Baseline`: which stages changed, where, and why."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from alignkit.baseline import Baseline, BaselineHead, FirstChanged, LineKey, StageLine
from alignkit.baseline.snapshot import Snapshot
from alignkit.preprocess import STAGES, StageName
from alignkit.record import BaselineDrift, BaselineFacts, BaselineStage, CoverageDiff
from alignkit.text.stage_changes import option_changes

_EXAMPLES = 20
"""Greatest number of images named for one stage."""


@dataclass(slots=True)
class _Stage:
    """Counts of one stage of one path."""

    images: int = 0
    changed: list[LineKey] = field(default_factory=list)
    pairs: list[tuple[StageLine, StageLine]] = field(default_factory=list)
    """The lines of the changed arrays, old and new."""
    begun: list[LineKey] = field(default_factory=list)
    same_pixels: Counter[str] = field(default_factory=Counter)
    """dtype → pixels of unchanged images."""
    same_images: Counter[str] = field(default_factory=Counter)


def compare_with_baseline(
    approved: Baseline,
    now: Snapshot,
    *,
    first_changed: FirstChanged | None = None,
    copies: Mapping[str, str] | None = None,
) -> BaselineFacts:
    """Compare line by line.

    ``first_changed`` names the stage from which ``now`` taps each path; by default the first.
    ``copies`` are those of the images, see `alignkit.samples.copies_among`.

    An image counts at a stage if the baseline knows the image. A stage without a line passed its
    input on unchanged, so that its hash is that of the stage before.
    """
    first_changed = first_changed or {}
    unchanged = tuple(path for path, begin in first_changed.items() if begin is None)
    tapped = now.head.paths.keys() - set(unchanged)
    known = {key: stages for key, stages in _arrays(approved.lines).items() if key[0] in tapped}
    current = _arrays(now.lines)
    counted: dict[tuple[str, StageName], _Stage] = defaultdict(_Stage)
    new = len(current.keys() - known.keys())
    for image, stages in current.items():
        if image in known:
            begin = first_changed.get(image[0]) or STAGES[0]
            new += _count(counted, image, known[image], stages, begin)
    return BaselineFacts(
        fingerprint=approved.fingerprint,
        new=new,
        gone=len(known.keys() - current.keys()),
        stages=tuple(
            _facts(path, stage, each, approved, now) for (path, stage), each in counted.items()
        ),
        coverage=_coverage(known, current) if approved.lines else _predicted(approved, now),
        untapped=tuple(sorted({key[0] for key in approved.lines} - now.head.paths.keys())),
        unchanged=unchanged,
        begins={
            path: begin for path, begin in first_changed.items() if begin and begin != STAGES[0]
        },
        metrics={place.json_key: line.metrics for place, line in approved.metrics.items()},
        drifts=_drifts(approved, now, copies),
    )


def _drifts(
    approved: Baseline, now: Snapshot, copies: Mapping[str, str] | None
) -> dict[str, BaselineDrift]:
    """Compute the drift of every entry for which both sides keep predictions of the same seeds."""
    from alignkit.baseline.baseline_from_run import drift_since

    found = {}
    for place, line in now.metrics.items():
        before = approved.metrics[place].predictions if place in approved.metrics else {}
        seeds = sorted(before.keys() & line.predictions.keys())
        if seeds:
            drift = drift_since(
                [before[seed] for seed in seeds],
                [line.predictions[seed] for seed in seeds],
                copies,
            )
            found[place.json_key] = BaselineDrift(seeds=tuple(seeds), drift=drift)
    return found


def _arrays(
    lines: dict[LineKey, StageLine],
) -> dict[tuple[str, str], dict[StageName, StageLine]]:
    """Map (path, image) to stage → the line of its array, inherited if the stage has no line."""
    found: dict[tuple[str, str], dict[StageName, StageLine]] = defaultdict(dict)
    for line in lines.values():
        found[line.path, line.image][line.stage] = line
    for stages in found.values():
        before: StageLine | None = None
        for stage in STAGES:
            before = stages.get(stage, before)
            if before is not None:
                stages[stage] = before
    return found


def _count(
    counted: dict[tuple[str, StageName], _Stage],
    image: tuple[str, str],
    old: dict[StageName, StageLine],
    new: dict[StageName, StageLine],
    begin: StageName,
) -> bool:
    """Count an image at each stage; return whether a stage of it has no approved line."""
    begun = new_stage = False
    for stage in STAGES[STAGES.index(begin) :]:
        before, after = old.get(stage), new.get(stage)
        if before is None or after is None:
            # neither is tapped where the decoder turns images itself
            new_stage |= after is not None
            continue
        if before.sha256 is None or after.sha256 is None:
            continue  # not decoded on one side: a matter of coverage
        each = counted[image[0], stage]
        each.images += 1
        if before.sha256 == after.sha256:
            each.same_pixels[after.dtype] += math.prod(after.shape) // 3
            each.same_images[after.dtype] += 1
            continue
        each.changed.append((*image, stage))
        each.pairs.append((before, after))
        # later stages only pass on the change of the first
        if not begun:
            each.begun.append((*image, stage))
        begun = True
    return new_stage


def _coverage(
    known: dict[tuple[str, str], dict[StageName, StageLine]],
    current: dict[tuple[str, str], dict[StageName, StageLine]],
) -> tuple[CoverageDiff, ...]:
    """Count for each path the approved images that are gone or that only one side decodes."""
    found: dict[str, list[tuple[str, bool, bool | None]]] = defaultdict(list)
    for key, stages in sorted(known.items()):
        after = _decoded(current[key]) if key in current else None
        found[key[0]].append((key[1], _decoded(stages), after))
    return tuple(CoverageDiff.of("baseline", *each) for each in found.items())


def _predicted(approved: Baseline, now: Snapshot) -> tuple[CoverageDiff, ...]:
    """Count the approved images that are gone by their predictions, for a run without stages."""
    from alignkit.baseline.baseline_from_run import predicted_ids

    found: dict[str, CoverageDiff] = {}
    for place in sorted(approved.metrics.keys() & now.metrics.keys()):
        if place.column.preprocess in found:
            continue
        # every seed and runtime predicts the same images
        sides = [
            [*each[place].predictions.values()][:1] for each in (approved.metrics, now.metrics)
        ]
        if all(sides):
            before, after = (set(predicted_ids(packed)) for (packed,) in sides)
            rows = ((image, True, True if image in after else None) for image in sorted(before))
            path = place.column.preprocess
            found[path] = CoverageDiff.of("baseline", path, rows)
    return tuple(found.values())


def _decoded(stages: dict[StageName, StageLine]) -> bool:
    """Return whether the image was decoded."""
    # the first line decides: later ones may remain from a time when the image was decoded
    return next(stages[stage] for stage in STAGES if stage in stages).sha256 is not None


def _facts(
    path: str, stage: StageName, counted: _Stage, approved: Baseline, now: Snapshot
) -> BaselineStage:
    unmeasured = sum(key not in now.measured for key in counted.changed)
    return BaselineStage(
        path=path,
        stage=stage,
        images=counted.images,
        changed=len(counted.changed),
        begun=len(counted.begun),
        examples=tuple(key[1] for key in counted.changed[:_EXAMPLES]),
        cause=_cause(path, stage, approved, now, counted.begun) if counted.begun else "",
        pixels=None if unmeasured else _measured(path, stage, counted, now),
        at_least=_at_least(counted) if unmeasured else {},
        unmeasured=unmeasured,
    )


def _measured(path: str, stage: StageName, counted: _Stage, now: Snapshot) -> Any:
    """Measure the distance over all images; unchanged images count as zero."""
    from alignkit.compare.compare_pixels import pixel_stage
    from alignkit.compare.pixel_diff import PixelDiff
    from alignkit.compare.pixel_sums import identical_sums

    sums = now.golden.get((path, stage)) if counted.changed else None
    # by dtype, as bytes and floats have histograms of different bins
    for dtype, pixels in counted.same_pixels.items():
        if pixels:
            images = counted.same_images[dtype]
            same = identical_sums(3 * pixels, "uint8" if dtype == "uint8" else "float32")
            same = replace(same, images=images, identical=images)
            sums = same if sums is None else sums + same
    diff = PixelDiff(stage, "cumulative", sums)
    return pixel_stage(diff, reference="baseline", candidate=path)


def _at_least(counted: _Stage) -> dict[str, float]:
    """Return lower bounds from the lines: a mean |Δ| is no less than the distance of the means."""
    total = float(counted.same_pixels.total())
    absolute, greatest, differing = 0.0, 0.0, 0
    for old, new in counted.pairs:
        if old.mean is None or new.mean is None:
            continue
        pixels = math.prod(new.shape) // 3
        total += pixels
        differing += 1
        if old.shape == new.shape:
            shifts = [abs(b - a) for a, b in zip(old.mean, new.mean, strict=True)]
            absolute += pixels * sum(shifts) / 3
            whole = old.dtype == new.dtype == "uint8"
            # bytes that differ at all differ by a level somewhere
            greatest = max(greatest, *shifts, 1.0 if whole else 0.0)
    if not total:
        return {}
    return {
        "mean_abs": absolute / total,
        "max_abs": greatest,
        "share_differing": differing / total,
    }


def _cause(
    path: str, stage: StageName, approved: Baseline, now: Snapshot, begun: list[LineKey]
) -> str:
    """Name the cause if it is known: the image files, the library or the options."""
    files = sum(_source(approved, key) != _source(now, key) for key in begun)
    if stage == "decode" and files:
        return f"the files of {files} of these images are others than before"
    return changes_of_stage(approved.head, now.head, path, stage)


def changes_of_stage(old: BaselineHead, new: BaselineHead, path: str, stage: StageName) -> str:
    """Describe library and options of a stage, old → new; or say that neither changed."""
    before, after = (head.paths.get(path, {}).get(stage) for head in (old, new))
    versions = [_version(head, path, stage) for head in (old, new)]
    changed = [" → ".join(versions)] if versions[0] != versions[1] else []
    changed += option_changes(before, after)
    return "; ".join(changed) or "no version or option of this stage changed"


def _source(side: Baseline | Snapshot, key: LineKey) -> str:
    line = side.lines.get(key)
    return line.source if line else ""


def first_changes(old: BaselineHead, new: BaselineHead) -> dict[str, StageName | None]:
    """Map each path to its first stage whose library or options are not the approved ones.

    With other images, or other code of alignkit, every stage can have changed.
    """
    if (old.data, old.code) != (new.data, new.code) or not new.code:
        return dict.fromkeys(new.paths, STAGES[0])
    return {path: _first_change(old, new, path) for path in new.paths}


def _first_change(old: BaselineHead, new: BaselineHead, path: str) -> StageName | None:
    before, after = old.paths.get(path, {}), new.paths[path]
    for stage in STAGES:
        versions = [_version(head, path, stage) for head in (old, new)]
        if before.get(stage) != after[stage] or versions[0] != versions[1]:
            return stage
    # options of the whole path limit what is decoded
    return None if before == after else STAGES[0]


def _version(head: BaselineHead, path: str, stage: StageName) -> str:
    return head.versions.get(path, {}).get(stage, "")
