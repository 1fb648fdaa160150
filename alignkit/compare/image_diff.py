"""`ImageDiff`: one image through two preprocessing paths, compared at every stage.

Every stage of either path runs once. The isolated mode runs a stage again only where the result is
not known: if the candidate's own input of a stage was measured to equal the reference's, its own
tap is the result; if both paths have the same stage with the same options, the reference's tap is.

The turn of an image belongs to ``orient``, even where a decoder turns by itself: that turn is
undone, which is exact, to get the tap of ``decode``.

`Normalise` maps a pixel p to (p / 255 - mean) / std, so two tensors of one stage differ by the
difference of their pixels over 255 std. A histogram of the pixels' differences by channel therefore
gives all sums over the tensors' differences, up to float32 rounding of about 1e-7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Batch, Pixels
from alignkit.compare.histogram import Histogram, bins_of
from alignkit.compare.pixel_sums import (
    PixelSums,
    identical_sums,
    pixel_sums,
    pixel_sums_and_levels,
    with_ssim,
)
from alignkit.compare.spatial_sums import Spatial, spatial_sums
from alignkit.decoders import DecodeOutcome
from alignkit.decoders.exif import unturn
from alignkit.preprocess import STAGES, Preprocess, StageName, Taps, Turn
from alignkit.preprocess.normalise import Normalise

ComparisonMode = Literal["isolated", "cumulative"]
StageAndMode: TypeAlias = tuple[StageName, ComparisonMode]
SpatialExtent = Literal["none", "map", "drawn"]
"""Nothing, the map alone, or all of `alignkit.compare.spatial_sums`."""
MaybeSums: TypeAlias = PixelSums | None
"""``None`` if the shapes differ."""

DECODED = ("ok", "corrupt")
"""Outcomes with pixels."""


@dataclass(frozen=True, slots=True)
class ImageDiff:
    """Outcomes of an image's two decodes, and its differences stage by stage."""

    reference: DecodeOutcome
    candidate: DecodeOutcome
    sums: dict[StageAndMode, MaybeSums] = field(default_factory=dict)
    """Empty unless both paths decoded the image."""
    spatial: Spatial = field(default_factory=dict)
    """Of the isolated mode, in levels: where its stages differ; empty unless it was asked for."""


def diff_taps(
    reference: Preprocess,
    candidate: Preprocess,
    left: Taps,
    right: Taps,
    *,
    ssim: Collection[StageName] = (),
    spatial: SpatialExtent = "none",
) -> ImageDiff:
    """Compare every stage of two paths on one image; SSIM of the stages named.

    ``left`` holds the reference's taps of the image, ``right`` the candidate's.
    """
    outcomes = left.decoded.outcome, right.decoded.outcome
    if not left.pixels or not right.pixels:
        return ImageDiff(*outcomes)
    both = _Both(
        _Side(reference, with_decode(left), left.turn),
        _Side(candidate, with_decode(right), right.turn), spatial,
    )  # fmt: skip
    return ImageDiff(*outcomes, both.sums(ssim=ssim), both.places)


@dataclass(slots=True)
class _Side:
    """A path and its taps of the image; that of ``normalise`` is computed on first use."""

    path: Preprocess
    taps: dict[StageName, Pixels | Batch]
    turn: Turn

    def stage(self, name: StageName) -> Any:
        return self.turn if name == "orient" else getattr(self.path, name)

    def tap(self, name: StageName) -> Pixels | Batch:
        if name not in self.taps:
            self.taps[name] = self.path.normalise(self.taps["colour"])
        return self.taps[name]


