"""Recorded stages in grey levels, and the reference's stages between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.decoders.exif import exif_orientation
from alignkit.preprocess import STAGES, Preprocess, StageName
from alignkit.preprocess.image_header import declared_size
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.preprocess.normalise import Normalise
from alignkit.samples import Samples
from alignkit.search.normalisation_fit import undone
from alignkit.search.recorded_input import inputs, part
from alignkit.search.stored_taps import TapStage, image_of
from alignkit.search.tap_report import OtherSize, TapDistance

EXACT = 1e-3
"""Grey levels that normalising in float32 and undoing it costs."""
FIT_IMAGES = 8
_QUARTER = 5
"""From this EXIF orientation on, width and height change places."""


@dataclass(frozen=True)
class Recorded:
    """The arrays of one stage in grey levels, in the channel order they have."""

    tap: TapStage
    rows: tuple[int, ...]
    normalise: Normalise
    """That of the reference, which is undone for the last stage."""

    @property
    def stage(self) -> StageName:
        """The stage after which it was recorded."""
        assert self.tap.stage is not None
        return self.tap.stage

    @cached_property
    def unit(self) -> bool:
        """Whether floats are in 0..1: nearly all of such arrays of levels would be black."""
        if "float" not in self.tap.dtype:
            return False
        some = [self.tap.tensors[row].read() for row in self.rows[:FIT_IMAGES]]
        numbers = [each for each in some if each.size and np.isfinite(each).all()]
        within = (each.min() >= -EXACT and each.max() <= 1 + EXACT for each in numbers)
        return bool(numbers) and all(within)

    def array(self, row: int) -> npt.NDArray[Any] | str:
        """Return (h, w, 3) as stored; or why it is no image."""
        image = image_of(self.tap.tensors[row].read())
        if isinstance(image, str):
            return image
        if not image.size:
            return "the array is empty"
        return image if np.isfinite(image).all() else "the array holds NaN or infinity"

    def levels(self, row: int) -> npt.NDArray[Any] | str:
        """Return (h, w, 3) in grey levels, ``uint8`` where it was; or why there are none."""
        image = self.array(row)
        if isinstance(image, str):
            return image
        if self.stage == "normalise":
            return undone(image, self.normalise).astype(np.float32)
        if image.dtype == np.uint8:
            return image
        levels = image.astype(np.float64) * (255 if self.unit else 1)
        whole = np.rint(levels)
        # a float of whole levels takes the way of bytes, which some resizers need
        if np.abs(levels - whole).max() < EXACT and whole.min() >= 0 and whole.max() <= 255:
            return whole.astype(np.uint8)
        return levels.astype(np.float32)


@dataclass(frozen=True)
class Segment:
    """The reference's stages between two recorded ones."""

    reference: Preprocess
    samples: Samples
    rows: tuple[int, ...]
    before: Recorded | None
    begin: StageName | None
    """The last stage that ran before ``before`` was recorded; ``None`` for the file itself."""
    recorded: Recorded
    tapped: frozenset[StageName]
    """All recorded stages."""

    @property
    def stages(self) -> tuple[StageName, ...]:
        """The stages that it covers."""
        begin = STAGES.index(self.begin) + 1 if self.begin else 0
        return STAGES[begin : STAGES.index(self.last) + 1]

    @property
    def may_crop(self) -> bool:
        """Whether the recorded code may have cropped: it may call resize and crop one stage."""
        return "crop" in self.stages or (
            self.recorded.stage == "resize" and "crop" not in self.tapped
        )

    @cached_property
    def last(self) -> StageName:
        """The reference's last stage.

        If the tap called resize has the crop's size, it is the crop. If the tap called decode is
        already turned, it is orient.
        """
        stage, size = self.recorded.stage, self.reference.crop.size
        if stage == "decode" and "orient" not in self.tapped:
            turns = self.reference.orient.policy == "exif"
            return "orient" if turns and self._upright() else stage
        if stage != "resize" or size is None or "crop" in self.tapped:
            return stage
        shape = self.recorded.tap.common_shape
        return "crop" if shape and size in (shape[:2], shape[-2:], shape[-3:-1]) else stage

    def _upright(self) -> bool:
        """Whether files to be turned by a quarter were recorded in their turned shape."""
        shapes = []
        for row in self.rows:
            encoded = self.samples.read(row)
            size = declared_size(encoded)
            if size and exif_orientation(encoded) >= _QUARTER and size[0] != size[1]:
                levels = self.recorded.levels(row)
                shapes.append(not isinstance(levels, str) and levels.shape[:2] == size[::-1])
        return bool(shapes) and all(shapes)

    @cached_property
    def path(self) -> Preprocess:
        """The reference's stages of this segment, and none else."""
        return part(self.reference, self.begin, self.last)

    @cached_property
    def source(self) -> Samples:
        """The samples whose bytes are the recorded input of this segment."""
        before = self.before
        if before is None:
            return self.samples
        return inputs(self.samples, lambda row: self._input(before, row))

    @staticmethod
    def _input(before: Recorded, row: int) -> npt.NDArray[Any]:
        levels = before.levels(row)
        return np.empty(0) if isinstance(levels, str) else levels


@dataclass(frozen=True)
class Sided:
    """Distances with the channels as they are, and reversed; ``None`` if the sizes differ."""

    plain: TapDistance | None
    swapped: TapDistance | None
    left_out: tuple[tuple[int, str], ...]
    other_size: OtherSize | None = None
    idle: frozenset[StageName] = frozenset()
    """Stages of the path that leave every image as it is."""


def distances(path: Preprocess, source: Samples, segment: Segment) -> Sided:
    """Compare the pixels of ``path`` on ``source`` with the recorded ones of a segment."""
    found: list[list[tuple[float, float]]] = []
    idle = frozenset(STAGES)
    left_out: list[tuple[int, str]] = []
    others: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
    taken = take_pixels((path,), encoded_images(source, segment.rows))
    for row, (ours,) in zip(segment.rows, taken, strict=True):
        wanted = segment.recorded.levels(row)
        if isinstance(wanted, str):
            left_out.append((row, wanted))
        elif ours.pixels is None:
            left_out.append((row, f"{ours.outcome}: {ours.reason}"))
        elif ours.pixels.shape != wanted.shape:
            others.append((row, wanted.shape[:2], ours.pixels.shape[:2]))
        else:
            found.append([_apart(ours.pixels, each) for each in (wanted, wanted[..., ::-1])])
            idle &= {*ours.idle}
    if others:
        row, theirs, mine = others[0]
        other = OtherSize(segment.samples.ids[row], theirs, mine, len(others))
        return Sided(None, None, tuple(left_out), other)
    if not found:
        return Sided(None, None, tuple(left_out))
    plain, swapped = (_summed(each) for each in zip(*found, strict=True))
    return Sided(plain, swapped, tuple(left_out), idle=idle)


def _apart(ours: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> tuple[float, float]:
    difference = np.abs(ours.astype(np.float32) - wanted.astype(np.float32))
    return float(difference.mean(dtype=np.float64)), float(difference.max())


def _summed(each: Sequence[tuple[float, float]]) -> TapDistance:
    means, greatest = zip(*each, strict=True)
    return TapDistance(
        float(np.mean(means)), max(greatest), sum(x <= EXACT for x in greatest), len(each)
    )
