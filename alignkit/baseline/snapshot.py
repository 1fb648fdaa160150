"""`Snapshot`: the array of every stage of every image now, as lines of a baseline.

A stage that does not change an image has no line: its array is that of the stage before, and so is
its golden tensor. Worker processes tap the images, and measure the distance to the golden tensor of
the approved array where one is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from alignkit.arrays import Batch, Pixels
from alignkit.baseline import (
    Baseline,
    BaselineHead,
    FirstChanged,
    LineKey,
    MetricLine,
    StageLine,
    baseline_environment,
)
from alignkit.baseline.golden import GoldenStore, array_sha256
from alignkit.compare.pixel_sums import PixelSums, pixel_sums
from alignkit.experiment.experiment import Experiment
from alignkit.isolation.worker import Begin, Encoded
from alignkit.place import Place
from alignkit.preprocess import STAGES, Preprocess, StageName, Taps
from alignkit.preprocess.image_taps import Started, encoded_images, run_isolated, taps_of, warm_up
from alignkit.progress import Progress, advancing
from alignkit.record import RunRecord
from alignkit.samples import Samples


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Results of the paths on the images now."""

    head: BaselineHead
    lines: dict[LineKey, StageLine] = field(default_factory=dict)
    golden: dict[tuple[str, StageName], PixelSums] = field(default_factory=dict)
    """(path, stage) → distance of changed arrays to the golden tensors of the approved ones."""
    measured: set[LineKey] = field(default_factory=set)
    """The arrays that ``golden`` covers, including those of stages without a line."""
    metrics: dict[Place, MetricLine] = field(default_factory=dict)

    def as_baseline(self) -> Baseline:
        """Return the baseline that approving this snapshot would make."""
        return Baseline(self.head, dict(self.lines), dict(self.metrics))


