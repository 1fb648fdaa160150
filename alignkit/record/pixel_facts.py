"""Stored types of comparisons of pixels."""

from __future__ import annotations

from typing import Literal, Protocol

from alignkit.record.stored import Artifact, Count, Real, Stored


class _Compared(Protocol):
    @property
    def images(self) -> int: ...
    @property
    def shape_mismatches(self) -> int: ...


class OfShapes:
    """Something that counts the images compared and those of another shape."""

    @property
    def mostly_other_shapes(self: _Compared) -> bool:
        """Whether fewer images were compared than have another shape."""
        return self.shape_mismatches > self.images


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


class WorstImage(Stored):
    """An image shown with both paths' pixels and their amplified difference."""

    reference: str
    candidate: str
    id: str
    label: str
    stage: str
    """The stage whose output is shown."""
    max_abs: Real
    mean_abs: Real
    flipped: str = ""
    """Changes of the reference model's predictions in words; empty if there are none."""
    amplification: Real
    a: Artifact
    b: Artifact
    difference: Artifact
    """min(|candidate − reference| · amplification, 255)."""
    pixels: Artifact | None = None
    """Both sides' exact values, as a script that the page's viewer loads."""
    width: Count = 0
    """Width of all three, in pixels; 0 in records that did not keep it."""
    height: Count = 0


class ImageTableFacts(Stored):
    """Every image of a comparison; see `alignkit.compare.image_table` for the columns."""

    reference: str
    candidate: str
    table: Artifact
    """Parquet."""
