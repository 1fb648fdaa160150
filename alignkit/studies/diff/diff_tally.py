"""`DiffTally`: the sums of a lot or of all lots, in constant memory → a `DiffRecord`."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args

from alignkit.compare.compare_pixels import pixel_stages, spatial_stages
from alignkit.compare.coverage_tally import CoverageTally
from alignkit.compare.image_diff import DECODED
from alignkit.compare.image_groups import image_groups
from alignkit.compare.pixel_diff import PixelDiff, StageDiffs, joined
from alignkit.compare.plane_sums import Planes, added_planes, plane_stages
from alignkit.compare.spatial_sums import Spatial, joined_spatial
from alignkit.compare.stored_fields import PAIRS
from alignkit.decoders import DecodeOutcome
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_kinds import DIMENSIONS, ImageKinds, kinds_order
from alignkit.preprocess.stage_mixtures import differing_stages
from alignkit.record import Count, Coverage, CoverageDiff, NotDecoded
from alignkit.record.diff_document import DistanceFacts, ImageDrift, KindCount, KindDrift, PairDiff
from alignkit.record.stored import STRICT
from alignkit.studies.diff.diff_images import DiffPart, ImageDistance, ImageFacts, PixelTotals
from alignkit.text.diff_words import other_shape
from alignkit.text.numbers import count, percent, plain
from alignkit.text.stage_changes import unshown

_EXAMPLES = 50
"""Images named for one path's coverage."""
_RANKED = 20
"""Worst images kept for each candidate."""

KindKey: TypeAlias = tuple[str, str]
"""Dimension and kind."""
TwoTotals: TypeAlias = tuple[PixelTotals, PixelTotals]
"""Sums at decode, and at the input of ``normalise``."""
_NONE: TwoTotals = (PixelTotals(), PixelTotals())


class WorstImage(NamedTuple):
    """One of the images that differ most."""

    id: str
    kinds: ImageKinds
    distance: ImageDistance


@dataclass(slots=True)
class PathTally:
    """Outcomes of one path's decodes. They are stored as they are."""

    __pydantic_config__ = STRICT

    outcomes: Counter[str] = field(default_factory=Counter)
    examples: list[NotDecoded] = field(default_factory=list)


@dataclass(slots=True)
class PairTally:
    """Sums of one candidate against the reference. They are stored as they are."""

    __pydantic_config__ = STRICT

    diffs: tuple[PixelDiff, ...] = field(default_factory=lambda: joined(()))
    planes: Planes = field(default_factory=dict)
    spatial: Spatial = field(default_factory=dict)
    compared: Count = 0
    coverage: CoverageTally = field(default_factory=CoverageTally)
    # by all dimensions at once: one addition an image, whatever the number of dimensions
    kinds: Annotated[dict[ImageKinds, TwoTotals], PAIRS] = field(default_factory=dict)
    begun: Counter[str] = field(default_factory=Counter)
    """Stage → images that it is the first to change."""
    means: Annotated[Counter[float], PAIRS] = field(default_factory=Counter)
    """Mean difference at the input of ``normalise``, in three digits → images."""
    ranked: list[tuple[float, int, WorstImage]] = field(default_factory=list)
    """A heap: (mean difference, minus the image's place, …)."""

    def totals(self) -> dict[KindKey, TwoTotals]:
        """Return the sums of ``kinds`` by dimension and kind."""
        found: dict[KindKey, TwoTotals] = {}
        for kinds, totals in self.kinds.items():
            for key in zip(DIMENSIONS, kinds, strict=True):
                _add(found, key, totals)
        return found

    def grouped(self) -> str:
        """Say that a few images differ far more than the others; empty if none does."""
        groups = image_groups(self.means)
        return groups.words(self.worst()[0].id, "levels before normalisation") if groups else ""

    def worst(self) -> list[WorstImage]:
        """Return the worst images, greatest mean difference first; ties in the images' order."""
        return [image for *_, image in sorted(self.ranked, reverse=True)]

    def join(self, later: PairTally) -> None:
        """Add the sums of images that come later."""
        self.diffs = joined((self.diffs, later.diffs))
        self.planes = added_planes(self.planes, later.planes)
        self.spatial = joined_spatial((self.spatial, later.spatial))
        self.compared += later.compared
        self.coverage.join(later.coverage)
        for kinds, totals in later.kinds.items():
            _add(self.kinds, kinds, totals)
        self.begun.update(later.begun)
        self.means.update(later.means)
        for entry in later.ranked:
            self.rank(*entry)

    def rank(self, mean: float, place: int, image: WorstImage) -> None:
        """Keep an image if it is one of the worst; ``place`` is minus its place."""
        # of equal means the first image is kept; places differ, so that images are never compared
        if len(self.ranked) < _RANKED:
            heapq.heappush(self.ranked, (mean, place, image))
        else:
            heapq.heappushpop(self.ranked, (mean, place, image))


StoredTally: TypeAlias = tuple[
    Count, Count, Annotated[Counter[ImageKinds], PAIRS], list[str], list[PathTally], list[PairTally]
]
"""The fields of a `DiffTally` after its paths."""


