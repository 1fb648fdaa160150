"""Comparison of two paths over many images: `Samples` → `StageDiffs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from alignkit.compare.image_diff import ImageDiff, diff_taps
from alignkit.compare.pixel_diff import ImageRow, PixelDiff, StageDiffs, diffs_of, joined, row_of
from alignkit.errors import NothingCompared
from alignkit.preprocess.image_taps import (
    Started,
    encoded_images,
    result_or_reason,
    run_isolated,
    taps_of,
    warm_up,
)

if TYPE_CHECKING:
    from alignkit.isolation.worker import Begin, Encoded
    from alignkit.preprocess import Preprocess, StageName
    from alignkit.samples import Samples

_Part: TypeAlias = tuple[tuple[PixelDiff, ...], list[ImageRow]]


@dataclass(frozen=True, slots=True)
class CompareStages:
    """`Work` of `alignkit.isolation` that compares two paths on each image."""

    paths: tuple[Preprocess, Preprocess]
    ssim: tuple[StageName, ...]

    def warm_up(self, begin: Begin) -> None:
        """Run both paths once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> _Part:
        """Add up the differences of some images, with a row for each."""
        diffs = [self._image(image, partial(begin, place)) for place, image in enumerate(images)]
        rows = [row_of(image.id, diff) for image, diff in zip(images, diffs, strict=True)]
        return joined(map(diffs_of, diffs)), rows

    def _image(self, image: Encoded, begin: Started) -> ImageDiff:
        left, right = (taps_of(path, image, n, begin) for n, path in enumerate(self.paths))
        diff = result_or_reason(
            lambda: diff_taps(*self.paths, image.data, left, right, ssim=self.ssim)
        )
        return ImageDiff(left.decoded.outcome, "failed") if isinstance(diff, str) else diff


def compare_preprocess(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    *,
    ssim: bool = True,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StageDiffs:
    """Compare every stage of two paths over all samples; results do not depend on ``threads``.

    ``threads`` are worker processes, by default one for each CPU this process may use. ``ssim`` is
    measured on the pixels that the normalise stage receives. ``progress`` is called with (images
    done, images). Memory is constant except for one `ImageRow` per image. Raise `NothingCompared`
    if there is no image that both paths decode.
    """
    work = CompareStages((reference, candidate), ("colour",) if ssim else ())
    diffs, rows = joined(()), list[ImageRow]()
    parts = run_isolated(work, work.paths, encoded_images(samples), processes=threads)
    for part, some in parts:
        diffs = joined((diffs, part))
        rows += some
        if progress:
            progress(len(rows), len(samples))
    levels = 255 * sum(reference.normalise.std) / 3
    compared = StageDiffs(reference.name, candidate.name, diffs, tuple(rows), levels)
    if not compared.compared:
        raise NothingCompared(
            f"none of {len(samples)} images was decoded by both {reference.name!r} and "
            f"{candidate.name!r}; check that the folder holds images that both decoders support"
        )
    return compared
