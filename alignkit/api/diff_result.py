"""`diff`: images and preprocessing stacks → `DiffResult`, the stages that differ as tables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.api.frames import drift_frame, pandas_module, pixel_frame, prediction_frame
from alignkit.datasets.unlabelled_images import ImageSource, images_from, listed_images
from alignkit.errors import ConfigError
from alignkit.experiment.yaml_argument import Stack, named_paths
from alignkit.progress import ProgressMode, progress_for
from alignkit.record.diff_document import DiffRecord
from alignkit.samples import Samples

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.lots.engines import EngineName
    from alignkit.studies.diff import StageExtent

_Listed: TypeAlias = Samples | Sequence[str | Path | bytes]
_DEFAULTS = {
    "--ssim": "size", "--planes": "none", "--timeout": 60.0, "--max-memory": 4.0,
    "--engine": "local",
}  # fmt: skip
"""Options of `alignkit diff` with a default that is a value."""


@dataclass(frozen=True, slots=True, repr=False)
class DiffResult:
    """A comparison of preprocessing stacks: its record, and the tables in it."""

    record: DiffRecord
    page: Path | None = None
    """The HTML page, if one was asked for."""

    @property
    def pixels(self) -> pd.DataFrame:
        """A row for each candidate, stage and mode; ``stress`` names a re-encoding, or is empty."""
        plain = pixel_frame((s for pair in self.record.pairs for s in pair.stages), stress="")
        stressed = [
            pixel_frame((s for pair in each.pairs for s in pair.stages), stress=each.name)
            for each in self.record.stress
        ]
        if not stressed:
            return plain
        joined: pd.DataFrame = pandas_module().concat([plain, *stressed], ignore_index=True)
        return joined

    @property
    def images(self) -> pd.DataFrame:
        """A row for each of the worst images of each candidate, at most 20, with their kinds."""
        return drift_frame(self.record)

    @property
    def predictions(self) -> pd.DataFrame:
        """A row for each candidate: how a model's predictions change; none without ``model``."""
        return prediction_frame(self.record)

    @property
    def coverage(self) -> pd.DataFrame:
        """A row for each path: the images by the outcome of their decode."""
        rows = [each.model_dump(exclude={"split", "examples"}) for each in self.record.coverage]
        frame: pd.DataFrame = pandas_module().DataFrame(rows)
        return frame

    def __repr__(self) -> str:
        """Return a sentence for each candidate."""
        return "\n".join(
            f"<Diff {pair.reference} → {pair.candidate}: {pair.sentence or pair.reason}>"
            for pair in self.record.pairs
        )

    def __str__(self) -> str:
        """Return the text that `alignkit diff` prints."""
        from alignkit.studies.diff.diff_summary import diff_summary

        return diff_summary(self.record)

    def _repr_html_(self) -> str:
        from alignkit.report.notebook import diff_html

        return diff_html(self.record)


