"""Shown images → their pixels after the stages before the last, for the viewer.

Both paths run again on the few images that a page shows: a comparison of thousands keeps sums, and
a run keeps the model's input alone. Decodes of photographs are large, so that the images of a pair
of paths have a limit together: half of it is for whole images, the rest for crops around the worst
block of the images that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from alignkit.arrays import Pixels
from alignkit.compare.image_diff import with_decode
from alignkit.isolation import Limits
from alignkit.isolation.worker import Begin, Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import (
    Started,
    encoded_images,
    run_isolated,
    taps_of,
    warm_up,
)
from alignkit.preprocess.jpeg_header import SUBSAMPLING_NAMES, read_jpeg_header
from alignkit.record import Artifact, ShownImage, ShownStage
from alignkit.record.picture_facts import pixel_script, write_file, write_shown
from alignkit.samples import Samples

EarlyStage = Literal["decode", "resize"]
STAGES_BYTES = 2_000_000
"""Most bytes of a pair's stages where no experiment says it: of a diff and of a gate."""
CROP = 96
"""Pixels on a side of a crop."""
_STEP = 32
"""Pixels on a side of the grid that a crop lies on: the largest MCU, so that blocks keep their
places."""
_BLOCK = 8
_SMALL = 1 << 20
"""Bytes of an array that is compressed in any case; a model's input seldom has more."""
_MCU = {"grey": (_BLOCK, _BLOCK)} | {
    name: (_BLOCK * across, _BLOCK * down) for (across, down), name in SUBSAMPLING_NAMES.items()
}
"""Chroma subsampling → width and height of a JPEG's MCU, in pixels."""


class StagePair(NamedTuple):
    """Both paths' pixels of an image after a stage, (h, w, 3), or ``None`` where equal."""

    stage: EarlyStage
    sizes: tuple[tuple[int, int], tuple[int, int]]
    """(width, height) of each."""
    mcu: tuple[int, int] | None
    a: Pixels | None
    b: Pixels | None


class TakenImage(NamedTuple):
    """An image on two paths."""

    stages: tuple[StagePair, ...] = ()
    """Empty unless both paths decode it."""
    last: tuple[Pixels, Pixels] | None = None
    """Input of the normalise stage on each path."""


