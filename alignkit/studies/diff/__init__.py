"""Compare preprocessing paths stage by stage, without any model: paths, images → `DiffRecord`.

Every image runs in worker processes (`alignkit.preprocess.image_taps`), once on every path. Workers
return sums, so that memory does not depend on the number of images.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from alignkit.errors import ExitCode, MissingDependency, worst
from alignkit.experiment.path_argument import NamedPath
from alignkit.isolation import Limits
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded, Work
from alignkit.preprocess import StageName
from alignkit.preprocess.image_taps import Result, encoded_images, run_isolated
from alignkit.preprocess.stress import Stress
from alignkit.record import Environment, PathFacts
from alignkit.record.pixel_diff import DiffRecord, ImageSet, PairDiff, StressDiff
from alignkit.studies.diff.images import DiffImages
from alignkit.torch_settings import available_threads
from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.progress import Progress
    from alignkit.samples import Samples
    from alignkit.studies.diff.tally import DiffTally

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
    threads: int | None = None
    """Worker processes, each with one thread; by default one for each CPU."""
    limits: Limits = field(default_factory=Limits)

    @property
    def usable(self) -> tuple[NamedPath, ...]:
        """The reference and the candidates that can run here.

        Raises `MissingDependency` unless there is a reference and a candidate.
        """
        reference, *candidates = self.paths
        if reason := reference.preprocess.missing():
            raise MissingDependency(f"the reference {reference.preprocess.name!r}: {reason}")
        usable = [each for each in candidates if not each.preprocess.missing()]
        if not usable:
            first = candidates[0].preprocess
            raise MissingDependency(f"{first.name}: {first.missing()}")
        return reference, *usable

    def run(self, work: Work[Result]) -> Iterator[Result]:
        """Yield results of ``work`` on the images, a few at a time, in worker processes."""
        return run_isolated(
            work,
            [each.preprocess for each in self.usable],
            encoded_images(self.samples),
            processes=self.threads or available_threads(),
            limits=self.limits,
        )


def diff(request: DiffRequest, progress: Progress) -> DiffRecord:
    """Compare every candidate with the reference, on the images as they are and under each stress.

    Raises `MissingDependency` if the reference or every candidate cannot run here, `BackendError`
    if a path crashes on a harmless image, `DataError` if a file cannot be read.
    """
    from alignkit.studies.diff.facts import census, coverage, coverage_diffs

    started, began = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    tally = _tally(request, progress, None)
    stressed = [(each, _tally(request, progress, each)) for each in request.stress]
    described = _described(request)
    return DiffRecord(
        alignkit=__version__,
        command=request.command,
        started=started,
        seconds=round(time.monotonic() - began, 1),
        environment=described.environment,
        data=ImageSet(
            source=request.source,
            images=len(request.samples),
            fingerprint=request.samples.fingerprint,
        ),
        limits={
            "max_pixels": min(each.preprocess.max_pixels for each in request.paths),
            "seconds": request.limits.seconds,
            "memory": request.limits.memory,
        },
        paths=described.paths,
        coverage=coverage(tally),
        coverage_diffs=coverage_diffs(tally),
        census=census(tally),
        pairs=_pairs(request, tally),
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
    if any(pair.state == "measured" and not pair.compared for pair in record.pairs):
        codes.append(ExitCode.NOTHING_COMPARED)
    if fail_on_coverage and not record.covers_alike:
        codes.append(ExitCode.DRIFT)
    return worst(codes)


def _tally(request: DiffRequest, progress: Progress, stress: Stress | None) -> DiffTally:
    from alignkit.studies.diff.tally import DiffTally

    paths = tuple(each.preprocess for each in request.usable)
    work = DiffImages(paths, EXTENTS[request.ssim], EXTENTS[request.planes], stress)
    tally = DiffTally(paths)
    with progress.stage("compare", len(request.samples), stress.name if stress else "") as stage:
        for part in request.run(work):
            tally.add(part)
            stage.advance(len(part.facts))
    return tally


def _described(request: DiffRequest) -> Description:
    paths = [each.preprocess for each in request.usable]
    (description,) = run_isolated(
        Describe(request.paths), paths, [Encoded("", b"")], processes=1, limits=request.limits
    )
    return description


def _pairs(request: DiffRequest, tally: DiffTally) -> tuple[PairDiff, ...]:
    """Return the measured and the skipped pairs, in the order of the request."""
    from alignkit.studies.diff.facts import pair_diffs

    measured = {pair.candidate: pair for pair in pair_diffs(tally)}
    reference, *candidates = (each.preprocess for each in request.paths)
    return tuple(
        measured.get(each.name)
        or PairDiff(
            reference=reference.name, candidate=each.name, state="skipped", reason=each.missing()
        )
        for each in candidates
    )


@dataclass(frozen=True, slots=True)
class Description:
    """The paths' stages and the environment, as a worker process sees them."""

    paths: tuple[PathFacts, ...]
    environment: Environment


@dataclass(frozen=True, slots=True)
class Describe:
    """A `Work` of `alignkit.isolation` that describes the code that runs, and ignores its images.

    So no library is loaded into the caller's own process.
    """

    paths: tuple[NamedPath, ...]

    def warm_up(self, begin: Begin) -> None:
        """Do nothing: no path runs."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Description:  # noqa: ARG002
        """Describe the paths' stages, and the environment."""
        from alignkit.decoders import DECODERS
        from alignkit.findings.environment import environment
        from alignkit.findings.provenance import path_facts
        from alignkit.plugins import name_of

        begin(0, EVERYTHING)
        usable = [each.preprocess for each in self.paths if not each.preprocess.missing()]
        return Description(
            paths=tuple(path_facts(each.preprocess, each.preset) for each in self.paths),
            environment=environment({name_of(path.decode, DECODERS) for path in usable}),
        )
