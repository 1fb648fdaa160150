"""Comparison of the pixels of two paths: `Samples` → `StageDiffs` → the types of the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from alignkit.compare.compare_lots import ComparedLot, CompareLots
from alignkit.compare.coverage_tally import CoverageTally
from alignkit.compare.image_diff import DECODED, ImageDiff, SpatialExtent, diff_taps
from alignkit.compare.pixel_diff import ImageRow, PixelDiff, StageDiffs, diffs_of, joined, row_of
from alignkit.compare.spatial_facts import spatial_facts
from alignkit.compare.spatial_sums import Spatial, joined_spatial
from alignkit.errors import NothingCompared
from alignkit.isolation.worker import Begin, Encoded
from alignkit.lots import LotEngine, LotStore, lot_parts
from alignkit.lots.local import LocalEngine
from alignkit.preprocess import Preprocess, StageName
from alignkit.preprocess.image_taps import (
    Started,
    result_or_reason,
    taps_of,
    warm_up,
)
from alignkit.record import CoverageDiff, PixelStage, SpatialFacts
from alignkit.samples import Samples, choose

_LEVELS = (1, 2, 4, 8)
"""Grey levels of which the record keeps the share of greater differences."""

_DRAWN = 24
"""Images of which spectrum, displacement and mechanisms are computed."""


@dataclass(frozen=True, slots=True)
class CompareStages:
    """`Work` of `alignkit.isolation` that compares two paths on each image."""

    paths: tuple[Preprocess, Preprocess]
    ssim: tuple[StageName, ...]
    drawn: frozenset[str] | None = None
    """Ids of the images whose differences are located in full, the others' by their map alone;
    ``None`` locates none."""

    def warm_up(self, begin: Begin) -> None:
        """Run both paths once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> ComparedLot:
        """Add up the differences of some images, with a row for each."""
        diffs, rows = [], []
        for place, image in enumerate(images):
            diff, digest = self._image(image, partial(begin, place))
            diffs.append(diff)
            rows.append(row_of(image.id, diff, digest))
        return joined(map(diffs_of, diffs)), rows, joined_spatial(each.spatial for each in diffs)

    def _image(self, image: Encoded, begin: Started) -> tuple[ImageDiff, str]:
        reference, candidate = self.paths
        left = taps_of(reference, image, 0, begin)
        right = taps_of(candidate, image, 1, begin, reference.shared_taps(left, candidate))
        spatial = extent_of(image.id, self.drawn)
        diff = result_or_reason(
            lambda: diff_taps(*self.paths, left, right, ssim=self.ssim, spatial=spatial)
        )
        if isinstance(diff, str):
            diff = ImageDiff(left.decoded.outcome, "failed")
        return diff, left.decoded.digest


def compare_preprocess(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    *,
    ssim: bool = True,
    spatial: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: LotEngine | None = None,
    store: LotStore | None = None,
) -> StageDiffs:
    """Compare every stage of two paths over all samples; results do not depend on ``threads``.

    ``threads`` are worker processes, by default one for each CPU this process may use. ``ssim`` is
    measured on the pixels that the normalise stage receives. ``spatial`` locates the differences.
    ``progress`` is called with (images done, images). ``engine`` works on lots of images, which
    ``store`` keeps; by default they run here. Memory is constant except for one `ImageRow` per
    image. Raise `NothingCompared` if there is no image that both paths decode.
    """
    drawn = drawn_images(samples) if spatial else None
    work = CompareStages((reference, candidate), ("colour",) if ssim else (), drawn)
    names = None if drawn is None else tuple(sorted(drawn))
    lots = CompareLots(work, work.paths, (work.ssim, names))
    diffs, rows, places = joined(()), list[ImageRow](), Spatial()
    done = 0

    def advance(images: int) -> None:
        nonlocal done
        done += images
        if progress:
            progress(done, len(samples))

    engine = engine or LocalEngine(threads)
    for part, some, located in lot_parts(lots, samples, engine, store=store, advance=advance):
        diffs = joined((diffs, part))  # as they arrive: all parts would not fit into memory
        places = joined_spatial((places, located))
        rows += some
    levels = 255 * sum(reference.normalise.std) / 3
    compared = StageDiffs(reference.name, candidate.name, diffs, tuple(rows), levels, places)
    if not compared.compared:  # zeros over no image would look like equal paths
        raise NothingCompared(
            f"none of {len(samples)} images was decoded by both {reference.name!r} and "
            f"{candidate.name!r}; check that the folder holds images that both decoders support"
        )
    return compared


def drawn_images(samples: Samples) -> frozenset[str]:
    """Draw the images whose differences are located in full."""
    return frozenset(choose(samples.ids, _DRAWN, seed=0))


def extent_of(name: str, drawn: frozenset[str] | None) -> SpatialExtent:
    """Return how much is located of an image."""
    if drawn is None:
        return "none"
    return "drawn" if name in drawn else "map"


def spatial_stages(diffs: StageDiffs) -> tuple[SpatialFacts, ...]:
    """Convert every stage that differs on the same input and was located."""
    images = {diff.stage: diff.images for diff in diffs.diffs if diff.mode == "isolated"}
    return spatial_facts(diffs.reference, diffs.candidate, diffs.spatial, images)


def pixel_stages(diffs: StageDiffs) -> tuple[PixelStage, ...]:
    """Convert every stage in both modes."""
    return tuple(
        pixel_stage(diff, reference=diffs.reference, candidate=diffs.candidate)
        for diff in diffs.diffs
    )


def pixel_stage(diff: PixelDiff, *, reference: str, candidate: str) -> PixelStage:
    """Convert one stage; a quantity that is not finite or not defined is ``None``."""
    facts = {
        "reference": reference,
        "candidate": candidate,
        "stage": diff.stage,
        "mode": diff.mode,
        "shape_mismatches": diff.shape_mismatches,
    }
    sums = diff.sums
    if sums is None or not sums.images:
        mismatch = "every image has another shape"
        reason = mismatch if diff.shape_mismatches else "no image compared"
        return PixelStage(**facts, images=0, identical=0, reason=reason)
    facts |= {"images": sums.images, "identical": sums.identical, "non_finite": sums.non_finite}
    broken = f"{sums.non_finite} values are NaN or infinite" if sums.non_finite else ""
    if not sums.values:
        return PixelStage(**facts, reason=broken)
    return PixelStage(
        **facts,
        max_abs=sums.max_abs,
        mean_abs=sums.mean_abs,
        bias=sums.bias,
        share_differing=sums.share_differing,
        share_above={str(level): sums.share_above(level) or 0.0 for level in _LEVELS},
        p99=sums.percentile(99),
        p99_9=sums.percentile(99.9),
        psnr=diff.psnr,
        ssim=sums.ssim,
        reason=broken,
    )


def coverage_diff(diffs: StageDiffs) -> CoverageDiff:
    """Count the images that only one of the two paths decodes."""
    rows = ((row.id, row.reference in DECODED, row.candidate in DECODED) for row in diffs.rows)
    return CoverageTally.of(rows).diff(diffs.reference, diffs.candidate)
