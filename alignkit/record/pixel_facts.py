"""Stored types of comparisons of pixels, and of images that are shown with what is drawn on them.

Coordinates of boxes are those of `alignkit.annotations`: pixels of the oriented image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from alignkit.record.stored import STRICT, Artifact, Count, Real, Stored

BoxKind: TypeAlias = Literal["", "matched", "lost", "won", "class changed", "crowd"]
"""A box beside the other answer's: ``lost`` of the reference alone, ``won`` of the candidate alone;
empty where nothing was compared, ``crowd`` of the truth."""


class DrawnBox(Stored):
    """A box of an answer or of the truth."""

    corners: tuple[Real, Real, Real, Real]
    """Left, top, right, bottom."""
    of_class: str
    score: Real | None = None
    kind: BoxKind = ""
    shift: Real | None = None
    """Pixels that the corner coordinate moves which moves most, of a box with a match."""


class Drawn(Stored):
    """An answer to an image, or the truth about it, as it is drawn."""

    boxes: tuple[DrawnBox, ...] = ()
    mask: Artifact | None = None
    """PNG with a palette: the class of each pixel of the oriented image, 255 for none."""
    classes: tuple[str, ...] = ()
    """Names of the mask's classes by value; those that it has, the others empty."""


class DrawnPair(Stored):
    """The answers of one model to an image, as trained and along the other path."""

    seed: int
    before: Drawn
    after: Drawn
    differing: Artifact | None = None
    """PNG with a palette: 1 where the classes of the masks differ, else 0."""
    share: Real | None = None
    """Share of pixels where they do."""

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every file that it names."""
        return tuple(e for e in (self.before.mask, self.after.mask, self.differing) if e)


class PictureMap(Stored):
    """Where a shown picture has each point of the oriented image.

    x' = xx · x + xy · y + x0 and y' = yx · x + yy · y + y0, in pixels from the left upper corner.
    """

    width: Count
    """Of the oriented image."""
    height: Count
    xx: Real
    xy: Real
    x0: Real
    yx: Real
    yy: Real
    y0: Real


class OfShapes:
    """Something that counts the images compared and those of another shape."""

    __slots__ = ()

    @property
    def shapes_alone(self: Any) -> bool:  # has their counts
        """Whether no number of the images compared says how far the two are apart.

        Fewer were compared than have another shape, or all that were are equal.
        """
        equal = bool(self.shape_mismatches) and not self.max_abs
        return equal or self.shape_mismatches > self.images


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelTotals:
    """Sums over pairs of images at one stage; their ratios are ``None`` without any value."""

    __pydantic_config__ = STRICT

    images: Count = 0
    """Images compared."""
    identical: Count = 0
    """Images equal in every value."""
    pixels: Count = 0
    differing_pixels: Count = 0
    """Pixels that differ in any channel."""
    non_finite: Count = 0
    """Values of differing images whose difference is NaN or infinite; no other number has them."""
    sum_abs: Real = 0
    sum_squares: Real = 0
    max_abs: Real = 0
    """Without any value 0 as the sums are; `mean_abs` is then ``None``."""

    @property
    def values(self) -> int:
        """Compared values: three a pixel, less the non-finite ones."""
        return 3 * self.pixels - self.non_finite

    @property
    def mean_abs(self) -> float | None:
        """Mean absolute difference of values."""
        return self.sum_abs / self.values if self.values else None

    @property
    def share_differing(self) -> float | None:
        """Share of pixels that differ in any channel."""
        return self.differing_pixels / self.pixels if self.pixels else None

    @property
    def mse(self) -> float | None:
        """Mean squared difference of values."""
        return self.sum_squares / self.values if self.values else None

    @property
    def psnr(self) -> float | None:
        """PSNR in dB for a peak of 255; ``None`` also where it is infinite."""
        return 10 * math.log10(255**2 / self.mse) if self.mse else None


_TOTALS = tuple(each.name for each in fields(PixelTotals))


def added_totals(one: PixelTotals, other: PixelTotals) -> dict[str, Any]:
    """Add up the fields of `PixelTotals` over two sets of images."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in _TOTALS}
    return sums | {"max_abs": max(one.max_abs, other.max_abs)}


class PixelStage(OfShapes, Stored):
    """The difference of one stage's output between two paths, over the evaluation images."""

    reference: str
    candidate: str
    stage: str
    mode: Literal["isolated", "cumulative"]
    images: Count
    """Images compared."""
    identical: Count
    """Images equal in every value."""
    shape_mismatches: Count = 0
    non_finite: Count = 0
    """Values whose difference is NaN or infinite; they are in none of the numbers below."""
    max_abs: Real | None = None
    """In grey levels 0..255; for ``normalise`` in normalised units."""
    mean_abs: Real | None = None
    bias: tuple[Real, Real, Real] | None = None
    """Candidate minus reference, per channel R, G, B."""
    share_differing: Real | None = None
    """Share of pixels; a pixel differs if any channel does."""
    share_above: dict[str, Real] = {}  # keyed by text, since JSON has no other keys
    """Level → share of values that differ by more."""
    p99: Real | None = None
    p99_9: Real | None = None
    psnr: Real | None = None
    """dB; ``None`` if images are identical."""
    ssim: Real | None = None
    reason: str = ""
    """Why there are no numbers."""

    @property
    def differs(self) -> bool:
        """Whether an image has other values or another shape."""
        return self.identical < self.images + self.shape_mismatches


