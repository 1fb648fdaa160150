"""Compare preprocessing paths stage by stage, without labels: paths, images → `DiffRecord`.

Every image runs in worker processes (`alignkit.preprocess.image_taps`), once on every path. Lots of
images are reduced to sums (`alignkit.lots`), so that memory does not depend on their number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from alignkit.compare.compare_pixels import drawn_images
from alignkit.errors import ConfigError, ExitCode, MissingDependency, worst
from alignkit.experiment.yaml_argument import NamedPath
from alignkit.isolation import Limits
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.lots import ALL_LOTS, LotEngine, LotStore, Shard, lot_parts
from alignkit.lots.engines import LOCAL, EngineOption
from alignkit.preprocess import StageName
from alignkit.preprocess.image_taps import run_isolated
from alignkit.preprocess.preset_names import in_place_of
from alignkit.preprocess.stress import Stress
from alignkit.progress import Progress
from alignkit.record import Environment, PathFacts
from alignkit.record.diff_document import (
    DiffRecord,
    ImageSet,
    PairDiff,
    PredictionDrift,
    StressDiff,
)
from alignkit.samples import Samples, copies_among
from alignkit.studies.diff.diff_cause import given_model_facts, with_causes
from alignkit.studies.diff.diff_images import DiffImages, DiffLots
from alignkit.studies.diff.diff_tally import DiffTally, pair_diffs
from alignkit.task_facts import CLASSIFICATION, TaskFacts
from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.models.user_model import UserModel
    from alignkit.predict.given_model import Opened
    from alignkit.predict.kept_session import GivenSession

StageExtent = Literal["none", "size", "full"]
"""Stages that a measure covers: none, the input of ``normalise``, or that and the decoded image."""
EXTENTS: dict[StageExtent, tuple[StageName, ...]] = {
    "none": (),
    "size": ("colour",),
    "full": ("decode", "colour"),
}


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """The paths and images to compare, and the options."""

    paths: tuple[NamedPath, ...]
    """Reference first."""
    samples: Samples
    source: str
    """Description of the images, in words."""
    command: str = ""
    ssim: StageExtent = "size"
    planes: StageExtent = "none"
    """Stages compared in Y'CbCr too; off by default, as it costs a tenth of the throughput at the
    model's size and a third with the decoded image (benchmarks/diff.py)."""
    stress: tuple[Stress, ...] = ()
    model: UserModel | None = None
    """The model whose predictions are compared; ``None`` for pixels alone."""
    threads: int | None = None
    """Worker processes, each with one thread; by default one for each CPU."""
    limits: Limits = field(default_factory=lambda: Limits(lossy=True))
    engine: EngineOption = LOCAL
    """Where lots of images are compared and predicted."""
    store: LotStore | None = None
    """Finished lots, which are not compared again."""

    @property
    def usable(self) -> tuple[NamedPath, ...]:
        """The reference and the candidates that can run here.

        Raises `MissingDependency` unless there is a reference and a candidate.
        """
        reference, *candidates = self.paths
        if reason := reference.preprocess.missing():
            reason += in_place_of(reference.preset)
            raise MissingDependency(f"the reference {reference.preprocess.name!r}: {reason}")
        usable = [each for each in candidates if not each.preprocess.missing()]
        if not usable:
            first = candidates[0]
            reason = first.preprocess.missing() + in_place_of(first.preset)
            raise MissingDependency(f"{first.preprocess.name}: {reason}")
        return reference, *usable


def diff(request: DiffRequest, progress: Progress) -> DiffRecord:
    """Compare every candidate with the reference, on the images as they are and under each stress.

    Raises `MissingDependency` if the reference or every candidate cannot run here, `BackendError`
    if a path crashes on a harmless image, and as `open_given` does if the model does not fit.
    """
    # the model first: one that does not fit would waste the work on the pixels
    with _opened(request) as model:
        return _diff(request, model, progress)


