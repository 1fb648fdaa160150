"""What a comparison found, in one sentence a pair of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.text.numbers import count, percent, plain

if TYPE_CHECKING:
    from alignkit.compare.pixel_diff import PixelDiff, StageDiffs


def diff_sentence(diffs: StageDiffs, compared: int) -> str:
    """Where the two paths first diverge, where most, and by how much."""
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
