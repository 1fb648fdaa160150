"""`MatchRequest`: a question to `alignkit match`, and its answer: target and images → `Match`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from alignkit.arrays import Pixels
from alignkit.backends import Session
from alignkit.compare.bootstrap import joined_groups
from alignkit.compare.idle_answers import NO_COMPARISON, changed_share
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.yaml_argument import NEEDS_MODEL, Stack, path_of
from alignkit.predict.check_batches import pixels_of
from alignkit.predict.decoder import AnswerDecoder
from alignkit.preprocess import Preprocess
from alignkit.preprocess.geometry import Geometry
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.progress import Progress, advancing
from alignkit.samples import Samples, copies_among
from alignkit.search import match as find_nearest
from alignkit.search.configurations import Configuration, configurations, serving_options
from alignkit.search.match_result import Match
from alignkit.search.recorded_target import recorded_target
from alignkit.search.target import Target, preprocess_of, preprocess_target
from alignkit.tasks import Record

if TYPE_CHECKING:
    from alignkit.models.user_model import UserModel


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """The stack to match, the images, and the options."""

    target: Stack
    """A preset, ``FILE.yaml[:PATH]``, a folder of recorded tensors, the address of a preprocessing
    model, a mapping of stages, or a `Preprocess`."""
    samples: Samples
    size: int | None = None
    """Side of the model's input, for a preset."""
    decoders: Sequence[str] = ()
    resizers: Sequence[str] = ()
    """Names of the plugins that are tried; by default all."""
    serving: bool = False
    """Search serving options that reproduce the target, which is the training stack."""
    model: str | Path | None = None
    """Model whose changed predictions are counted for the finalists; see
    `alignkit.predict.given_model`."""
    task: str = ""
    """Its task, a name or a mapping as text; by default classification."""
    tensor: str = ""
    """Output of an endpoint that is the preprocessed image."""
    header_env: str = ""
    """Environment variable with an endpoint's ``Authorization`` header."""
    record: Path | None = None
    """Folder that keeps an endpoint's tensors."""
    probe: int = 500
    """Images that are searched on."""
    seed: int = 0
    """Seed that selects the images for the final check."""
    given: UserModel | None = field(init=False, default=None)
    """The model, read from ``model``."""

    def __post_init__(self) -> None:
        if self.model is not None:  # before the images are read
            from alignkit.predict.given_model import given_model, given_task

            task = given_task(self.task) if self.task else None
            object.__setattr__(self, "given", given_model(str(self.model), task))
        elif self.task:
            raise ConfigError(NEEDS_MODEL)


@dataclass(frozen=True, slots=True)
class MatchAnswer:
    """The match, and the names of the configurations that are serving options."""

    match: Match
    names: Mapping[Configuration, str]


def answer(request: MatchRequest, progress: Progress) -> MatchAnswer:
    """Search the configurations of this machine that are nearest to the target.

    Raises `ConfigError` for an unknown target or plugin, `DataError` for tensors that are no images
    of the samples, and `NothingCompared` if no image can be compared.
    """
    samples = request.samples
    with _target(request, progress) as (target, rows):
        names = serving_options(resamples=target.geometry.resamples) if request.serving else {}
        chosen = list(names) or list(
            configurations(target.geometry, decoders=request.decoders, resizers=request.resizers)
        )
        if request.given is None:
            return MatchAnswer(_found(request, progress, target, rows, chosen), names)
        from alignkit.predict.check_batches import require_independent
        from alignkit.predict.given_model import open_given

        # opened before the search, which a model that does not fit would waste
        with open_given(request.given, target.geometry.size) as opened:
            require_independent(opened, own_pixels(target, samples, rows), target.normalise)
            found = _found(request, progress, target, rows, chosen)
            model = opened.session, opened.decoder
            return MatchAnswer(with_churn(found, target, samples, rows, *model), names)


def _found(
    request: MatchRequest,
    progress: Progress,
    target: Target,
    rows: Sequence[int],
    chosen: Sequence[Configuration],
) -> Match:
    with progress.stage("match", len(rows), f"{len(chosen)} configurations") as stage:
        return find_nearest(
            target, request.samples, rows, chosen,
            probe=request.probe, seed=request.seed, progress=advancing(stage),
        )  # fmt: skip


