"""``--out KIND=PATH``: files of a comparison besides the terminal's text, with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.record import WorstImage

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.record.pixel_diff import DiffRecord, PairDiff
    from alignkit.studies.diff import DiffRequest

OUTPUT_KINDS = ("json", "html")
_SHOWN = 8
"""Images for each candidate."""
_STAGE = "colour"

TakenPixels: TypeAlias = "dict[tuple[str, int], Pixels]"
"""(image id, index of the path) → the input of the normalise stage."""


@dataclass(frozen=True, slots=True)
class DiffOutput:
    """One file or folder to write."""

    kind: str
    """One of `OUTPUT_KINDS`."""
    path: Path
    """A file for ``json``, a folder for ``html``."""


def outputs_of(texts: Sequence[str]) -> tuple[DiffOutput, ...]:
    """Parse ``json=drift.json`` and the like; raises `ConfigError` for any other text."""
    found = []
    for text in texts:
        kind, equals, path = text.partition("=")
        if kind not in OUTPUT_KINDS:
            raise ConfigError(f"--out {text}: no kind {kind!r}{did_you_mean(kind, OUTPUT_KINDS)}")
        if not equals or not path:
            raise ConfigError(f"--out {text}: write it as {kind}=PATH")
        found.append(DiffOutput(kind, Path(path)))
    return tuple(found)


def write_outputs(
    outputs: Sequence[DiffOutput], record: DiffRecord, request: DiffRequest
) -> list[Path]:
    """Write each and return the files. Raises `WorkspaceError` if one cannot be written."""
    from alignkit.record.pixel_diff import write_diff_record
    from alignkit.report.diff_page import render_diff

    written = []
    for output in outputs:
        if output.kind == "json":
            write_diff_record(record, output.path)
            written.append(output.path)
        else:
            shown = with_pictures(record, request, output.path)
            write_diff_record(shown, output.path / "record.json")
            written.append(render_diff(output.path))
    return written


def with_pictures(record: DiffRecord, request: DiffRequest, folder: Path) -> DiffRecord:
    """Write the pictures below ``folder``; return the record with their `WorstImage` entries."""
    pairs = [pair for pair in record.pairs if pair.state == "measured"]
    wanted = {image.id for pair in pairs for image in pair.worst[:_SHOWN]}
    places = [index for index, name in enumerate(request.samples.ids) if name in wanted]
    paths = [each.preprocess for each in request.usable]
    images = encoded_images(request.samples, places)
    taken: TakenPixels = {}
    for place, found in zip(places, take_pixels(paths, images, limits=request.limits), strict=True):
        for number, each in enumerate(found):
            if each.pixels is not None:
                taken[request.samples.ids[place], number] = each.pixels
    shown = [
        image
        for number, pair in enumerate(pairs, 1)
        for image in _written(folder, pair, number, taken)
    ]
    return record.model_copy(update={"worst": tuple(shown)})


def _written(folder: Path, pair: PairDiff, number: int, taken: TakenPixels) -> list[WorstImage]:
    from alignkit.record.pictures import write_worst

    return [
        write_worst(
            folder,
            taken[image.id, 0],
            taken[image.id, number],
            reference=pair.reference,
            candidate=pair.candidate,
            id=image.id,
            label="",
            stage=_STAGE,
        )
        for image in pair.worst[:_SHOWN]
        if (image.id, 0) in taken and (image.id, number) in taken
    ]
