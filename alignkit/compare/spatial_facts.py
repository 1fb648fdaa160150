"""`SpatialSums` → `SpatialFacts`: maps, spectra, displacement and mechanisms as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.displacement import Displacement, displacement
from alignkit.compare.named_mechanisms import interval, mechanisms, rounded
from alignkit.compare.spatial_sums import MAP_SIDE, DrawnImage, Map, Spatial, SpatialSums
from alignkit.preprocess import STAGES, StageName
from alignkit.record.spatial_facts import DisplacementFacts, LevelMap, SpatialFacts


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