@contextmanager
def _target(request: MatchRequest, progress: Progress) -> Iterator[tuple[Target, Sequence[int]]]:
    """Give the target, with the rows of the images that it has pixels of."""
    given, samples = request.target, request.samples
    everything = range(len(samples))
    if isinstance(given, Preprocess):
        yield preprocess_target(given), everything
    elif not isinstance(given, str):
        yield preprocess_target(path_of(given, "target", size=request.size)), everything
    elif "://" in given:
        # tensors of an endpoint that nobody wants to keep are searched in a folder as well
        with TemporaryDirectory() as temporary:
            folder = request.record or Path(temporary)
            yield _of_endpoint(request, given, folder, progress)
    elif Path(given).is_dir():
        yield recorded_target(
            Path(given), samples, decoders=request.decoders, resizers=request.resizers
        )
    else:
        yield preprocess_target(preprocess_of(given, request.size)), everything


def _of_endpoint(
    request: MatchRequest, address: str, folder: Path, progress: Progress
) -> tuple[Target, Sequence[int]]:
    from alignkit.search.endpoint_target import endpoint_of, endpoint_target

    endpoint = endpoint_of(address, request.tensor, request.header_env)
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(
            f"the folder for tensors, {folder}, is not empty; to search its tensors, pass it as "
            "the target"
        )
    samples = request.samples
    with progress.stage("ask", len(samples), f"{endpoint.at.url} for tensors") as stage:
        return endpoint_target(
            endpoint, samples, folder, decoders=request.decoders, resizers=request.resizers,
            progress=advancing(stage),
        )  # fmt: skip


_BATCH = 32


class _Side(NamedTuple):
    """An image as the target or a finalist prepares it."""

    pixels: Pixels
    place: Geometry
    digest: str
    """`alignkit.decoders.Decoded.digest` of the image."""


def with_churn(
    match: Match,
    target: Target,
    samples: Samples,
    rows: Sequence[int],
    session: Session,
    decoder: AnswerDecoder,
) -> Match:
    """Add every finalist's churn against the target's own pixels; the ranking stays.

    Raises `NothingCompared` if no image has pixels on all sides, or outputs cannot be read.
    """
    ids: list[str] = []
    digests: list[str] = []
    records: list[list[Record]] = [[] for _ in (target, *match.ranking)]
    images = _images(match.preprocesses, target, samples, rows)
    for start in range(0, len(rows), _BATCH):
        some = [
            (row, each)
            for row, each in zip(rows[start : start + _BATCH], images, strict=False)
            if each is not None
        ]
        shown = samples.take([row for row, _ in some])
        ids += shown.ids
        digests += (each[0].digest for _, each in some)
        for index in range(len(records) if some else 0):
            sides = [each[index] for _, each in some]
            batch = target.normalise(cast("Pixels", np.stack([each.pixels for each in sides])))
            places = [each.place for each in sides]
            found = decoder.records(session.predict(batch), places)
            records[index].extend(decoder.kept(found, shown))
    if not ids:
        raise NothingCompared(f"{target.name} and the finalists share no image to predict on")
    reference, *candidates = (decoder.unlabelled(ids, each, samples) for each in records)
    if reason := reference.misread(*candidates):
        raise NothingCompared(f"{NO_COMPARISON}: {reason}")
    groups = joined_groups(ids, reference.groups(), copies_among(ids, digests))
    unit = "different image" if reference.groups() is None else "group of images"
    ranking = tuple(
        replace(each, churn=changed_share(reference.changed(found), groups, unit))
        for each, found in zip(match.ranking, candidates, strict=True)
    )
    return replace(match, ranking=ranking)


def own_pixels(target: Target, samples: Samples, rows: Sequence[int]) -> Iterator[Pixels]:
    """Yield the target's own pixels of the images that have some."""
    if target.preprocess:
        yield from pixels_of(target.preprocess, samples, rows)
    if target.levels:
        levels = map(target.levels, rows)
        # words instead of pixels: why there are none
        yield from (each for each in levels if not isinstance(each, str))


def _images(
    preprocesses: Sequence[Preprocess], target: Target, samples: Samples, rows: Sequence[int]
) -> Iterator[list[_Side] | None]:
    """Yield each row's sides, the target's first; ``None`` unless all have pixels."""
    own = () if target.preprocess is None else (target.preprocess,)
    paths = (*own, *preprocesses)
    taken = take_pixels(paths, encoded_images(samples, rows))
    for row, found in zip(rows, taken, strict=True):
        sides = [
            _Side(each.pixels, path.geometry(*each.source), each.digest)
            for path, each in zip(paths, found, strict=True)
            if each.pixels is not None and each.source is not None
        ]
        if target.levels and sides:
            levels = target.levels(row)
            # words instead of pixels: why there are none; the finalists frame images as it does
            if not isinstance(levels, str):
                sides.insert(0, sides[0]._replace(pixels=levels))
        yield sides if len(sides) == 1 + len(preprocesses) else None