def diff_shard(request: DiffRequest, shard: Shard, progress: Progress) -> int:
    """Compare the lots of a shard and store them; return how many it has.

    `diff` with the same store reads them. Raises as `diff` does, `ConfigError` without a store,
    and `NothingCompared` for a shard without a lot.
    """
    if request.store is None:
        raise ConfigError(
            "--shard stores its lots for a later diff of all: name a folder with --reports DIR"
        )
    lots = shard.own_lots(len(request.samples))
    with _opened(request) as model, request.engine.open() as engine:
        for stress in (None, *request.stress):
            _tally(request, engine, progress, stress, shard)
        if model:
            _predicted(request, model, engine, progress, shard)
    return lots


@contextmanager
def _opened(request: DiffRequest) -> Iterator[tuple[GivenSession, Opened] | None]:
    """Open the request's model for the size of its paths; ``None`` without one."""
    size = request.usable[0].preprocess.size  # a path that cannot run is named first
    if request.model is None:
        yield None
        return
    # pixels alone need no runtime
    from alignkit.predict.check_batches import pixels_of, require_independent
    from alignkit.predict.kept_session import kept_session

    for path in request.usable:
        if reason := request.model.unlike_bytes(path.preprocess):
            raise ConfigError(reason)
    with kept_session(request.model, size) as opened:
        reference = request.usable[0].preprocess
        images = pixels_of(reference, request.samples)
        require_independent(opened[1], images, reference.normalise)
        yield opened


def _diff(
    request: DiffRequest, model: tuple[GivenSession, Opened] | None, progress: Progress
) -> DiffRecord:
    started, began = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    usable = [each.preprocess for each in request.usable]
    with request.engine.open() as engine:
        tally = _tally(request, engine, progress, None)
        stressed = [(each, _tally(request, engine, progress, each)) for each in request.stress]
        drifts: dict[str, PredictionDrift] = {}
        task = CLASSIFICATION
        copies = copies_among(request.samples.ids, tally.digests)
        if model:
            compared = [pair.compared > 0 for pair in tally.of_pair]
            drifts, task = _predicted(
                request, model, engine, progress, compared=compared, copies=copies
            )
    # one empty image: `Describe` looks at none
    ((paths, environment),) = run_isolated(
        Describe(request.paths), usable, [Encoded("", b"")], processes=1, limits=request.limits
    )
    begun = {pair.coverage.candidate: pair.begun for pair in tally.of_pair}
    opened = model and model[1]
    pairs = with_causes(_pairs(request, tally), begun, paths, request, opened, drifts)
    return DiffRecord(
        alignkit=__version__,
        command=request.command,
        started=started,
        seconds=round(time.monotonic() - began, 1),  # not datetime: the clock may be set
        environment=environment,
        data=ImageSet(
            source=request.source,
            images=len(request.samples),
            fingerprint=request.samples.fingerprint,
            copies=len(copies),
        ),
        limits={
            # the lowest decides
            "max_pixels": min(each.preprocess.max_pixels for each in request.paths),
            "seconds": request.limits.seconds,
            "memory": request.limits.memory,
        },
        paths=paths,
        coverage=tuple(tally.of_path),
        coverage_diffs=tuple(each.coverage for each in tally.of_pair),
        census=tally.census(),
        pairs=pairs,
        model=opened and given_model_facts(opened),
        task=task,
        stress=tuple(
            StressDiff(name=each.name, encoder=each.encoder(), pairs=_pairs(request, counted))
            for each, counted in stressed
        ),
    )


def exit_code(record: DiffRecord, *, fail_on_coverage: bool = False) -> ExitCode:
    """Return the most severe exit code that applies: see README, *Exit codes*."""
    codes = [ExitCode.PASS]
    if any(pair.state == "skipped" for pair in record.pairs):
        codes.append(ExitCode.MISSING)
    if any(pair.state == "measured" and pair.shows_nothing for pair in record.pairs):
        codes.append(ExitCode.NOTHING_COMPARED)
    if fail_on_coverage and not record.covers_alike:
        codes.append(ExitCode.DRIFT)
    return worst(codes)