class PlaneStage(Stored):
    """The difference of one stage's output in one plane of Y'CbCr (JPEG's: BT.601, full range).

    Cumulative; in grey levels, of the images whose arrays have the same shape.
    """

    reference: str
    candidate: str
    stage: str
    plane: Literal["Y'", "Cb", "Cr"]
    images: Count
    mean_abs: Real | None = None
    max_abs: Real | None = None
    bias: Real | None = None
    """Candidate minus reference."""
    p99: Real | None = None
    p99_9: Real | None = None
    psnr: Real | None = None
    """dB; ``None`` if nothing differs."""


class ServedPredictions(Stored):
    """Predictions of an image by one row's models, as trained and along the other path, by seed."""

    trained_with: str
    """The row's name."""
    evaluated_with: str
    seeds: tuple[int, ...]
    before: tuple[str, ...]
    """Answer for each seed in words: a class, ``3× cat, 1× dog``; ``no prediction`` where no logit
    was finite."""
    after: tuple[str, ...]
    runtimes: tuple[str, ...]
    """For each seed: empty for the row's own runtime; else the first other runtime that changes it,
    where the own one does not."""
    turned: tuple[Literal["", "worse", "better", "neither", "changed"], ...] = ()
    """How each seed's answer changed; ``changed`` without labels, empty where it did not. Left out
    by a task whose answers are classes: they say themselves what changed, and what is right."""
    drawn: DrawnPair | None = None
    """The answers of the first seed that changed, else of the first; ``None`` for a task that draws
    nothing."""


class ShownPair(Stored):
    """How many images changed their prediction between two paths, and the room for their pixels."""

    reference: str
    candidate: str
    images: Count
    """Images that were predicted on both paths."""
    changed: Count
    """Images whose prediction changed in at least one model and runtime."""
    limit: Count
    """Most bytes of pictures and last pixels that are kept of these."""


class ShownStage(Stored):
    """Both paths' pixels of an image after a stage before the last, or why there are none."""

    stage: Literal["decode", "resize"]
    state: Literal["whole", "crop", "identical", "left out"]
    """``left out``: they did not fit into the limit; of ``identical`` ones none are kept unless
    answers are drawn on them."""
    a: tuple[Count, Count]
    """Width and height of the reference's whole image after the stage."""
    b: tuple[Count, Count]
    mcu: tuple[Count, Count] | None = None
    """Width and height of the JPEG file's MCU; ``None`` where there is no grid of it."""
    x: Count = 0
    """Left edge of a crop in the image."""
    y: Count = 0
    pixels: Artifact | None = None
    """Both sides' exact values, as a script that the page's viewer loads."""
    maps: tuple[PictureMap, PictureMap] | None = None
    """Where each whole image has the points of the oriented one; ``None`` if nothing is drawn."""


class ShownImage(Stored):
    """An image shown with both paths' pixels and, where they are of one size, their difference."""

    why: Literal["changed", "pixels", "random"]
    """It changed its prediction, differs most by pixels, or was drawn from the others."""
    reference: str
    candidate: str
    id: str
    label: str
    stage: str
    """The stage whose output is shown."""
    max_abs: Real | None
    """``None``, as all that follows from a difference, where the sides have two sizes."""
    mean_abs: Real | None
    predictions: tuple[ServedPredictions, ...] = ()
    """Of each row that was trained with one path of the two and served along the other."""
    amplification: Real | None
    a: Artifact
    b: Artifact
    difference: Artifact | None
    """min(|candidate − reference| · amplification, 255)."""
    pixels: Artifact | None = None
    """Both sides' exact values, as a script that the page's viewer loads."""
    width: Count = 0
    """Width of the pictures, in pixels; 0 in records that did not keep it."""
    height: Count = 0
    size_b: tuple[Count, Count] | None = None
    """Width and height of ``b`` where they are others; those above are of ``a`` then."""
    stages: tuple[ShownStage, ...] = ()
    """Pixels after earlier stages; empty where they were not asked for."""
    rules: tuple[str, ...] = ()
    """Failed rules in words, each of whose greatest distances this image has."""
    truth: Drawn | None = None
    """Drawn as the answers are; ``None`` where it is not known, or nothing is drawn."""
    maps: tuple[PictureMap, PictureMap] | None = None
    """Where ``a`` and ``b`` have the points of the oriented image; ``None`` if nothing is drawn."""

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every file that it names."""
        scripts = (self.pixels, *(each.pixels for each in self.stages))
        return (*self.pictures, *(each for each in scripts if each), *self.masks)

    @property
    def pictures(self) -> tuple[Artifact, ...]:
        """A, B and their difference; the first two alone where they have two sizes."""
        return (self.a, self.b, *((self.difference,) if self.difference else ()))

    @property
    def masks(self) -> tuple[Artifact, ...]:
        """The drawn masks of the answers and of the truth."""
        pairs = [each.drawn for each in self.predictions if each.drawn]
        truth = (self.truth.mask,) if self.truth and self.truth.mask else ()
        return (*(file for each in pairs for file in each.artifacts), *truth)

    @property
    def sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Width and height of ``a`` and of ``b``."""
        own = self.width, self.height
        return own, self.size_b or own


class Thumbnail(Stored):
    """A small picture of an image that a list names."""

    path: str
    """The preprocess whose pixels it shows."""
    id: str
    label: str
    """Empty for images without labels."""
    picture: Artifact
    """PNG, no side of more than 80 pixels."""


class ImageTableFacts(Stored):
    """Every image of a comparison; see `alignkit.compare.image_table` for the columns."""

    reference: str
    candidate: str
    table: Artifact
    """Parquet."""