@dataclass(slots=True)
class _Both:
    """One image's taps on both sides."""

    reference: _Side
    candidate: _Side
    spatial: SpatialExtent
    seen: dict[tuple[int, int], MaybeSums] = field(default_factory=dict)
    """Arrays by identity → their sums; a stage that does nothing returns its input."""
    same: dict[tuple[int, bool], PixelSums] = field(default_factory=dict)
    """An array by identity, and whether its sums are whole numbers → its sums with itself."""
    levels: Histogram | None = None
    """(3, 256) counts by channel and level of the pixels that ``normalise`` receives, if they are
    ``uint8`` and differ."""
    places: Spatial = field(default_factory=dict)

    def sums(self, *, ssim: Collection[StageName]) -> dict[StageAndMode, MaybeSums]:
        out: dict[StageAndMode, MaybeSums] = {}
        same_input = True
        for stage in STAGES:
            same_stage = self.reference.stage(stage) == self.candidate.stage(stage)
            if stage == "normalise" and same_stage:
                cumulative = self._normalised(out["colour", "cumulative"], same_input=same_input)
            else:
                cumulative = self._cumulative(stage)
            if same_input:
                isolated = cumulative
                self._locate(stage, isolated, self.candidate.taps)
            else:
                isolated = self._same(stage) if same_stage else self._isolated(stage)
            same_input = self._equal(stage, cumulative)
            if stage in ssim and cumulative:
                pair = self.reference.taps[stage], self.candidate.taps[stage]
                cumulative = with_ssim(cumulative, *pair)
            out[stage, "isolated"], out[stage, "cumulative"] = isolated, cumulative
        return out

    def _isolated(self, stage: StageName) -> MaybeSums:
        """Run the candidate's stage on the input of the reference's stage."""
        source = self.reference.taps[STAGES[STAGES.index(stage) - 1]]
        run = self.candidate.stage(stage)
        try:
            made = run(source)
        except ValueError:
            if stage != "crop":
                raise
            return None  # the reference's pixels are smaller than the candidate's crop
        sums = _sums(stage, self.reference.tap(stage), made)
        self._locate(stage, sums, {stage: made})
        return sums

    def _locate(
        self, stage: StageName, sums: MaybeSums, made: Mapping[StageName, Pixels | Batch]
    ) -> None:
        """Measure where the stage's pixels differ from those that the candidate ``made``."""
        # normalised units are no levels, and have the places of the stage before
        unlike = sums is not None and not sums.identical and not sums.non_finite
        if self.spatial == "none" or stage == "normalise" or not unlike:
            return
        taps = self.reference.taps
        source = taps["orient"] if stage == "resize" else None
        drawn = self.spatial == "drawn"
        pair: Any = (taps[stage], made[stage])
        self.places[stage] = spatial_sums(stage, source, *pair, drawn=drawn)  # type: ignore[arg-type]

    def _cumulative(self, stage: StageName) -> MaybeSums:
        left, right = self.reference.tap(stage), self.candidate.tap(stage)
        key = id(left), id(right)  # a stage that does nothing returns its input
        if key not in self.seen:
            self.seen[key] = self._counted(stage, left, right)
        return self.seen[key]

    def _counted(self, stage: StageName, left: Pixels | Batch, right: Pixels | Batch) -> MaybeSums:
        whole = left.dtype == right.dtype == "uint8" and left.shape == right.shape
        if whole and left is right:  # a decode or resize that the paths share
            return identical_sums(left.size, "uint8")
        if whole and self._last(left, right):
            sums, self.levels = pixel_sums_and_levels(left, right)
            return sums
        return _sums(stage, left, right)

    def _last(self, left: Pixels | Batch, right: Pixels | Batch) -> bool:
        return left is self.reference.taps["colour"] and right is self.candidate.taps["colour"]

    def _normalised(self, pixels: MaybeSums, *, same_input: bool) -> MaybeSums:
        """Compare two tensors of one stage, without making them if their pixels suffice."""
        if same_input:
            return self._same("normalise")
        if pixels and self.levels is not None:
            return normalised_sums(pixels, self.levels, self.reference.path.normalise)
        return self._cumulative("normalise")

    def _same(self, stage: StageName) -> MaybeSums:
        """Compare the reference's tap with itself; one tap's sums are one object."""
        tap = self.reference.taps["colour" if stage == "normalise" else stage]
        whole = tap.dtype == "uint8" and stage != "normalise"
        key = id(tap), whole
        if key not in self.same:
            self.same[key] = identical_sums(tap.size, "uint8" if whole else "float32")
        return self.same[key]

    def _equal(self, stage: StageName, sums: MaybeSums) -> bool:
        """Tell whether the next stage has the same input on both sides, in value and in dtype."""
        if sums is None or not sums.identical:
            return False
        if stage == "normalise":
            return True  # no stage follows
        # a stage may treat uint8 and float32 of the same value differently
        return self.reference.taps[stage].dtype == self.candidate.taps[stage].dtype


def _sums(stage: StageName, left: Pixels | Batch, right: Pixels | Batch) -> MaybeSums:
    if left.shape != right.shape:
        return None
    return pixel_sums(left, right, channels="first" if stage == "normalise" else "last")


def with_decode(taps: Taps) -> dict[StageName, Pixels | Batch]:
    """Map stages to arrays; with ``decode``, the turn undone, if the decoder turned the image."""
    arrays: dict[StageName, Pixels | Batch] = dict(taps.pixels)
    if "decode" not in arrays and taps.decoded.image is not None:
        arrays["decode"] = unturn(taps.decoded.image, taps.turn.orientation)
    return arrays


def normalised_sums(pixels: PixelSums, counts: Histogram, normalise: Normalise) -> PixelSums:
    """Convert the sums of two ``uint8`` images that differ to the tensors' units.

    ``counts`` are (3, 256), by channel and level.
    """
    scales, units, bins = _tables(normalise)
    occurring = counts > 0
    histogram = np.bincount(bins[occurring], counts[occurring]).astype(np.int64)
    signed = zip(pixels.sums, scales, strict=True)
    red, green, blue = (total * scale for total, scale in signed)
    return PixelSums(
        depth="float32",
        histogram=histogram,
        images=1,
        pixels=pixels.pixels,
        differing_pixels=pixels.differing_pixels,
        sum_abs=float((counts * units).sum()),
        sum_squares=float((counts * units**2).sum()),
        sums=(red, green, blue),
        max_abs=float(units[occurring].max()),
    )


@lru_cache(maxsize=16)
def _tables(
    normalise: Normalise,
) -> tuple[list[float], npt.NDArray[np.float64], npt.NDArray[np.uint16]]:
    """Return the units per level of each channel, and (3, 256) differences in units with bins."""
    scales = [1 / (255 * std) for std in normalise.std]
    units = np.outer(scales, np.arange(256))
    return scales, units, bins_of(units.astype(np.float32))
