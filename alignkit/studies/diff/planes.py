"""Stages compared in Y'CbCr beside RGB, and their entries in the record.

Decode drift is mostly chroma, and means over R, G and B mix it with luma. The planes are
cumulative: each path's own taps. ``colour`` is read in the reference's order of channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from alignkit.preprocess import STAGES
from alignkit.record import PlaneStage

if TYPE_CHECKING:
    from alignkit.compare.image_diff import ImageDiff
    from alignkit.compare.plane_sums import PlaneSums
    from alignkit.preprocess import Preprocess, StageName, Taps

Planes: TypeAlias = "dict[StageName, PlaneSums]"
"""Sums by stage; without stages where no pair of images had equal shapes."""


def planes_of(
    diff: ImageDiff,
    paths: tuple[Preprocess, Preprocess],
    encoded: bytes,
    taps: tuple[Taps, Taps],
    stages: Sequence[StageName],
) -> Planes:
    """Compare one image's planes; stages that ``diff`` found equal are not computed again."""
    from alignkit.compare.image_diff import with_decode
    from alignkit.compare.plane_sums import plane_sums, same_planes

    found: Planes = {}
    for stage in stages:
        counted = diff.sums[stage, "cumulative"]
        if counted is None:
            continue
        if counted.identical:
            found[stage] = same_planes(counted.pixels)
            continue
        left, right = (with_decode(each, encoded)[stage] for each in taps)
        if stage == "colour" and paths[0].colour.space == "bgr":
            left, right = left[..., ::-1], right[..., ::-1]
        found[stage] = plane_sums(left, right)
    return found


def added_planes(one: Planes, other: Planes) -> Planes:
    """Add the planes of two sets of images."""
    both = {stage: one[stage] + other[stage] for stage in one.keys() & other.keys()}
    return {**one, **other, **both}


def plane_stages(reference: str, candidate: str, planes: Planes) -> tuple[PlaneStage, ...]:
    """Return the record's entries, stage by stage and plane by plane."""
    from alignkit.compare.plane_sums import PLANES

    return tuple(
        PlaneStage.model_validate(
            {
                "reference": reference,
                "candidate": candidate,
                "stage": stage,
                "plane": plane,
                "images": sums.images,
                "mean_abs": sums.mean_abs(number),
                "max_abs": sums.max_abs[number] if sums.pixels else None,
                "bias": sums.bias(number),
                "p99": sums.percentile(number, 99),
                "p99_9": sums.percentile(number, 99.9),
                "psnr": sums.psnr(number),
            }
        )
        for stage, sums in sorted(planes.items(), key=lambda each: STAGES.index(each[0]))
        for number, plane in enumerate(PLANES)
    )
