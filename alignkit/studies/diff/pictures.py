"""The pictures of a comparison's page: what both paths made of the images that differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.isolation.shared_images import Encoded
from alignkit.isolation.worker import Begin
from alignkit.preprocess import Preprocess
from alignkit.record import WorstImage

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.isolation import Isolation
    from alignkit.record.pixel_diff import DiffRecord, PairDiff
    from alignkit.studies.diff import DiffRequest

SHOWN = 8
"""Images for each candidate."""
STAGE = "colour"

Taken: TypeAlias = "dict[tuple[str, int], Pixels]"
"""(image id, path) → the pixels that are normalised."""


@dataclass(frozen=True, slots=True)
class TakePixels:
    """Give the small pixels of a few images; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]

    def warm_up(self, begin: Begin) -> None:
        """Nothing: these paths have run already."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Taken:
        """What the normalise stage receives, on every path that gives pixels."""
        taken: Taken = {}
        for position, image in enumerate(images):
            lost = dict(image.lost)
            for number, path in enumerate(self.paths):
                if number in lost:
                    continue
                begin(position, number)
                pixels = path.taps(image.data).last
                if pixels is not None:
                    taken[image.id, number] = pixels
        return taken


def with_pictures(
    record: DiffRecord, request: DiffRequest, isolation: Isolation, folder: Path
) -> DiffRecord:
    """The record with `WorstImage` entries, whose pictures are written below ``folder``."""
    pairs = [pair for pair in record.pairs if pair.state == "measured"]
    wanted = {image.id for pair in pairs for image in pair.worst[:SHOWN]}
    places = [index for index, name in enumerate(request.samples.ids) if name in wanted]
    images = (Encoded(request.samples.ids[n], request.samples.read(n)) for n in places)
    work = TakePixels(tuple(each.preprocess for each in request.usable))
    taken: Taken = {}
    for some in isolation.run(work, images):
        taken |= some
    shown = [
        image
        for number, pair in enumerate(pairs, 1)
        for image in _written(folder, pair, number, taken)
    ]
    return record.model_copy(update={"worst": tuple(shown)})


def _written(folder: Path, pair: PairDiff, number: int, taken: Taken) -> list[WorstImage]:
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
            stage=STAGE,
        )
        for image in pair.worst[:SHOWN]
        if (image.id, 0) in taken and (image.id, number) in taken
    ]
