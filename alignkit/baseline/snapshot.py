"""`Snapshot`: the array of every stage of every image now, as lines of a baseline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alignkit.baseline import (
    Baseline,
    BaselineHead,
    FirstChanged,
    LineKey,
    MetricLine,
    StageLine,
    baseline_environment,
)
from alignkit.baseline.golden import GoldenStore
from alignkit.baseline.tapped_lots import TapLots, TappedStage
from alignkit.compare.pixel_sums import PixelSums
from alignkit.experiment.experiment import Experiment
from alignkit.lots import LotEngine, LotStore, lot_parts, unseen_folder
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.machine import with_settings
from alignkit.place import Place
from alignkit.preprocess import STAGES, Preprocess, StageName
from alignkit.progress import advancing
from alignkit.record import RunRecord
from alignkit.samples import Samples, copies_among
from alignkit.workspace import Context


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

    def copies(self, path: str, images: Sequence[str]) -> dict[str, str]:
        """Map images to an earlier one that ``path`` decodes alike, see `copies_among`."""
        digests = []
        for image in images:
            lines = (self.lines.get((path, image, stage)) for stage in STAGES)
            first = next(filter(None, lines), None)
            digests.append((first and first.sha256) or "")
        return copies_among(images, digests)

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
    engine: LotEngine | None = None,
    store: LotStore | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Snapshot:
    """Tap every path on every image; an ``engine`` does it by lots, with equal results.

    ``keep`` names the stages whose arrays go into ``golden``; without one, finished lots are kept
    in ``store`` and read from it. Stages before those of
    ``first_changed`` keep their approved lines. Raises `MissingDependency` if a path cannot run
    here, `EngineMissing` if a worker does not see ``golden``, `DataError` if a file cannot be read.
    """
    snapshot = Snapshot(head_now(name, paths, samples))
    if not paths:
        return snapshot
    work = TapLots.of(paths, approved, golden, keep=keep, first_changed=first_changed)
    done = 0

    def advance(images: int) -> None:
        nonlocal done
        done += images
        if progress:
            progress(done, len(samples))

    # a stored lot would put no array into ``golden``
    known, engine = None if keep else store, engine or LocalEngine(threads)
    for part in lot_parts(work, samples, engine, store=known, advance=advance):
        for tapped in part:
            _add(snapshot, tapped)
            kept = tapped.line.sha256 if tapped.stage in keep else None
            if golden and kept and kept not in golden:
                raise unseen_folder(golden.root, "--baselines")
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
    context: Context,
) -> Snapshot:
    """Tap the paths of an experiment that can run here on its evaluation images, or on ``samples``.

    ``folder`` holds its baselines; ``record``, which lies in ``run``, gives the metrics and
    predictions of a matrix; a path is tapped from its stage in ``first_changed``, or not if None.
    """
    samples = experiment.data.evaluation() if samples is None else samples
    first_changed = first_changed or {}
    begins = {path.name: first_changed.get(path.name, STAGES[0]) for path in experiment.paths}
    usable = [path for path in experiment.paths if begins[path.name] and not path.missing()]
    with context.progress.stage("snapshot", len(samples), "every path") as stage:
        snapshot = take_snapshot(
            experiment.name,
            usable,
            samples,
            approved=approved,
            golden=GoldenStore(folder / "golden"),
            keep=keep,
            first_changed=first_changed,
            engine=context.engine,
            store=KeptLots(context.workspace),
            progress=advancing(stage),
        )
    if record is not None and run is not None:
        from alignkit.baseline.baseline_from_run import metric_lines

        snapshot.metrics.update(metric_lines(record, run))
    return snapshot


def _add(snapshot: Snapshot, tapped: TappedStage) -> None:
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
            path.name: {
                "decode": with_settings(path.decode.version()),
                "resize": with_settings(path.resize.resizer.version()),
            }
            for path in paths
        },
        paths={path.name: path.identity() for path in paths},
        surrogates=surrogate_notes(facts_of_paths(paths)),
        data=samples.fingerprint,
        code=code_version(PIXEL_LAYERS),
        lines=0,
    )
