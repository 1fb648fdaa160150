"""`TapRequest`: recorded stages, the images, and the reference → `TapReport`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alignkit.errors import ConfigError, MissingDependency
from alignkit.experiment.yaml_argument import Stack, path_of
from alignkit.progress import Progress, advancing
from alignkit.samples import Samples
from alignkit.search.stored_taps import judged_stages, stored_taps
from alignkit.search.tap_blame import blame, nearest_to_the_last
from alignkit.search.tap_report import TapReport
from alignkit.search.target import preprocess_of


@dataclass(frozen=True, slots=True)
class TapRequest:
    """The stages to judge, and the options."""

    folder: Path
    """The folder in which `alignkit.tap` recorded."""
    samples: Samples
    preprocess: Stack | None = None
    """The reference; by default the configuration nearest to the last tap."""
    size: int | None = None
    """Side of the model's input, for a preset."""
    stages: Mapping[str, str] = field(default_factory=dict)
    """Name of a tap → its stage, or ``none``, where the name does not say it."""
    decoders: Sequence[str] = ()
    resizers: Sequence[str] = ()
    """Names of the plugins that are tried; by default all."""


def judge_taps(request: TapRequest, progress: Progress) -> TapReport:
    """Judge every recorded stage.

    Raises `ConfigError` if there is no such folder or a name is unknown, `DataError` for arrays
    that cannot be read, and `MissingDependency` if the reference cannot run here.
    """
    folder, given = request.folder, request.preprocess
    if not folder.is_dir():
        raise ConfigError(f"--taps {folder} is no folder; record with ALIGNKIT_TAPS={folder}")
    taps = stored_taps(folder, request.samples, request.stages)
    stages = judged_stages(taps)
    names = {"decoders": request.decoders, "resizers": request.resizers}
    if given is None:
        with progress.stage("match", len(taps.rows), stages[-1].name) as step:
            reference = nearest_to_the_last(taps, request.samples, advance=advancing(step), **names)
    else:
        reference = (
            preprocess_of(given, request.size)
            if isinstance(given, str)
            else path_of(given, "reference", size=request.size)
        )
        if reason := reference.missing():
            raise MissingDependency(f"--preprocess {reference.name}: {reason}")
    with progress.stage("judge", len(stages), f"stages of {len(taps.rows)} images") as step:
        return blame(
            taps, request.samples, reference,
            given=given is not None, advance=advancing(step), **names,
        )  # fmt: skip
