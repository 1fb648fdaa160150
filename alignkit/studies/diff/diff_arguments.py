"""Arguments of `alignkit diff`: IMAGES → `Samples`, ``--out KIND=PATH`` → files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.datasets.byte_store import place_text
from alignkit.datasets.regular_file import escaped_name, read_text
from alignkit.errors import ConfigError, DataError
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.yaml_argument import NEEDS_MODEL
from alignkit.limits import TABLE_BYTES
from alignkit.plugins import did_you_mean, nearest
from alignkit.record.diff_document import DiffRecord, write_diff_record
from alignkit.record.document import document_text
from alignkit.samples import Samples, choose
from alignkit.stored_file import write_output
from alignkit.studies.diff import DiffRequest
from alignkit.text.numbers import grouped

if TYPE_CHECKING:
    from alignkit.models.user_model import UserModel

_LISTS = (".txt", ".lst")
"""Files that hold the name of an image, or of a folder, in each line."""
_NAMED = 3
"""Paths in the description of the images; more are counted."""
_PICTURED = 8
"""Images with pictures for each candidate."""


def samples_of(
    given: Sequence[Path],
    experiment: Experiment | None,
    limit: int | None = None,
    only: Sequence[str] = (),
) -> tuple[Samples, str]:
    """Return the images and their description; without a path an experiment's evaluation data.

    ``limit`` draws so many by their names, the same ones every time; the description says so.

    Names in a list are relative to its folder; ``only`` names the ids to keep. Raises `ConfigError`
    if no path is given or an id is unknown, `NothingCompared` if there is no image, and `DataError`
    if a file cannot be read.
    """
    from alignkit.datasets.unlabelled_images import Images

    if given:
        roots = tuple(path for each in given for path in _expanded(each))
        images = Images(roots[0] if len(roots) == 1 else roots, limit=limit)
        words = ", ".join(escaped_name(place_text(each)) for each in given[:_NAMED])
        if len(given) > _NAMED:
            words += f" and {len(given) - _NAMED} more"
        samples, total = images.drawn()
        return _only(samples, only), words + _drawn(len(samples), total)
    if experiment is None:
        raise ConfigError("name a folder of images, or a --config file with data")
    samples = experiment.data.evaluation()
    words = f"the data of {experiment.file}"
    if limit is not None and limit < len(samples):
        words += _drawn(limit, len(samples))
        chosen = choose(samples.ids, limit, seed=0)  # the same images every time
        samples = samples.take([n for n, name in enumerate(samples.ids) if name in chosen])
    return _only(samples, only), words


def _drawn(images: int, total: int) -> str:
    return f", drawn from {grouped(total)}, the same ones every time" if images < total else ""


def model_and_side(
    text: str | None, task: str = "", experiment: Experiment | None = None
) -> tuple[UserModel | None, int | None]:
    """Return the model of ``--model``, and the side of its input if it states a square.

    ``task`` is that of ``--task``, by default the experiment's. Raises `ConfigError` for a task
    without a model.
    """
    if text is None:
        if task:
            raise ConfigError(NEEDS_MODEL)
        return None, None
    from alignkit.predict.given_model import given_model, given_task, own_size

    own = experiment.task if experiment else None
    model = given_model(text, given_task(task) if task else own)
    height, width = own_size(model) or (None, None)
    return model, height if height == width else None


def _only(samples: Samples, names: Sequence[str]) -> Samples:
    if not names:
        return samples
    places = {name: place for place, name in enumerate(samples.ids)}
    for name in names:
        if name not in places:
            hint = did_you_mean(name, places) if nearest(name, places) else ""
            raise ConfigError(f"--only {name}: none of the {len(samples)} images{hint}")
    # a name given twice counts once
    return samples.take([places[name] for name in dict.fromkeys(names)])


def _expanded(given: Path) -> list[Path]:
    if given.suffix.lower() not in _LISTS:
        return [given]
    try:
        # editors on Windows begin a file with a byte order mark
        lines = read_text(given, TABLE_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"the list {given} cannot be read: {reason}") from None
    return [given.parent / line.strip() for line in lines if line.strip()]


def write_outputs(
    outputs: Sequence[tuple[str, Path]], record: DiffRecord, request: DiffRequest
) -> list[Path]:
    """Write each kind, ``json`` a file and ``html`` a folder; return the files.

    Raises `WorkspaceError` if one cannot be written.
    """
    from alignkit.report.diff_page import render_diff

    written = []
    for kind, path in outputs:
        if kind == "json":
            write_output(path, document_text(record))
            written.append(path)
        else:
            shown = with_pictures(record, request, path)
            write_diff_record(shown, path / "record.json")
            written.append(render_diff(path))
    return written


def with_pictures(record: DiffRecord, request: DiffRequest, folder: Path) -> DiffRecord:
    """Write the pictures below ``folder``; return the record with their `ShownImage` entries."""
    from alignkit.compare.shown_stages import ImageTaker

    paths = {each.preprocess.name: each.preprocess for each in request.usable}
    shown = [
        image
        for pair in record.pairs
        if pair.state == "measured"
        for image in ImageTaker(
            paths[pair.reference],
            paths[pair.candidate],
            request.samples,
            folder,
            changed="fail",
            limits=request.limits,
        ).show([each.id for each in pair.worst[:_PICTURED]])
    ]
    return record.model_copy(update={"shown": tuple(shown)})
