"""`DiffTally` → the parts of a `DiffRecord`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.compare.pixel_facts import pixel_stages
from alignkit.preprocess.image_kinds import DIMENSIONS
from alignkit.record import Coverage, CoverageDiff, NotDecoded
from alignkit.record.pixel_diff import DistanceFacts, ImageDrift, KindCount, KindDrift, PairDiff
from alignkit.studies.diff.images import ImageDistance, ImageFacts, PixelTotals
from alignkit.studies.diff.planes import plane_stages
from alignkit.studies.diff.tally import DiffTally, KindKey, PairTally
from alignkit.text.numbers import count, percent, plain

if TYPE_CHECKING:
    from alignkit.compare.pixel_diff import PixelDiff, StageDiffs


def coverage(tally: DiffTally) -> tuple[Coverage, ...]:
    """Count how the decodes of every path ended."""
    return tuple(
        Coverage(
            preprocess=path.name,
            split="eval",
            ok=of_path.outcomes["ok"],
            corrupt=of_path.outcomes["corrupt"],
            failed=of_path.outcomes["failed"],
            unsupported=of_path.outcomes["unsupported"],
            examples=tuple(
                NotDecoded.model_validate({"id": name, "outcome": outcome, "reason": reason})
                for name, outcome, reason in of_path.examples
            ),
        )
        for path, of_path in zip(tally.paths, tally.of_path, strict=True)
    )


def coverage_diffs(tally: DiffTally) -> tuple[CoverageDiff, ...]:
    """Count the images that only one path of a pair decodes."""
    reference, *candidates = tally.paths
    return tuple(
        CoverageDiff(
            reference=reference.name,
            candidate=candidate.name,
            images=tally.images,
            only_reference=pair.only_reference,
            only_candidate=pair.only_candidate,
            examples=tuple(pair.examples),
        )
        for candidate, pair in zip(candidates, tally.of_pair, strict=True)
    )


def census(tally: DiffTally) -> tuple[KindCount, ...]:
    """List the kinds of images, in the order of `DIMENSIONS`, most frequent first."""
    return tuple(
        KindCount(dimension=key[0], kind=key[1], images=images)
        for key, images in _ordered(tally.census())
    )


def pair_diffs(tally: DiffTally) -> tuple[PairDiff, ...]:
    """Compare every candidate with the reference."""
    return tuple(_pair(tally, number, pair) for number, pair in enumerate(tally.of_pair))


def _pair(tally: DiffTally, number: int, pair: PairTally) -> PairDiff:
    diffs = tally.stage_diffs(number)
    return PairDiff(
        reference=diffs.reference,
        candidate=diffs.candidate,
        state="measured",
        compared=pair.compared,
        sentence=diff_sentence(diffs, pair.compared),
        first=diffs.first_divergence,
        largest=diffs.largest_divergence,
        stages=pixel_stages(diffs),
        planes=plane_stages(diffs.reference, diffs.candidate, pair.planes),
        kinds=_kinds(tally, pair),
        worst=tuple(_image(*each) for each in pair.worst()),
    )


def _ordered(census: Counter[KindKey]) -> Sequence[tuple[KindKey, int]]:
    return sorted(
        census.items(), key=lambda each: (DIMENSIONS.index(each[0][0]), -each[1], each[0][1])
    )


def _kinds(tally: DiffTally, pair: PairTally) -> tuple[KindDrift, ...]:
    totals = pair.totals()
    found = []
    for key, images in _ordered(tally.census()):
        decode, last = totals.get(key, (PixelTotals(), PixelTotals()))
        dimension, kind = key
        found.append(
            KindDrift(
                dimension=dimension,
                kind=kind,
                images=images,
                decode=_distance(decode),
                last=_distance(last),
            )
        )
    return tuple(found)


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


def _image(facts: ImageFacts, distance: ImageDistance) -> ImageDrift:
    return ImageDrift(
        id=facts.id,
        mean_abs=distance.last.mean_abs or 0.0,
        max_abs=distance.last.max_abs,
        decode_mean_abs=distance.decode.mean_abs,
        ssim=distance.ssim,
        kinds=facts.kinds._asdict(),
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
    mismatches = (
        f"another shape on {count(diff.shape_mismatches, 'image')}" if diff.shape_mismatches else ""
    )
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
