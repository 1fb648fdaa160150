"""Comparison of the pixels of two paths: `Samples` → `StageDiffs` → the types of the record.

`CompareLots` reduces a lot of images to its differences, and has the stored form of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from typing import Any, TypeAlias

import cv2
import numpy as np
from pydantic import TypeAdapter

from alignkit.arrays import FloatArray
from alignkit.compare.displacement import Displacement, displacement
from alignkit.compare.image_diff import DECODED, ImageDiff, SpatialExtent, diff_taps
from alignkit.compare.named_mechanisms import interval, mechanisms, rounded
from alignkit.compare.pixel_diff import ImageRow, PixelDiff, StageDiffs, diffs_of, joined, row_of
from alignkit.compare.spatial_sums import (
    MAP_SIDE,
    DrawnImage,
    Map,
    Spatial,
    SpatialSums,
    joined_spatial,
)
from alignkit.errors import NothingCompared
from alignkit.isolation.worker import Begin, Encoded
from alignkit.lots import EachImageOnce, Lot, LotEngine, LotStore, lot_parts
from alignkit.lots.local import LocalEngine
from alignkit.preprocess import STAGES, Preprocess, StageName
from alignkit.preprocess.image_taps import (
    Started,
    result_or_reason,
    taps_of,
    warm_up,
)
from alignkit.record import CoverageDiff, PixelStage
from alignkit.record.blame_facts import DisplacementFacts, LevelMap, SpatialFacts
from alignkit.samples import Samples, choose
from alignkit.version import DIFFERENCE_LAYERS, code_version

ComparedLot: TypeAlias = tuple[tuple[PixelDiff, ...], list[ImageRow], Spatial]
"""Differences, a row for each image, and where the stages differ."""

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


def joined_lots(parts: Sequence[ComparedLot]) -> ComparedLot:
    """Add up parts in the order of their images."""
    return (
        joined(diffs for diffs, _, _ in parts),
        [row for _, rows, _ in parts for row in rows],
        joined_spatial(spatial for _, _, spatial in parts),
    )


@dataclass(frozen=True, slots=True)
class CompareLots(EachImageOnce):
    """The `LotWork` of a comparison of two paths."""

    work: CompareStages
    limits = None

    @property
    def paths(self) -> tuple[Preprocess, Preprocess]:
        """See `LotWork.paths`."""
        return self.work.paths

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        ssim, drawn = self.work.ssim, self.work.drawn
        return {
            "work": "comparison",
            # of a path's name nothing depends
            "paths": [[each.identity(), each.versions()] for each in self.paths],
            "options": [ssim, None if drawn is None else sorted(drawn)],
            "libraries": [metadata.version(name) for name in ("numpy", "pillow")],
            "code": code_version(DIFFERENCE_LAYERS),
        }

    def images(self, result: ComparedLot) -> int:
        """See `LotWork.images`."""
        return len(result[1])

    def empty(self, lot: Lot) -> ComparedLot:  # noqa: ARG002 - rows know their images
        """See `LotWork.empty`."""
        return joined_lots(())

    def add(self, part: ComparedLot, results: Sequence[ComparedLot]) -> ComparedLot:
        """See `LotWork.add`."""
        return joined_lots((part, joined_lots(results)))

    def text(self, part: ComparedLot) -> str:
        """See `LotWork.text`."""
        return _stored().dump_json(part).decode()

    def parsed(self, text: str) -> ComparedLot:
        """See `LotWork.parsed`."""
        return _stored().validate_json(text)


@cache
def _stored() -> TypeAdapter[ComparedLot]:
    return TypeAdapter(ComparedLot)


def compare_lots(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    *,
    ssim: bool = True,
    spatial: bool = False,
) -> CompareLots:
    """Return the work of `compare_preprocess`."""
    drawn = drawn_images(samples) if spatial else None
    stages: tuple[StageName, ...] = ("colour",) if ssim else ()
    return CompareLots(CompareStages((reference, candidate), stages, drawn))


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
    lots = compare_lots(reference, candidate, samples, ssim=ssim, spatial=spatial)
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


def spatial_facts(
    reference: str, candidate: str, spatial: Spatial, images: Mapping[StageName, int]
) -> tuple[SpatialFacts, ...]:
    """Convert every stage that differs, in their order; ``images`` are those compared at it."""
    return tuple(
        _stage_facts(reference, candidate, stage, spatial[stage], images[stage])
        for stage in STAGES
        if stage in spatial
    )


def _stage_facts(
    reference: str, candidate: str, stage: StageName, sums: SpatialSums, images: int
) -> SpatialFacts:
    moved = displacement([each.displacement for each in sums.drawn if each.displacement])
    power = [each.power for each in sums.drawn if each.power is not None]
    image, gap, _ = np.mean(power, axis=0) if power else np.zeros((3, 0))
    found = mechanisms(stage, sums.drawn, moved)
    folds = _mean_folds(sums.drawn)
    planes = [_level_map(plane) for plane in folds[16]] if folds else [None, None]
    return SpatialFacts(
        reference=reference,
        candidate=candidate,
        stage=stage,
        images=images,
        drawn=len(sums.drawn),
        map=_level_map(_joined_maps(sums.maps) / images),
        luma=planes[0],
        chroma=planes[1],
        power=tuple(map(rounded, gap)),
        image_power=tuple(map(rounded, image)),
        displacement=_displacement_facts(moved) if moved else None,
        mechanisms=found.mechanisms,
        before=found.before,
        after=found.after,
    )


def _joined_maps(maps: dict[Map, FloatArray]) -> FloatArray:
    """Add the maps of images of different sizes, as fractions of height and width."""
    if len(maps) == 1:
        return next(iter(maps.values()))
    # linear in the cells: small images have fewer of them
    return np.asarray(
        np.sum([cv2.resize(each, (MAP_SIDE, MAP_SIDE)) for each in maps.values()], axis=0)
    )


def _level_map(levels: FloatArray) -> LevelMap:
    greatest = float(levels.max())
    steps = np.rint(levels * (255 / greatest if greatest else 0)).astype(np.uint8)
    rows, columns = levels.shape
    return LevelMap(
        rows=rows, columns=columns, greatest=rounded(greatest), cells=steps.tobytes().hex()
    )


def _mean_folds(drawn: Sequence[DrawnImage]) -> dict[int, FloatArray]:
    folds = [each.folds for each in drawn if each.folds]
    periods = folds[0] if folds else ()
    return {period: np.mean([each[period] for each in folds], axis=0) for period in periods}


def _displacement_facts(found: Displacement) -> DisplacementFacts:
    (width, height), (right, down) = found.scale, found.shift
    return DisplacementFacts(
        scale_x=interval(*width, found.images),
        scale_y=interval(*height, found.images),
        shift_x=interval(*right, found.images),
        shift_y=interval(*down, found.images),
        share=round(found.share, 4),
    )


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
    return CoverageDiff.of(diffs.reference, diffs.candidate, rows)
