"""Work of a worker process on images: read the header, run every path once, compare every pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from typing import NamedTuple

from alignkit.compare.compare_pixels import extent_of
from alignkit.compare.image_diff import ImageDiff, diff_taps
from alignkit.compare.pixel_diff import PixelDiff, diffs_of, joined
from alignkit.compare.pixel_sums import PixelSums
from alignkit.compare.plane_sums import Planes, added_planes, planes_of
from alignkit.compare.spatial_sums import Spatial, joined_spatial
from alignkit.decoders import DecodeOutcome
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.preprocess import STAGES, Preprocess, StageName, Taps
from alignkit.preprocess.image_header import declared_size, decode
from alignkit.preprocess.image_kinds import ImageKinds, kinds_of
from alignkit.preprocess.image_taps import (
    Started,
    each_taps,
    failed_taps,
    result_or_reason,
    warm_up,
)
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stress import Stress


class PixelTotals(NamedTuple):
    """Sums over pairs of images at one stage, in grey levels, without the histogram of `PixelSums`.

    For single images and the many small groups of a set. A tuple, as thousands are sent between
    processes.
    """

    images: int = 0
    """Images compared."""
    identical: int = 0
    shape_mismatches: int = 0
    """Images whose two arrays differ in shape: not compared."""
    pixels: int = 0
    differing_pixels: int = 0
    """Pixels that differ in any channel."""
    values: int = 0
    """Three a pixel, less those that are not finite."""
    sum_abs: float = 0
    sum_squares: float = 0
    max_abs: float = 0

    def plus(self, other: PixelTotals) -> PixelTotals:
        """Add the sums of another group."""
        sums = map(add, self[:-1], other[:-1])
        return PixelTotals._make((*sums, max(self.max_abs, other.max_abs)))

    @property
    def mean_abs(self) -> float | None:
        """Mean absolute difference of values; ``None`` without values."""
        return self.sum_abs / self.values if self.values else None

    @property
    def share_differing(self) -> float | None:
        """Share of pixels that differ in any channel; ``None`` without pixels."""
        return self.differing_pixels / self.pixels if self.pixels else None

    @property
    def psnr(self) -> float | None:
        """PSNR in dB for a peak of 255; ``None`` without values or without a difference."""
        if not self.sum_squares or not self.values:
            return None
        return 10 * math.log10(255**2 * self.values / self.sum_squares)


class ImageDistance(NamedTuple):
    """Distance of one image on a candidate path from the reference."""

    decode: PixelTotals
    last: PixelTotals
    """After ``colour``, the input of the normalise stage."""
    ssim: float | None
    """SSIM after ``colour``."""
    begun: StageName | None
    """The first stage after which the two paths differ; ``None`` if none does."""


class ImageFacts(NamedTuple):
    """The numbers of one image that are kept."""

    id: str
    kinds: ImageKinds
    outcomes: tuple[tuple[DecodeOutcome, str], ...]
    """How each path's decode ended, with the reason; reference first."""
    distances: tuple[ImageDistance | None, ...]
    """One for each candidate; ``None`` where one of the two gave no pixels."""
    digest: str
    """`alignkit.decoders.Decoded.digest` of the reference's decode."""


class ComparedImage(NamedTuple):
    """One image on a candidate path compared with the reference, every stage."""

    diff: ImageDiff
    planes: Planes


@dataclass(frozen=True, slots=True, eq=False)
class DiffPart:
    """The result of one task: the sums and facts of a few images."""

    diffs: tuple[tuple[PixelDiff, ...], ...]
    """One for each candidate, stage by stage."""
    planes: tuple[Planes, ...]
    """One for each candidate."""
    spatial: tuple[Spatial, ...]
    """One for each candidate."""
    facts: tuple[ImageFacts, ...]

    @classmethod
    def joined(cls, parts: Sequence[DiffPart]) -> DiffPart:
        """Add up the parts of one task, in the order of its images."""
        if len(parts) == 1:
            return parts[0]
        planes: list[Planes] = [{} for _ in parts[0].planes]
        for part in parts:
            planes = [added_planes(*both) for both in zip(planes, part.planes, strict=True)]
        return cls(
            tuple(map(joined, zip(*(each.diffs for each in parts), strict=True))),
            tuple(planes),
            tuple(map(joined_spatial, zip(*(each.spatial for each in parts), strict=True))),
            tuple(fact for each in parts for fact in each.facts),
        )


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

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> DiffPart:
        """Compare some images; return their sums and facts."""
        facts = []
        diffs: list[list[tuple[PixelDiff, ...]]] = [[] for _ in self.paths[1:]]
        planes: list[Planes] = [{} for _ in self.paths[1:]]
        spatial: list[Spatial] = [{} for _ in self.paths[1:]]
        for position, image in enumerate(images):
            fact, found = self._image(image, partial(begin, position))
            facts.append(fact)
            for number, compared in enumerate(found):
                if compared:
                    diffs[number].append(diffs_of(compared.diff))
                    planes[number] = added_planes(planes[number], compared.planes)
                    spatial[number] = joined_spatial((spatial[number], compared.diff.spatial))
        return DiffPart(tuple(map(joined, diffs)), tuple(planes), tuple(spatial), tuple(facts))

    def _image(
        self, image: Encoded, begin: Started
    ) -> tuple[ImageFacts, list[ComparedImage | None]]:
        begin(EVERYTHING)  # a header that crashes the reader is the fault of no path
        lost = dict(image.lost)
        header = read_jpeg_header(image.data)
        size = (header.height, header.width) if header else declared_size(image.data)
        refused = lost.get(EVERYTHING, "")
        data = image.data  # the kinds are those of the file, also of an image that is encoded again
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
        facts = ImageFacts(
            id=image.id,
            kinds=kinds_of(data, header, size),
            outcomes=tuple((each.decoded.outcome, each.decoded.reason) for each in taps),
            distances=tuple(_distance(each.diff) if each else None for each in found),
            # copies are told by the images as they are
            digest="" if self.stress else taps[0].decoded.digest,
        )
        return facts, found

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
        return ComparedImage(diff, planes_of(diff, paths, pair, self.planes))


def _distance(diff: ImageDiff) -> ImageDistance:
    last = diff.sums["colour", "cumulative"]
    return ImageDistance(
        decode=totals_of(diff.sums["decode", "cumulative"]),
        last=totals_of(last),
        ssim=last.ssim if last else None,
        begun=next(filter(partial(_differs, diff), STAGES), None),
    )


def _differs(diff: ImageDiff, stage: StageName) -> bool:
    sums = diff.sums[stage, "cumulative"]
    return sums is None or not sums.identical


def totals_of(sums: PixelSums | None) -> PixelTotals:
    """Reduce the sums of one comparison; ``None`` means that the shapes differ."""
    if sums is None:
        return PixelTotals(shape_mismatches=1)
    return PixelTotals(
        images=sums.images,
        identical=sums.identical,
        pixels=sums.pixels,
        differing_pixels=sums.differing_pixels,
        values=sums.values,
        sum_abs=sums.sum_abs,
        sum_squares=sums.sum_squares,
        max_abs=sums.max_abs,
    )
