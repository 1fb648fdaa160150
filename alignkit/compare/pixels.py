"""Comparison of two paths over many images, in threads: `Samples` → `StageDiffs`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from alignkit.compare.image_diff import diff_image
from alignkit.compare.pixel_diff import ImageRow, PixelDiff, StageDiffs, diffs_of, joined, row_of
from alignkit.errors import NothingCompared
from alignkit.torch_settings import usable_cpus

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess, StageName
    from alignkit.samples import Samples

_Part: TypeAlias = tuple[tuple[PixelDiff, ...], list[ImageRow]]
_Compare: TypeAlias = Callable[[range], _Part]

_IMAGES_A_TASK = 8  # fixed, so that float sums are added in one order for any number of threads


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

    ``threads`` are by default all CPUs this process may use. ``ssim`` is measured on the pixels
    that the normalise stage receives. ``progress`` is called with (images done, images). Memory is
    constant except for one `ImageRow` per image. Raise `NothingCompared` if there is no image that
    both paths decode.
    """
    of: tuple[StageName, ...] = ("colour",) if ssim else ()

    def compare(indices: range) -> _Part:
        images = [diff_image(reference, candidate, samples.read(each), ssim=of) for each in indices]
        rows = [
            row_of(samples.ids[each], image) for each, image in zip(indices, images, strict=True)
        ]
        return joined(map(diffs_of, images)), rows

    diffs, rows = joined(()), list[ImageRow]()
    for part, some in _in_order(compare, len(samples), threads or usable_cpus()):
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


def _in_order(compare: _Compare, total: int, threads: int) -> Iterator[_Part]:
    """Yield parts in the order of the samples; few run at a time, so that memory is bounded."""
    waiting: deque[Future[_Part]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for start in range(0, total, _IMAGES_A_TASK):
                indices = range(start, min(start + _IMAGES_A_TASK, total))
                waiting.append(pool.submit(compare, indices))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # after an error, or when the caller stops early
            for future in waiting:
                future.cancel()
