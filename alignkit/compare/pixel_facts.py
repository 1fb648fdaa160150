"""Pixel comparisons in the types of the record: `StageDiffs` → `PixelStage`, `CoverageDiff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.record import CoverageDiff, PixelStage

if TYPE_CHECKING:
    from alignkit.compare.pixel_diff import PixelDiff, StageDiffs

_LEVELS = (1, 2, 4, 8)
"""Grey levels of which the record keeps the share of greater differences."""
_EXAMPLES = 20


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
        other = bool(diff.shape_mismatches)
        reason = "every image has another shape" if other else "no image compared"
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
        psnr=None if diff.stage == "normalise" else sums.psnr(),
        ssim=sums.ssim,
        reason=broken,
    )


def coverage_diff(diffs: StageDiffs) -> CoverageDiff:
    """Count the images that only one of the two paths decodes."""
    from alignkit.compare.image_diff import DECODED

    split = [(row.id, row.reference in DECODED, row.candidate in DECODED) for row in diffs.rows]
    examples = [name for name, reference, candidate in split if reference != candidate]
    return CoverageDiff(
        reference=diffs.reference,
        candidate=diffs.candidate,
        images=len(split),
        only_reference=sum(reference and not candidate for _, reference, candidate in split),
        only_candidate=sum(candidate and not reference for _, reference, candidate in split),
        examples=tuple(examples[:_EXAMPLES]),
    )
