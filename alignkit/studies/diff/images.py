"""What a worker does with images for `alignkit diff`: header, every path once, every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from alignkit.decoders import DecodeOutcome
from alignkit.isolation.shared_images import EVERYTHING, Encoded
from alignkit.isolation.worker import Begin
from alignkit.preprocess import Preprocess, StageName, Taps
from alignkit.preprocess.decode import decode
from alignkit.preprocess.image_kinds import ImageKinds, kinds_of
from alignkit.preprocess.image_size import declared_size
from alignkit.preprocess.isolated import (
    Started,
    failed_taps,
    result_or_reason,
    taps_of,
    warm_up,
)
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stress import Stress
from alignkit.studies.diff.planes import Planes, added_planes, planes_of
from alignkit.studies.diff.totals import Totals, totals_of

if TYPE_CHECKING:
    from alignkit.compare.image_diff import ImageDiff
    from alignkit.compare.pixel_diff import PixelDiff


class Distance(NamedTuple):
    """One image on a candidate path against the reference."""

    decode: Totals
    last: Totals
    """After ``colour``: what the normalise stage receives."""
    ssim: float | None
    """Of the same."""


class ImageFacts(NamedTuple):
    """One image in short."""

    id: str
    kinds: ImageKinds
    outcomes: tuple[tuple[DecodeOutcome, str], ...]
    """How each path's decode ended, with the reason; reference first."""
    distances: tuple[Distance | None, ...]
    """One a candidate; ``None`` where one of the two gave no pixels."""


class Compared(NamedTuple):
    """One image on a candidate path against the reference, in full."""

    diff: ImageDiff
    planes: Planes


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some images."""

    diffs: tuple[tuple[PixelDiff, ...], ...]
    """One for each candidate, stage by stage."""
    planes: tuple[Planes, ...]
    """One for each candidate."""
    facts: tuple[ImageFacts, ...]


@dataclass(frozen=True, slots=True)
class DiffImages:
    """Compare the first path with each of the others; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]
    ssim: tuple[StageName, ...] = ("colour",)
    """Stages whose SSIM is measured."""
    planes: tuple[StageName, ...] = ()
    """Stages that are also compared in Y'CbCr."""
    stress: Stress | None = None
    """Compare the images as encoded again, from the pixels the reference decodes."""

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Part:
        """The sums and the facts of some images."""
        from alignkit.compare.pixel_diff import diffs_of, joined

        facts = []
        diffs: list[list[tuple[PixelDiff, ...]]] = [[] for _ in self.paths[1:]]
        planes: list[Planes] = [{} for _ in self.paths[1:]]
        for position, image in enumerate(images):
            fact, found = self._image(image, partial(begin, position))
            facts.append(fact)
            for number, compared in enumerate(found):
                if compared:
                    diffs[number].append(diffs_of(compared.diff))
                    planes[number] = added_planes(planes[number], compared.planes)
        return Part(tuple(map(joined, diffs)), tuple(planes), tuple(facts))

    def _image(self, image: Encoded, begin: Started) -> tuple[ImageFacts, list[Compared | None]]:
        begin(EVERYTHING)
        lost = dict(image.lost)
        header = read_jpeg_header(image.data)
        size = (header.height, header.width) if header else declared_size(image.data)
        refused = lost.get(EVERYTHING, "")
        data = image.data
        taps: list[Taps] = []
        if self.stress and not refused:
            image, refused = self._stressed(image, lost, begin)
        for number, path in enumerate(self.paths):
            taps.append(failed_taps(refused) if refused else taps_of(path, image, number, begin))
        found = [self._compare(number, image, taps, begin) for number in range(1, len(self.paths))]
        facts = ImageFacts(
            id=image.id,
            kinds=kinds_of(data, header, size),
            outcomes=tuple((each.decoded.outcome, each.decoded.reason) for each in taps),
            distances=tuple(_distance(each.diff) if each else None for each in found),
        )
        return facts, found

    def _stressed(
        self, image: Encoded, lost: dict[int, str], begin: Started
    ) -> tuple[Encoded, str]:
        """The image encoded again, or why it cannot be."""
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
    ) -> Compared | None:
        """The candidate against the reference; ``None`` unless both gave pixels."""
        pair = taps[0], taps[number]
        if not all(each.pixels for each in pair):
            return None
        begin(number)
        found = result_or_reason(lambda: self._measured(number, image.data, pair))
        if isinstance(found, str):  # a stage refused the reference's pixels
            taps[number] = failed_taps(found.replace(":", " on the reference's pixels:", 1))
            return None
        return found

    def _measured(self, number: int, data: bytes, pair: tuple[Taps, Taps]) -> Compared:
        from alignkit.compare.image_diff import diff_taps

        paths = self.paths[0], self.paths[number]
        diff = diff_taps(*paths, data, *pair, ssim=self.ssim)
        return Compared(diff, planes_of(diff, paths, data, pair, self.planes))


def _distance(diff: ImageDiff) -> Distance:
    last = diff.sums["colour", "cumulative"]
    return Distance(
        decode=totals_of(diff.sums["decode", "cumulative"]),
        last=totals_of(last),
        ssim=last.ssim if last else None,
    )
