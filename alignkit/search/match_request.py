"""`MatchRequest`: a question to `alignkit match`, and its answer: target and images → `Match`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError
from alignkit.experiment.task_option import NEEDS_MODEL
from alignkit.experiment.yaml_argument import Stack, path_of
from alignkit.preprocess import Preprocess
from alignkit.progress import Progress, advancing
from alignkit.samples import Samples
from alignkit.search import match as find_nearest
from alignkit.search.configurations import Configuration, configurations, serving_options
from alignkit.search.match_result import Match
from alignkit.search.recorded_target import recorded_target
from alignkit.search.target import Target, preprocess_of, preprocess_target

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
        from alignkit.search.match_drift import own_pixels, with_churn

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
