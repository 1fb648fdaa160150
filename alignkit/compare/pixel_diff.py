"""`PixelDiff`: the difference of one stage of two preprocessing paths, over many images.

There are two modes. *Cumulative* compares the two paths' own taps. *Isolated* compares the
reference's tap with the output of the candidate's stage on the reference's input: it names the
stage to blame. The input of ``decode`` is the same bytes, so its two modes are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from operator import add
from typing import Any

from alignkit.compare.image_diff import DECODED, ComparisonMode, ImageDiff
from alignkit.compare.pixel_sums import StoredSums
from alignkit.compare.spatial_sums import Spatial
from alignkit.decoders import DecodeOutcome
from alignkit.preprocess import STAGES, StageName
from alignkit.record import Count
from alignkit.record.stored import STRICT

COMPARISON_MODES: tuple[ComparisonMode, ...] = ("isolated", "cumulative")


@dataclass(frozen=True, slots=True)
class PixelDiff:
    """One stage in one mode, over the images that both paths decoded. It is stored as it is."""

    __pydantic_config__ = STRICT

    stage: StageName
    mode: ComparisonMode
    sums: StoredSums | None = None
    """In grey levels; for ``normalise`` in normalised units. ``None`` if no image was compared."""
    shape_mismatches: Count = 0
    """Images whose two arrays differ in shape, or whose candidate cannot cut its crop out of the
    reference's pixels: they are not compared, but certainly different."""

    def __reduce__(self) -> tuple[Any, ...]:
        # the default of dataclasses with slots takes ten times as long to read
        return PixelDiff, (self.stage, self.mode, self.sums, self.shape_mismatches)

    def __add__(self, other: PixelDiff) -> PixelDiff:
        """Join the diffs of two sets of images."""
        sums = self.sums + other.sums if self.sums and other.sums else self.sums or other.sums
        mismatches = self.shape_mismatches + other.shape_mismatches
        return PixelDiff(self.stage, self.mode, sums, mismatches)

    @property
    def images(self) -> int:
        """Return the number of images compared."""
        return self.sums.images if self.sums else 0

    @property
    def psnr(self) -> float | None:
        """Compute the PSNR in dB of 255; ``None`` without a difference, and for ``normalise``."""
        # a normalised tensor has no peak
        return self.sums.psnr if self.sums and self.stage != "normalise" else None

    @property
    def differs(self) -> bool:
        """Tell whether any image differs."""
        return bool(self.shape_mismatches or (self.sums and self.sums.identical < self.sums.images))


@dataclass(frozen=True, slots=True)
class ImageRow:
    """Summary of one image, enough to find the worst."""

    id: str
    reference: DecodeOutcome
    candidate: DecodeOutcome
    """Outcomes of the two decodes."""
    max_abs: tuple[float | None, ...]
    """Cumulative, one for each of `STAGES`; ``None`` where the stage could not be compared."""
    mean_abs: tuple[float | None, ...]
    ssim: float | None
    """SSIM of the pixels that the normalise stage receives."""
    digest: str = ""
    """`alignkit.decoders.Decoded.digest` of the reference's decode."""

    @property
    def compared(self) -> bool:
        """Tell whether both paths decoded the image."""
        return self.reference in DECODED and self.candidate in DECODED


@dataclass(frozen=True, slots=True)
class StageDiffs:
    """Differences of two paths at every stage in both modes."""

    reference: str
    candidate: str
    """Names of the paths."""
    diffs: tuple[PixelDiff, ...]
    """In the order of `STAGES`, isolated before cumulative."""
    rows: tuple[ImageRow, ...]
    """In the order of the samples, including those that a path could not decode."""
    levels_per_unit: float
    """Grey levels in one unit of the reference's normalised tensor, mean over R, G, B; used only to
    rank ``normalise`` among the other stages."""
    spatial: Spatial = field(default_factory=dict)
    """Where the stages differ on the same input; empty unless it was asked for."""

    def diff(self, stage: StageName, mode: ComparisonMode = "cumulative") -> PixelDiff:
        """Return the diff of one stage."""
        return self.diffs[2 * STAGES.index(stage) + COMPARISON_MODES.index(mode)]

    @property
    def compared(self) -> int:
        """Count the images that both paths decoded."""
        return sum(row.compared for row in self.rows)

    @property
    def first_divergence(self) -> StageName | None:
        """Find the first stage whose isolated diff is not zero; ``None`` if there is none.

        Coverage does not count: ``rows`` has the images that only one path decoded.
        """
        return next((diff.stage for diff in self._isolated if diff.differs), None)

    @property
    def largest_divergence(self) -> StageName | None:
        """Find the stage of the greatest isolated mean absolute difference; ``None`` if all are 0.

        Only compared images count; ``first_divergence`` and ``shape_mismatches`` find a stage that
        changes the shape.
        """
        means = {}
        for diff in self._isolated:
            mean = (diff.sums.mean_abs if diff.sums else None) or 0.0
            means[diff.stage] = mean * self.levels_per_unit if diff.stage == "normalise" else mean
        stage = max(means, key=means.__getitem__)
        return stage if means[stage] > 0 else None

    def worst(self, count: int) -> tuple[ImageRow, ...]:
        """List the images whose pixels differ most on average after ``colour``, worst first."""
        index = STAGES.index("colour")
        compared = [row for row in self.rows if row.mean_abs[index]]
        compared.sort(key=lambda row: row.mean_abs[index] or 0.0, reverse=True)
        return tuple(compared[:count])

    @property
    def digests(self) -> tuple[str, ...]:
        """List those of the rows, for `alignkit.samples.copies_among`."""
        return tuple(row.digest for row in self.rows)

    @property
    def _isolated(self) -> tuple[PixelDiff, ...]:
        return tuple(diff for diff in self.diffs if diff.mode == "isolated")


def row_of(name: str, image: ImageDiff, digest: str) -> ImageRow:
    """Summarise an image as a row; ``digest`` is that of the reference's decode."""
    sums = [image.sums.get((stage, "cumulative")) for stage in STAGES]
    return ImageRow(
        id=name,
        reference=image.reference,
        candidate=image.candidate,
        max_abs=tuple(each.max_abs if each else None for each in sums),
        mean_abs=tuple(each.mean_abs if each else None for each in sums),
        ssim=next((each.ssim for each in sums if each and each.ssim is not None), None),
        digest=digest,
    )


def diffs_of(image: ImageDiff) -> tuple[PixelDiff, ...]:
    """Return the diffs of one image alone."""
    return tuple(
        PixelDiff(stage, mode, sums, shape_mismatches=int(sums is None))
        for (stage, mode), sums in image.sums.items()
    )


def joined(parts: Iterable[tuple[PixelDiff, ...]]) -> tuple[PixelDiff, ...]:
    """Add up diffs stage by stage, in the order given; empty ones are left out.

    Stages that return their input share its sums, which are added up once.
    """
    some = [part for part in parts if part]
    added: dict[tuple[tuple[int, int], ...], PixelDiff] = {}
    totals = []
    for place, (stage, mode) in enumerate(product(STAGES, COMPARISON_MODES)):
        column = [part[place] for part in some]
        key = tuple((id(each.sums), each.shape_mismatches) for each in column)
        if key not in added:
            added[key] = reduce(add, column) if column else PixelDiff(stage, mode)
        total = added[key]
        totals.append(PixelDiff(stage, mode, total.sums, total.shape_mismatches))
    return tuple(totals)