def take_snapshot(
    name: str,
    paths: Sequence[Preprocess],
    samples: Samples,
    *,
    approved: Baseline | None = None,
    golden: GoldenStore | None = None,
    keep: Collection[StageName] = (),
    first_changed: FirstChanged | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Snapshot:
    """Tap every path on every image.

    ``keep`` names the stages whose arrays go into ``golden``. Stages before those of
    ``first_changed`` keep their approved lines. Raises `MissingDependency` if a path cannot run
    here, `DataError` if a file cannot be read.
    """
    snapshot = Snapshot(head_now(name, paths, samples))
    work = _TapImages(tuple(paths), approved, golden, tuple(keep), first_changed or {})
    done = 0
    for part in run_isolated(work, paths, encoded_images(samples), processes=threads):
        for found in part:
            for tapped in found:
                _add(snapshot, tapped)
        done += len(part)
        if progress:
            progress(done, len(samples))
    return snapshot


def snapshot_of(
    experiment: Experiment,
    folder: Path,
    *,
    record: RunRecord | None = None,
    run: Path | None = None,
    approved: Baseline | None = None,
    keep: Collection[StageName] = (),
    first_changed: FirstChanged | None = None,
    samples: Samples | None = None,
    progress: Progress,
) -> Snapshot:
    """Tap the paths of an experiment that can run here on its evaluation images, or on ``samples``.

    ``folder`` holds its baselines; ``record``, which lies in ``run``, gives the metrics and
    predictions of a matrix; a path is tapped from its stage in ``first_changed``, or not if None.
    """
    samples = experiment.data.evaluation() if samples is None else samples
    first_changed = first_changed or {}
    begins = {path.name: first_changed.get(path.name, STAGES[0]) for path in experiment.paths}
    usable = [path for path in experiment.paths if begins[path.name] and not path.missing()]
    with progress.stage("snapshot", len(samples), "every path") as stage:
        snapshot = take_snapshot(
            experiment.name,
            usable,
            samples,
            approved=approved,
            golden=GoldenStore(folder / "golden"),
            keep=keep,
            first_changed=first_changed,
            progress=advancing(stage),
        )
    if record is not None and run is not None:
        from alignkit.baseline.baseline_from_run import metric_lines

        snapshot.metrics.update(metric_lines(record, run))
    return snapshot


def _add(snapshot: Snapshot, tapped: _Tapped) -> None:
    line = tapped.line
    if line.stage == tapped.stage:
        snapshot.lines[line.key] = line
    if tapped.distance is not None:
        snapshot.measured.add((line.path, line.image, tapped.stage))
        place = (line.path, tapped.stage)
        known = snapshot.golden.get(place)
        snapshot.golden[place] = tapped.distance if known is None else known + tapped.distance


def head_now(name: str, paths: Sequence[Preprocess], samples: Samples) -> BaselineHead:
    """Make the head of a baseline; raise `MissingDependency` if a path cannot run here."""
    from alignkit.errors import MissingDependency
    from alignkit.text.names import facts_of_paths, surrogate_notes
    from alignkit.version import PIXEL_LAYERS, __version__, code_version

    for path in paths:
        if reason := path.missing():
            raise MissingDependency(f"preprocess.{path.name}: {reason}")
    return BaselineHead(
        alignkit=__version__,
        name=name,
        environment=baseline_environment(paths),
        versions={
            path.name: {"decode": path.decode.version(), "resize": path.resize.resizer.version()}
            for path in paths
        },
        paths={path.name: path.identity() for path in paths},
        surrogates=surrogate_notes(facts_of_paths(paths)),
        data=samples.fingerprint,
        code=code_version(PIXEL_LAYERS),
        lines=0,
    )


@dataclass(frozen=True, slots=True)
class _Tapped:
    """One stage of one image."""

    stage: StageName
    line: StageLine
    """Line of its array; the line of an earlier stage if this one does nothing."""
    old: StageLine | None = None
    """Approved line of its array, by the same rule."""
    array: Pixels | Batch | None = None
    """``None`` if the image was not decoded, or the stage not tapped."""
    distance: PixelSums | None = None


@dataclass(frozen=True, slots=True)
class _TapImages:
    """Tap every path on each image; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]
    approved: Baseline | None
    golden: GoldenStore | None
    keep: tuple[StageName, ...]
    first_changed: FirstChanged

    def warm_up(self, begin: Begin) -> None:
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[list[_Tapped]]:
        return [
            list(self._image(image, partial(begin, position)))
            for position, image in enumerate(images)
        ]

    def _image(self, image: Encoded, begin: Started) -> Iterator[_Tapped]:
        source = hashlib.sha256(image.data).hexdigest()[:16]
        for number, path in enumerate(self.paths):
            taps = taps_of(path, image, number, begin)
            if taps.last is None:
                decoded = taps.decoded
                line = StageLine(
                    path=path.name, image=image.id, stage="decode", sha256=None, source=source,
                    outcome=decoded.outcome, reason=decoded.reason,
                )  # fmt: skip
                yield _Tapped("decode", line)
                continue
            first, before = self.first_changed.get(path.name) or STAGES[0], None
            for tapped in _stage_lines(path, image.id, taps, source, self.approved, first):
                if self.golden and tapped.array is not None and tapped.stage in self.keep:
                    self.golden.put(tapped.array)
                distance = _distance(tapped, before, self.golden) if self.golden else None
                before = replace(tapped, distance=distance)
                # the pixels stay in the worker, and only their line is sent
                yield replace(before, array=None)


def _stage_lines(
    path: Preprocess,
    image: str,
    taps: Taps,
    source: str,
    approved: Baseline | None,
    begin: StageName,
) -> Iterator[_Tapped]:
    """Yield approved lines before ``begin``, then every stage; an idle stage has no new line."""
    assert taps.last is not None
    arrays: dict[StageName, Pixels | Batch] = {**taps.pixels}
    arrays["normalise"] = path.normalise(taps.last)
    line, old, before, previous = None, None, "", None
    for stage in STAGES:
        known = approved.lines.get((path.name, image, stage)) if approved else None
        old = known or old
        array = arrays.get(stage)
        if array is None:
            continue
        if STAGES.index(stage) < STAGES.index(begin):
            if known and known.sha256:
                line, before = known, known.sha256
                yield _Tapped(stage, line)
            continue
        sha256 = before if array is previous else array_sha256(array)
        # a stage that does nothing has a line only to replace an approved one
        if line is None or sha256 != before or known:
            facts = _statistics(array, stage)
            if stage == "decode":
                facts |= {"outcome": taps.decoded.outcome, "source": source}
            line = StageLine(path=path.name, image=image, stage=stage, sha256=sha256, **facts)
        yield _Tapped(stage, line, old, array)
        before, previous = sha256, array


def _statistics(array: Pixels | Batch, stage: StageName) -> dict[str, Any]:
    """Return the fields of a line that describe its array, of which no pixels are kept."""
    import cv2
    import numpy as np

    # an image (height, width, 3), or the three planes of a tensor
    parts = array if stage == "normalise" else [array]
    # one pass, in exact integers for bytes; numpy's mean along two axes takes ten times as long
    found = [cv2.meanStdDev(np.ascontiguousarray(part)) for part in parts]
    means = np.concatenate([mean for mean, _ in found]).ravel()
    variances = np.concatenate([std for _, std in found]) ** 2
    return {
        "dtype": str(array.dtype),
        "shape": array.shape,
        "mean": tuple(round(float(each), 6) for each in means),
        # of all values together, hence the spread of the channels' means
        "std": round(float(np.sqrt(variances.mean() + means.var())), 6),
        "least": float(array.min()),
        "greatest": float(array.max()),
    }


def _distance(tapped: _Tapped, before: _Tapped | None, golden: GoldenStore) -> PixelSums | None:
    array, old = tapped.array, tapped.old
    if array is None or old is None or old.sha256 is None or old.sha256 == tapped.line.sha256:
        return None
    if before and (before.line, before.old) == (tapped.line, old):
        return before.distance  # neither side does anything here
    kept = golden.get(old.sha256)
    if kept is None or kept.shape != array.shape:
        return None
    return pixel_sums(kept, array, channels="first" if tapped.stage == "normalise" else "last")
