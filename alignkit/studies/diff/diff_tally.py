"""`DiffTally`: the sums of a lot or of all lots, in constant memory → pairs of a `DiffRecord`."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, TypeAlias

from alignkit.compare.compare_pixels import pixel_stages, spatial_stages
from alignkit.compare.image_diff import DECODED, ImageDiff
from alignkit.compare.image_groups import image_groups
from alignkit.compare.pixel_diff import PixelDiff, StageDiffs, diffs_of, joined
from alignkit.compare.pixel_sums import PixelSums
from alignkit.compare.plane_sums import Planes, added_planes, plane_stages
from alignkit.compare.spatial_sums import Spatial, joined_spatial
from alignkit.compare.stored_fields import PAIRS
from alignkit.decoders import Decoded
from alignkit.preprocess import STAGES, Preprocess
from alignkit.preprocess.image_kinds import DIMENSIONS, ImageKinds, kinds_order
from alignkit.preprocess.stage_mixtures import differing_stages
from alignkit.record import Coverage, CoverageDiff
from alignkit.record.diff_document import DistanceFacts, ImageDrift, KindCount, KindDrift, PairDiff
from alignkit.record.pixel_facts import added_totals
from alignkit.record.stored import STRICT
from alignkit.text.diff_words import other_shape
from alignkit.text.numbers import count, percent, plain
from alignkit.text.stage_changes import unshown

_RANKED = 20
"""Worst images kept for each candidate."""

ComparedImage: TypeAlias = tuple[ImageDiff, Planes]
"""One image on a candidate path compared with the reference, every stage."""
TwoTotals: TypeAlias = tuple[DistanceFacts, DistanceFacts]
"""Sums at decode, and at the input of ``normalise``."""
_NONE: TwoTotals = (DistanceFacts(), DistanceFacts())


@dataclass(slots=True)
class PairTally:
    """Sums of one candidate against the reference. They are stored as they are."""

    __pydantic_config__ = STRICT

    coverage: CoverageDiff
    diffs: tuple[PixelDiff, ...] = field(default_factory=lambda: joined(()))
    planes: Planes = field(default_factory=dict)
    spatial: Spatial = field(default_factory=dict)
    # by all dimensions at once: one addition an image, whatever the number of dimensions
    kinds: Annotated[dict[ImageKinds, TwoTotals], PAIRS] = field(default_factory=dict)
    begun: Counter[str] = field(default_factory=Counter)
    """Stage → images that it is the first to change."""
    means: Annotated[Counter[float], PAIRS] = field(default_factory=Counter)
    """Mean difference at the input of ``normalise``, in three digits → images."""
    ranked: list[tuple[float, int, ImageDrift]] = field(default_factory=list)
    """A heap: (mean difference, minus the image's place in the tally, …)."""

    def add(
        self, image: str, kinds: ImageKinds, place: int, diff: ImageDiff, planes: Planes
    ) -> None:
        """Add one image that both paths decode."""
        self.diffs = joined((self.diffs, diffs_of(diff)))
        self.planes = added_planes(self.planes, planes)
        self.spatial = joined_spatial((self.spatial, diff.spatial))
        sums = {stage: diff.sums[stage, "cumulative"] for stage in STAGES}
        decode, last = both = _totals(sums["decode"]), _totals(sums["colour"])
        self._add_kind(kinds, both)
        differing = (stage for stage, each in sums.items() if not (each and each.identical))
        if first := next(differing, None):
            self.begun[first] += 1
        mean = last.mean_abs
        if mean is not None:
            self.means[float(f"{mean:.3g}")] += 1
        if mean:
            drift = ImageDrift(
                id=image,
                mean_abs=mean,
                max_abs=last.max_abs,
                decode_mean_abs=decode.mean_abs,
                ssim=sums["colour"] and sums["colour"].ssim,
                kinds=kinds._asdict(),
            )
            self._rank(mean, -place, drift)

    def join(self, later: PairTally, after: int) -> None:
        """Add the sums of images that come later, ``after`` so many of this tally."""
        self.coverage += later.coverage
        self.diffs = joined((self.diffs, later.diffs))
        self.planes = added_planes(self.planes, later.planes)
        self.spatial = joined_spatial((self.spatial, later.spatial))
        for kinds, totals in later.kinds.items():
            self._add_kind(kinds, totals)
        self.begun.update(later.begun)
        self.means.update(later.means)
        for mean, place, image in later.ranked:
            self._rank(mean, place - after, image)

    def _add_kind(self, kinds: ImageKinds, more: TwoTotals) -> None:
        decode, last = self.kinds.get(kinds, _NONE)
        self.kinds[kinds] = decode + more[0], last + more[1]

    def _rank(self, mean: float, place: int, image: ImageDrift) -> None:
        """Keep an image if it is one of the worst; ``place`` is minus its place."""
        # of equal means the first image is kept; places differ, so that images are never compared
        if len(self.ranked) < _RANKED:
            heapq.heappush(self.ranked, (mean, place, image))
        else:
            heapq.heappushpop(self.ranked, (mean, place, image))

    @property
    def compared(self) -> int:
        """Images that both paths decoded."""
        return self.coverage.decoded

    def worst(self) -> tuple[ImageDrift, ...]:
        """Return the worst images, greatest mean difference first; ties in the images' order."""
        return tuple(image for *_, image in sorted(self.ranked, reverse=True))

    def grouped(self) -> str:
        """Say that a few images differ far more than the others; empty if none does."""
        groups = image_groups(self.means)
        return groups.words(self.worst()[0].id, "levels before normalisation") if groups else ""


def _totals(sums: PixelSums | None) -> DistanceFacts:
    """Leave the histogram out of the sums of one image; ``None`` means that the shapes differ."""
    if sums is None:
        return DistanceFacts(shape_mismatches=1)
    return DistanceFacts(**added_totals(sums, DistanceFacts()))


@dataclass(slots=True)
class DiffTally:
    """Sums and counts of some images on some paths. They are stored as they are."""

    __pydantic_config__ = STRICT

    of_path: list[Coverage]
    """Reference first."""
    of_pair: list[PairTally]
    """In the order of the candidates."""
    kinds: Annotated[Counter[ImageKinds], PAIRS] = field(default_factory=Counter)
    digests: list[str] = field(default_factory=list)
    """Of each image, `alignkit.decoders.Decoded.digest` of the reference's decode."""

    @classmethod
    def of(cls, paths: Sequence[Preprocess]) -> DiffTally:
        """Return the tally of no image on some paths, reference first."""
        reference, *candidates = names = [path.name for path in paths]
        pairs = (CoverageDiff(reference=reference, candidate=each) for each in candidates)
        return cls([Coverage.of(each, "eval", ()) for each in names], [*map(PairTally, pairs)])

    @property
    def images(self) -> int:
        """Images that were added."""
        return len(self.digests)

    def add(
        self,
        image: str,
        kinds: ImageKinds,
        digest: str,
        decodes: Sequence[Decoded],
        found: Sequence[ComparedImage | None],
    ) -> None:
        """Add the next image: its decode on each path, and its comparison with each candidate.

        The latter is ``None`` where one of the two gave no pixels.
        """
        self.of_path = [
            path + Coverage.of(path.preprocess, path.split, [(image, each.outcome, each.reason)])
            for path, each in zip(self.of_path, decodes, strict=True)
        ]
        reference, *candidates = (each.outcome in DECODED for each in decodes)
        for pair, decoded, compared in zip(self.of_pair, candidates, found, strict=True):
            names = pair.coverage.reference, pair.coverage.candidate
            pair.coverage += CoverageDiff.of(*names, [(image, reference, decoded)])
            if compared:
                pair.add(image, kinds, self.images, *compared)
        self.kinds[kinds] += 1
        self.digests.append(digest)

    def join(self, later: DiffTally) -> None:
        """Add the tally of images that come later."""
        self.of_path = [*map(add, self.of_path, later.of_path)]
        for pair, more in zip(self.of_pair, later.of_pair, strict=True):
            pair.join(more, self.images)
        self.kinds.update(later.kinds)
        self.digests += later.digests

    def census(self) -> tuple[KindCount, ...]:
        """Count the images of each kind, in the order of `DIMENSIONS` and `kinds_order`."""
        counted: Counter[tuple[str, str]] = Counter()
        for kinds, images in self.kinds.items():
            counted.update(dict.fromkeys(zip(DIMENSIONS, kinds, strict=True), images))
        found = [KindCount(dimension=d, kind=kind, images=n) for (d, kind), n in counted.items()]
        places = {name: place for place, name in enumerate(DIMENSIONS)}
        found.sort(key=lambda each: (places[each.dimension], kinds_order(each.kind, each.images)))
        return tuple(found)


def pair_diffs(tally: DiffTally, paths: Sequence[Preprocess]) -> Iterator[PairDiff]:
    """Compare every candidate with the reference, in their order."""
    reference, *candidates = paths
    levels = 255 * sum(reference.normalise.std) / 3
    census = tally.census()
    for candidate, pair in zip(candidates, tally.of_pair, strict=True):
        # without rows: memory would grow with the images
        diffs = StageDiffs(reference.name, candidate.name, pair.diffs, (), levels, pair.spatial)
        equal = pair.compared > 0 and diffs.first_divergence is None
        idle = unshown(differing_stages(reference, candidate)) if equal else ""
        said = diff_sentence(diffs, pair.compared), idle, pair.grouped()
        yield PairDiff(
            reference=diffs.reference,
            candidate=diffs.candidate,
            state="measured",
            compared=pair.compared,
            sentence="; ".join(filter(None, said)),
            first=diffs.first_divergence,
            largest=diffs.largest_divergence,
            stages=pixel_stages(diffs),
            spatial=spatial_stages(diffs),
            planes=plane_stages(diffs.reference, diffs.candidate, pair.planes),
            kinds=tuple(_kind_drift(pair, each) for each in census),
            worst=pair.worst(),
        )


def _kind_drift(pair: PairTally, kind: KindCount) -> KindDrift:
    place = DIMENSIONS.index(kind.dimension)
    own = [totals for kinds, totals in pair.kinds.items() if kinds[place] == kind.kind]
    return KindDrift(
        **dict(kind),
        decode=sum((decode for decode, _ in own), DistanceFacts()),
        last=sum((last for _, last in own), DistanceFacts()),
    )


def diff_sentence(diffs: StageDiffs, compared: int) -> str:
    """Describe where the two paths first diverge, where most, and by how much."""
    if not compared:
        return "nothing to compare: no image was decoded by both"
    first, largest = diffs.first_divergence, diffs.largest_divergence
    if first is None:
        return f"equal at every stage on all {count(compared, 'image')}"
    begins = f"first diverges at {first} ({_size(diffs.diff(first, 'isolated'))})"
    if largest is None:
        return begins
    if largest == first:
        return f"{begins}, which is also the largest difference"
    return f"{begins}; the largest is at {largest} ({_size(diffs.diff(largest, 'isolated'))})"


def _size(diff: PixelDiff) -> str:
    sums = diff.sums
    images = count(diff.shape_mismatches, "image")
    mismatches = f"{images} {other_shape(diff.stage)}" if diff.shape_mismatches else ""
    if sums is None or not sums.max_abs:
        return mismatches
    unit = "units" if diff.stage == "normalise" else "levels"
    parts = [
        f"mean {plain(sums.mean_abs or 0.0, 2)}, max {plain(sums.max_abs, 0)} {unit}",
        f"{percent(sums.share_differing or 0.0)} of pixels",
        f"{sums.images - sums.identical} of {count(sums.images, 'image')}",
        mismatches,
    ]
    return ", ".join(filter(None, parts))