@dataclass(slots=True)
class DiffTally:
    """Sums and counts of some paths on some images."""

    paths: tuple[Preprocess, ...]
    """Reference first."""
    begin: int = 0
    """Place of the first image among all."""
    images: int = 0
    kinds: Counter[ImageKinds] = field(default_factory=Counter)
    digests: list[str] = field(default_factory=list)
    """Of each image; see `ImageFacts.digest`."""
    of_path: list[PathTally] = field(default_factory=list)
    of_pair: list[PairTally] = field(default_factory=list)
    """In the order of the candidates."""

    def __post_init__(self) -> None:
        self.of_path = self.of_path or [PathTally() for _ in self.paths]
        self.of_pair = self.of_pair or [PairTally() for _ in self.paths[1:]]

    def add(self, part: DiffPart) -> None:
        """Add some more images; parts must come in the order of the images."""
        of_candidates = zip(self.of_pair, part.diffs, part.planes, part.spatial, strict=True)
        for pair, diffs, planes, spatial in of_candidates:
            pair.diffs = joined((pair.diffs, diffs))
            pair.planes = added_planes(pair.planes, planes)
            pair.spatial = joined_spatial((pair.spatial, spatial))
        for facts in part.facts:
            self._add_image(facts)
            self.images += 1

    def join(self, later: DiffTally) -> None:
        """Add the tally of images that come later."""
        self.images += later.images
        self.kinds.update(later.kinds)
        self.digests += later.digests
        for path, more in zip(self.of_path, later.of_path, strict=True):
            path.outcomes.update(more.outcomes)
            path.examples += more.examples[: _EXAMPLES - len(path.examples)]
        for pair, others in zip(self.of_pair, later.of_pair, strict=True):
            pair.join(others)

    def census(self) -> list[tuple[KindKey, int]]:
        """Count the images of each kind, in the order of `DIMENSIONS` and `kinds_order`."""
        counted: Counter[KindKey] = Counter()
        for kinds, images in self.kinds.items():
            for key in zip(DIMENSIONS, kinds, strict=True):
                counted[key] += images
        return sorted(
            counted.items(),
            key=lambda each: (DIMENSIONS.index(each[0][0]), kinds_order(each[0][1], each[1])),
        )

    def _add_image(self, facts: ImageFacts) -> None:
        self.kinds[facts.kinds] += 1
        self.digests.append(facts.digest)
        for path, (outcome, reason) in zip(self.of_path, facts.outcomes, strict=True):
            path.outcomes[outcome] += 1
            if outcome != "ok" and len(path.examples) < _EXAMPLES:
                path.examples.append(NotDecoded(id=facts.id, outcome=outcome, reason=reason))
        decoded = [outcome in DECODED for outcome, _ in facts.outcomes]
        for number, (pair, distance) in enumerate(zip(self.of_pair, facts.distances, strict=True)):
            reference, candidate = decoded[0], decoded[1 + number]
            pair.compared += reference and candidate
            pair.coverage.add(facts.id, reference, candidate)
            if distance:
                _add_distance(pair, facts, distance, place=self.begin + self.images)


def _add(sums: dict[Any, TwoTotals], key: Hashable, more: TwoTotals) -> None:
    decode, last = sums.get(key, _NONE)
    sums[key] = decode.plus(more[0]), last.plus(more[1])


def _add_distance(
    pair: PairTally, facts: ImageFacts, distance: ImageDistance, *, place: int
) -> None:
    _add(pair.kinds, facts.kinds, (distance.decode, distance.last))
    if distance.begun:
        pair.begun[distance.begun] += 1
    mean = distance.last.mean_abs
    if mean is not None:
        pair.means[float(f"{mean:.3g}")] += 1
    if mean:
        pair.rank(mean, -place, WorstImage(facts.id, facts.kinds, distance))


def coverage(tally: DiffTally) -> tuple[Coverage, ...]:
    """Count how the decodes of every path ended."""
    return tuple(
        Coverage(
            preprocess=path.name,
            split="eval",
            **{outcome: of_path.outcomes[outcome] for outcome in get_args(DecodeOutcome)},
            examples=tuple(of_path.examples),
        )
        for path, of_path in zip(tally.paths, tally.of_path, strict=True)
    )


def coverage_diffs(tally: DiffTally) -> tuple[CoverageDiff, ...]:
    """Count the images that only one path of a pair decodes."""
    reference, *candidates = tally.paths
    return tuple(
        pair.coverage.diff(reference.name, candidate.name)
        for candidate, pair in zip(candidates, tally.of_pair, strict=True)
    )


def census(tally: DiffTally) -> tuple[KindCount, ...]:
    """List the kinds of images in the order of `DiffTally.census`."""
    return tuple(
        KindCount(dimension=dimension, kind=kind, images=images)
        for (dimension, kind), images in tally.census()
    )


def pair_diffs(tally: DiffTally) -> Iterator[PairDiff]:
    """Compare every candidate with the reference, in their order."""
    reference, *candidates = tally.paths
    levels = 255 * sum(reference.normalise.std) / 3
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
            kinds=_kinds(tally, pair),
            worst=tuple(
                ImageDrift(
                    id=image.id,
                    mean_abs=image.distance.last.mean_abs or 0.0,
                    max_abs=image.distance.last.max_abs,
                    decode_mean_abs=image.distance.decode.mean_abs,
                    ssim=image.distance.ssim,
                    kinds=image.kinds._asdict(),
                )
                for image in pair.worst()
            ),
        )


def _kinds(tally: DiffTally, pair: PairTally) -> tuple[KindDrift, ...]:
    totals = pair.totals()
    return tuple(
        KindDrift(
            dimension=key[0],
            kind=key[1],
            images=images,
            decode=_distance(totals.get(key, _NONE)[0]),
            last=_distance(totals.get(key, _NONE)[1]),
        )
        for key, images in tally.census()
    )


def _distance(totals: PixelTotals) -> DistanceFacts:
    return DistanceFacts(
        images=totals.images,
        identical=totals.identical,
        shape_mismatches=totals.shape_mismatches,
        mean_abs=totals.mean_abs,
        max_abs=totals.max_abs if totals.values else None,
        share_differing=totals.share_differing,
        psnr=totals.psnr,
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
