"""Pictures of a comparison's page: both paths' pixels of the images that differ most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.preprocess.isolated import encoded_images, take_pixels
from alignkit.record import WorstImage

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.record.pixel_diff import DiffRecord, PairDiff
    from alignkit.studies.diff import DiffRequest

_SHOWN = 8
"""Images for each candidate."""
_STAGE = "colour"

TakenPixels: TypeAlias = "dict[tuple[str, int], Pixels]"
"""(image id, index of the path) → the input of the normalise stage."""


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