def _tally(
    request: DiffRequest,
    engine: LotEngine,
    progress: Progress,
    stress: Stress | None,
    shard: Shard = ALL_LOTS,
) -> DiffTally:
    paths = tuple(each.preprocess for each in request.usable)
    # the images as they are show where paths differ; re-encoding them changes how much
    drawn = None if stress else drawn_images(request.samples)
    work = DiffImages(paths, EXTENTS[request.ssim], EXTENTS[request.planes], drawn, stress)
    tally = DiffTally.of(paths)
    with progress.stage("compare", len(request.samples), stress.name if stress else "") as stage:
        for part in lot_parts(
            DiffLots(work, request.limits),
            request.samples,
            engine,
            store=request.store,
            shard=shard,
            changed="fail",
            advance=stage.advance,
        ):
            tally.join(part)
    return tally


def _predicted(
    request: DiffRequest,
    model: tuple[GivenSession, Opened],
    engine: LotEngine,
    progress: Progress,
    shard: Shard = ALL_LOTS,
    compared: Sequence[bool] = (),
    copies: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, PredictionDrift], TaskFacts]:
    """Predict along all paths; reduce the candidates of which images were ``compared``, by name.

    The task is described with what the model's outputs on the reference are.
    """
    from alignkit.studies.diff.diff_predictions import ClassifierTally
    from alignkit.studies.diff.predict_lots import PredictedPair, PredictLots

    given, opened = model
    paths = tuple(each.preprocess for each in request.usable)
    work = PredictLots.of(paths, given, request.limits)
    tallies = [PredictedPair() for _ in work.pairs]
    images = len(request.samples) * len(work.pairs)
    with progress.stage("predict", images, opened.name) as stage:
        for part in lot_parts(
            work,
            request.samples,
            engine,
            store=request.store,
            shard=shard,
            changed="fail",
            advance=stage.advance,
        ):
            for tally, more in zip(tallies, part.of_pair, strict=True):
                tally.join(more)
    drifts = {
        path.name: tally.drift(pair, opened, request.samples, copies)
        for path, tally, pair, measured in zip(
            paths[1:], tallies, work.pairs, compared, strict=False
        )
        if measured
    }
    parts = (part for tally in tallies for part in tally.parts)
    scales = (each.scale for each in parts if isinstance(each, ClassifierTally))
    return drifts, opened.decoder.task.facts().giving(scales)


def _pairs(request: DiffRequest, tally: DiffTally) -> tuple[PairDiff, ...]:
    """Return the measured and the skipped pairs, in the order of the request."""
    usable = [each.preprocess for each in request.usable]
    measured = {pair.candidate: pair for pair in pair_diffs(tally, usable)}
    reference, *candidates = (each.preprocess for each in request.paths)
    return tuple(
        measured.get(each.name)
        or PairDiff(
            reference=reference.name, candidate=each.name, state="skipped", reason=each.missing()
        )
        for each in candidates
    )


@dataclass(frozen=True, slots=True)
class Describe:
    """A `Work` of `alignkit.isolation` that describes the code that runs, and ignores its images.

    So no library is loaded into the caller's own process.
    """

    paths: tuple[NamedPath, ...]

    def warm_up(self, begin: Begin) -> None:
        """Do nothing: no path runs."""

    def __call__(
        self,
        images: Sequence[Encoded],  # noqa: ARG002 - the contract of `Work`
        begin: Begin,
    ) -> tuple[tuple[PathFacts, ...], Environment]:
        """Describe the paths' stages, and the environment."""
        from alignkit.decoders import DECODERS
        from alignkit.findings.environment import environment
        from alignkit.findings.provenance import path_facts
        from alignkit.plugins import name_of

        begin(0, EVERYTHING)
        usable = [each.preprocess for each in self.paths if not each.preprocess.missing()]
        decoders = {name_of(path.decode, DECODERS) for path in usable}
        paths = tuple(path_facts(each.preprocess) for each in self.paths)
        return paths, environment(decoders)