@dataclass(frozen=True, slots=True)
class TakeStages:
    """`Work` of `alignkit.isolation` that returns a `TakenImage` for each image."""

    reference: Preprocess
    candidate: Preprocess
    equal_decodes: bool = False
    """Whether decoded pixels are returned where they are equal, too."""

    def warm_up(self, begin: Begin) -> None:
        """Run both paths once."""
        warm_up((self.reference, self.candidate), begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[TakenImage]:
        """Run both paths on each image."""
        return [self._taken(image, partial(begin, place)) for place, image in enumerate(images)]

    def _taken(self, image: Encoded, begin: Started) -> TakenImage:
        left = taps_of(self.reference, image, 0, begin)
        shared = self.reference.shared_taps(left, self.candidate)
        right = taps_of(self.candidate, image, 1, begin, shared)
        if left.last is None or right.last is None:
            return TakenImage()
        # a decoder's own turn is undone, so that the blocks of the file are upright
        both = with_decode(left), with_decode(right)
        stages = tuple(
            self._pair(stage, both[0][stage], both[1][stage], image.data)
            for stage in get_args(EarlyStage)
        )
        return TakenImage(stages, (_whole(left.last), _whole(right.last)))

    def _pair(self, stage: EarlyStage, a: Pixels, b: Pixels, encoded: bytes) -> StagePair:
        sizes = (a.shape[1], a.shape[0]), (b.shape[1], b.shape[0])
        header = read_jpeg_header(encoded) if stage == "decode" else None
        upright = header is not None and set(sizes) == {(header.width, header.height)}
        mcu = _MCU.get(header.subsampling) if header and upright else None
        wanted = self.equal_decodes and stage == "decode"
        if not wanted and a.shape == b.shape and np.array_equal(a, b):
            return StagePair(stage, sizes, mcu, None, None)
        return StagePair(stage, sizes, mcu, _whole(a), _whole(b))


def _whole(pixels: Pixels) -> Pixels:
    """Return a contiguous array, as shared memory holds it."""
    return cast("Pixels", np.ascontiguousarray(pixels))


@dataclass(frozen=True, slots=True)
class ImageTaker:
    """Where the shown images of two paths come from, and how much room their stages have."""

    reference: Preprocess
    candidate: Preprocess
    samples: Samples
    folder: Path
    """The record's, below which files are written."""
    most: int = STAGES_BYTES
    """Bytes of all stages before the last; the first images come first."""
    changed: Literal["raise", "fail"] = "raise"
    """See `encoded_images`."""
    limits: Limits | None = None
    equal_decodes: bool = False
    """Whether decoded pixels are kept where they are equal, too."""

    def with_stages(self, shown: Sequence[ShownImage]) -> tuple[ShownImage, ...]:
        """Add the earlier stages of images whose last pixels are written; some occur twice."""
        ids = list(dict.fromkeys(each.id for each in shown))
        room = _Room(self.folder, self.most, {each.pixels.path for each in shown if each.pixels})
        stages = {
            name: tuple(map(room.kept, found.stages))
            for name, found in zip(ids, self._taken(ids), strict=True)
        }
        return tuple(each.model_copy(update={"stages": stages[each.id]}) for each in shown)

    def show(self, ids: Sequence[str]) -> tuple[ShownImage, ...]:
        """Write the pictures of images, with every stage.

        An image is left out unless both paths give pixels.
        """
        shown, room = [], _Room(self.folder, self.most)
        for name, found in zip(ids, self._taken(ids), strict=True):
            if found.last is None:
                continue
            image = write_shown(
                self.folder,
                *found.last,
                why="pixels",
                reference=self.reference.name,
                candidate=self.candidate.name,
                id=name,
                label="",
                stage="colour",
            )
            room.known.update(each.path for each in image.artifacts)
            stages = tuple(map(room.kept, found.stages))
            shown.append(image.model_copy(update={"stages": stages}))
        return tuple(shown)

    def _taken(self, ids: Sequence[str]) -> Iterator[TakenImage]:
        places = {name: place for place, name in enumerate(self.samples.ids)}
        paths = self.reference, self.candidate
        images = encoded_images(self.samples, [places[each] for each in ids], changed=self.changed)
        # one by one: a task's results are held together, and photographs are large
        for part in run_isolated(
            TakeStages(*paths, self.equal_decodes),
            paths,
            images,
            limits=self.limits,
            images_a_task=1,
        ):
            yield from part


@dataclass(slots=True)
class _Room:
    """Bytes that are left for the pixels of a pair of paths."""

    folder: Path
    most: int
    known: set[str] = field(default_factory=set)
    """Files that are there anyway: a resize without a crop gives the last pixels."""
    used: int = 0

    def kept(self, pair: StagePair) -> ShownStage:
        """Write the pixels whole, or else a crop, or else neither."""
        stage = ShownStage(
            stage=pair.stage, state="identical", a=pair.sizes[0], b=pair.sizes[1], mcu=pair.mcu
        )
        if pair.a is None or pair.b is None:
            return stage
        x = y = 0
        state, pixels = "whole", self._written(pair.a, pair.b, self.most // 2)
        if np.array_equal(pair.a, pair.b):  # without a worst block
            return stage.model_copy(update={"pixels": pixels})
        if pixels is None and pair.a.shape == pair.b.shape:
            x, y = _place(pair.a, pair.b)
            window = np.s_[y : y + CROP, x : x + CROP]
            state, pixels = "crop", self._written(pair.a[window], pair.b[window], self.most)
        if pixels is None:
            return stage.model_copy(update={"state": "left out"})
        return stage.model_copy(update={"state": state, "pixels": pixels, "x": x, "y": y})

    def _written(self, a: Pixels, b: Pixels, most: int) -> Artifact | None:
        # to compress what cannot fit would cost seconds: scripts of photographs have a third of
        # their bytes or more
        if a.nbytes > max(3 * (most - self.used), _SMALL):
            return None
        path, text = pixel_script(a, b)
        if path not in self.known:
            if self.used + len(text) > most:
                return None
            self.known.add(path)
            self.used += len(text)
        return write_file(self.folder, path, text)


def _place(a: Pixels, b: Pixels) -> tuple[int, int]:
    """Return x and y of the crop that holds the 8×8 block of the greatest mean difference."""
    distance = np.abs(b.astype(np.float32) - a.astype(np.float32)).sum(axis=2)
    rows, columns = (np.arange(0, length, _BLOCK) for length in distance.shape)
    sums = np.add.reduceat(np.add.reduceat(distance, rows, axis=0), columns, axis=1)
    # a block at the edge may be smaller
    sizes = np.outer(*(np.diff([*starts, length]) for starts, length in
                       zip((rows, columns), distance.shape, strict=True)))  # fmt: skip
    row, column = np.unravel_index(np.argmax(sums / sizes), sums.shape)
    y, x = (
        max(0, (int(at) * _BLOCK - CROP // 2 + _BLOCK) // _STEP * _STEP) for at in (row, column)
    )
    return x, y