def diff(
    images: ImageSource,
    reference: Stack,
    *candidates: Stack,
    model: str | Path | None = None,
    task: str | Mapping[str, Any] = "",
    size: int | None = None,
    limit: int | None = None,
    only: Sequence[str] = (),
    page: str | Path | None = None,
    ssim: StageExtent = "size",
    planes: StageExtent = "none",
    stress: str = "",
    threads: int | None = None,
    max_pixels: int | None = None,
    timeout: float = 60.0,
    max_memory: float = 4.0,
    reports: str | Path | None = None,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str = "",
    progress: ProgressMode = "none",
) -> DiffResult:
    """Compare preprocessing stacks on any images, stage by stage, as `alignkit diff` does.

    ``images`` are a folder, files, encoded images as bytes, or a data set's samples. A stack is a
    preset's name, a mapping as under ``preprocess:`` of an experiment file, or a `Preprocess`;
    ``size`` is the side of the input in pixels for presets, by default that of ``model``, or 224.
    ``model`` is a file or a name as for ``alignkit diff --model``, whose changed predictions are
    counted; ``task`` is its task, by default classification: a name, or a mapping as under
    ``task:`` of an experiment file. ``limit`` and ``only`` choose among files; ``page`` is a folder
    for the HTML page. ``timeout`` is in seconds and ``max_memory`` in GiB, for an image on a path.
    ``reports`` is a folder that keeps finished lots of images. ``engine`` ("local", "dask" or
    "ray") divides the images among ``workers`` that it starts here, by default one for each CPU, or
    among those of the cluster at ``address``; images in memory travel to them.

    Raises `ConfigError` for an unknown stack, or a model that does not fit, `MissingDependency` if
    the reference, or every candidate, cannot run here, and `NothingCompared` if there is no image.
    """
    from alignkit.isolation import Limits
    from alignkit.lots.engines import EngineOption
    from alignkit.lots.kept_lots import KeptLots
    from alignkit.preprocess.stress import parse_stress
    from alignkit.studies.diff import DiffRequest
    from alignkit.studies.diff import diff as compare
    from alignkit.studies.diff.diff_arguments import model_and_side, write_outputs
    from alignkit.workspace import Workspace

    if not candidates:
        raise ConfigError("there is no candidate; call diff(images, reference, candidate)")
    chosen = EngineOption(engine, address, workers, threads)
    # an iterator gives its images once
    listed = images if isinstance(images, Samples) else listed_images(images)
    given, own = model_and_side(None if model is None else str(model), task_text(task))
    size = size or own
    paths = named_paths((reference, *candidates), size=size, max_pixels=max_pixels, called="path")
    samples, source = _samples(listed, limit, only)
    options = {
        "--size": size, "--model": model, "--task": task_text(task), "--limit": limit,
        "--only": only, "--ssim": ssim, "--planes": planes, "--stress": stress,
        "--max-pixels": max_pixels, "--timeout": timeout, "--max-memory": max_memory,
        "--reports": reports, "--engine": engine, "--address": address, "--workers": workers,
    }  # fmt: skip
    request = DiffRequest(
        paths=paths,
        samples=samples,
        source=source,
        model=given,
        command=_command(listed, (reference, *candidates), options),
        ssim=ssim,
        planes=planes,
        stress=parse_stress(stress),
        threads=threads,
        limits=Limits(timeout, int(max_memory * 2**30), lossy=True),
        engine=chosen,
        store=KeptLots(Workspace(Path(reports))) if reports else None,
    )
    record = compare(request, progress_for(progress))
    if page is None:
        return DiffResult(record)
    (written,) = write_outputs([("html", Path(page))], record, request)
    return DiffResult(record, written)


def task_text(task: str | Mapping[str, Any]) -> str:
    """Write a task as ``--task`` takes it."""
    return task if isinstance(task, str) else json.dumps(dict(task))


def _samples(images: _Listed, limit: int | None, only: Sequence[str]) -> tuple[Samples, str]:
    from alignkit.studies.diff.diff_arguments import samples_of

    files = _files(images)
    if files:
        return samples_of(files, None, limit, only)
    if limit is not None or only:
        raise ConfigError("'limit' and 'only' choose among files; of a list, pass a part of it")
    return images_from(images), "images in memory"


def _files(images: _Listed) -> list[Path] | None:
    """Return folders and files; ``None`` if some images are in memory."""
    if isinstance(images, Samples):
        return None
    files = [Path(each) for each in images if not isinstance(each, bytes)]
    return files if len(files) == len(images) else None


def _command(images: _Listed, stacks: Sequence[Stack], options: Mapping[str, object]) -> str:
    """Return the shell command of the same comparison; ``IMAGES`` are those in memory.

    Options with the command's own defaults are left out.
    """
    words = [str(each) for each in _files(images) or [Path("IMAGES")]]
    for each in stacks:
        words += ["--preprocess", each if isinstance(each, str) else _flow(each)]
    for key, value in options.items():
        if value and value != _DEFAULTS.get(key):
            each_value = value if isinstance(value, list | tuple) else [value]
            words += [word for each in each_value for word in (key, str(each))]
    return shlex.join(["alignkit", "diff", *words])


def _flow(stack: Stack) -> str:
    from alignkit.findings.stage_yaml import stage_block
    from alignkit.preprocess import Preprocess

    if isinstance(stack, Preprocess):
        return json.dumps({"name": stack.name, **stage_block(stack)})
    return json.dumps(dict(stack), default=str)  # type: ignore[arg-type]  # a mapping
