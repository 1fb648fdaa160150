"""Work on a lot of images: read the header, run every path once, compare every pair, add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from typing import Any

from pydantic import TypeAdapter

from alignkit.compare.compare_pixels import extent_of
from alignkit.compare.image_diff import diff_taps
from alignkit.compare.plane_sums import planes_of
from alignkit.isolation import Limits
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.lots import EachImageOnce, Lot
from alignkit.preprocess import Preprocess, StageName, Taps
from alignkit.preprocess.image_header import declared_size, decode
from alignkit.preprocess.image_kinds import kinds_of
from alignkit.preprocess.image_taps import (
    Started,
    each_taps,
    failed_taps,
    result_or_reason,
    warm_up,
)
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stress import Stress
from alignkit.studies.diff.diff_tally import ComparedImage, DiffTally
from alignkit.version import DIFFERENCE_LAYERS, code_version

# the record has the types of the sums that are stored
_LAYERS = (*DIFFERENCE_LAYERS, "record/diff_document.py", "studies/diff")


@dataclass(frozen=True, slots=True)
class DiffImages:
    """Compare the first path with each of the others; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]
    ssim: tuple[StageName, ...] = ("colour",)
    """Stages whose SSIM is measured."""
    planes: tuple[StageName, ...] = ()
    """Stages that are also compared in Y'CbCr."""
    drawn: frozenset[str] | None = None
    """Ids of the images whose differences are located in full, see `CompareStages`."""
    stress: Stress | None = None
    """Encode the images again from the reference's pixels, and compare these."""

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> DiffTally:
        """Compare some images and add them up."""
        tally = DiffTally.of(self.paths)
        for position, image in enumerate(images):
            self._count(tally, image, partial(begin, position))
        return tally

    def _count(self, tally: DiffTally, image: Encoded, begin: Started) -> None:
        begin(EVERYTHING)  # a header that crashes the reader is the fault of no path
        lost = dict(image.lost)
        header = read_jpeg_header(image.data)
        size = (header.height, header.width) if header else declared_size(image.data)
        # the kinds are those of the file, also of an image that is encoded again
        kinds = kinds_of(image.data, header, size)
        refused = lost.get(EVERYTHING, "")
        taps: list[Taps] = []
        found: list[ComparedImage | None] = []
        if self.stress and not refused:
            image, refused = self._stressed(image, lost, begin)
        if refused:
            image = replace(image, lost=((EVERYTHING, refused),))
        for made in each_taps(self.paths, image, begin):
            number = len(taps)
            taps.append(made)
            del made  # its pixels are released below
            if number:
                found.append(self._compare(number, image, taps, begin))
                # the pixels of two paths at a time, however many there are
                taps[number] = Taps(replace(taps[number].decoded, image=None))
        # copies are told by the images as they are
        digest = "" if self.stress else taps[0].decoded.digest
        tally.add(image.id, kinds, digest, [each.decoded for each in taps], found)

    def _stressed(
        self, image: Encoded, lost: dict[int, str], begin: Started
    ) -> tuple[Encoded, str]:
        """Encode the image again; return it, and why that failed (empty if it did not)."""
        assert self.stress is not None
        if 0 in lost:
            return image, f"not encoded again: {lost[0]}"
        begin(0)
        decoded = decode(self.paths[0].decode, image.data, self.paths[0].max_pixels)
        if decoded.image is None:
            return image, f"not encoded again: {decoded.reason}"
        return replace(image, data=self.stress.encode(decoded.image)), ""

    def _compare(
        self, number: int, image: Encoded, taps: list[Taps], begin: Started
    ) -> ComparedImage | None:
        """Compare the candidate with the reference; ``None`` unless both gave pixels."""
        pair = taps[0], taps[number]
        if not all(each.pixels for each in pair):
            return None
        begin(number)  # a crash from here on is the candidate's, on the reference's pixels too
        found = result_or_reason(lambda: self._measured(number, image, pair))
        if isinstance(found, str):  # a stage refused the reference's pixels
            taps[number] = failed_taps(found.replace(":", " on the reference's pixels:", 1))
            return None
        return found

    def _measured(self, number: int, image: Encoded, pair: tuple[Taps, Taps]) -> ComparedImage:
        paths, spatial = (self.paths[0], self.paths[number]), extent_of(image.id, self.drawn)
        diff = diff_taps(*paths, *pair, ssim=self.ssim, spatial=spatial)
        return diff, planes_of(diff, paths, pair, self.planes)


@dataclass(frozen=True, slots=True)
class DiffLots(EachImageOnce):
    """The `LotWork` of a diff."""

    work: DiffImages
    limits: Limits

    @property
    def paths(self) -> tuple[Preprocess, ...]:
        """The paths, reference first."""
        return self.work.paths

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        work, limits = self.work, self.limits
        return {
            "work": "diff",
            "paths": [[each.name, each.identity(), each.versions()] for each in work.paths],
            "ssim": work.ssim,
            "planes": work.planes,
            "drawn": None if work.drawn is None else sorted(work.drawn),
            "stress": work.stress and [work.stress.name, work.stress.encoder()],
            "limits": [limits.seconds, limits.memory],
            "max_pixels": [each.max_pixels for each in work.paths],
            "libraries": [metadata.version(name) for name in ("numpy", "pillow")],
            "code": code_version(_LAYERS),
        }

    def images(self, result: DiffTally) -> int:
        """See `LotWork.images`."""
        return result.images

    def empty(self, lot: Lot) -> DiffTally:  # noqa: ARG002 - places are those in a tally
        """See `LotWork.empty`."""
        return DiffTally.of(self.paths)

    def add(self, part: DiffTally, results: Sequence[DiffTally]) -> DiffTally:
        """See `LotWork.add`."""
        # a task has several results if an image ended its worker: they are one before it is added
        task, *others = results
        for each in others:
            task.join(each)
        part.join(task)
        return part

    def text(self, part: DiffTally) -> str:
        """See `LotWork.text`."""
        return _stored().dump_json(part).decode()

    def parsed(self, text: str) -> DiffTally:
        """See `LotWork.parsed`."""
        part = _stored().validate_json(text)
        if [each.preprocess for each in part.of_path] != [each.name for each in self.paths]:
            raise ValueError("it is of other paths")
        return part


@cache
def _stored() -> TypeAdapter[DiffTally]:
    return TypeAdapter(DiffTally)
