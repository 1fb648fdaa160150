"""Stored types of where in the image two paths differ, and by which mechanism."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from alignkit.record.stored import Count, Estimate, Real, Stored

MechanismName = Literal[
    "corners", "asymmetric", "half_pixel", "half_pixel_or_asymmetric", "antialias", "chroma",
    "inverse_dct",
]  # fmt: skip
"""``half_pixel_or_asymmetric`` where the measured shift does not tell which of the two grids."""


ShownBy = Literal["reference", "candidate", ""]
"""Empty where pixels do not tell the side."""


class LevelMap(Stored):
    """Mean |Δ| by position, rounded to one of 256 steps between 0 and the greatest."""

    rows: Annotated[int, Field(ge=1, le=64)]
    columns: Annotated[int, Field(ge=1, le=64)]
    greatest: Real
    """In grey levels, at 255."""
    cells: Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$", max_length=2 * 64 * 64)]
    """Two hexadecimal digits a cell, row by row."""

    def levels(self) -> list[list[float]]:
        """Return the cells in grey levels, row by row."""
        steps = bytes.fromhex(self.cells)
        rows = (steps[at : at + self.columns] for at in range(0, len(steps), self.columns))
        return [[self.greatest * step / 255 for step in row] for row in rows]


class DisplacementFacts(Stored):
    """The scale and shift that turn the reference's pixels into the candidate's."""

    scale_x: Estimate
    """About the image's centre; 1 is none."""
    scale_y: Estimate
    shift_x: Estimate
    """In pixels of this stage, positive to the right."""
    shift_y: Estimate
    """Positive down."""
    share: Real
    """Share of the power of the smoothed luma's difference that they remove, after a change of
    brightness is taken out."""


class PixelMechanism(Stored):
    """A mechanism that the pixels show; see docs/attribution.md."""

    name: MechanismName
    by: ShownBy
    """The side that does it."""
    measured: Estimate
    """How much of its effect is there, 1 being all; for ``inverse_dct``, how much less even the
    blocks of 8 pixels are than others."""


class SpatialFacts(Stored):
    """Where one stage of two paths differs on the same input, over the evaluation images."""

    reference: str
    candidate: str
    stage: str
    images: Count
    """Images compared, also those that are identical."""
    drawn: Count
    """Images, all of which differ, from which everything except ``map`` is computed."""
    map: LevelMap
    luma: LevelMap | None = None
    """By position in squares of 16 by 16 pixels; of a decode, like ``chroma``."""
    chroma: LevelMap | None = None
    """Mean of Cb and Cr."""
    power: tuple[Real, ...] = ()
    """The difference's spectral density in bands of equal width from 0 to 0.5 cycles a pixel, in
    squared levels: of white noise its variance. Empty for images with a side below 32 pixels."""
    image_power: tuple[Real, ...] = ()
    """The same of the reference's image."""
    displacement: DisplacementFacts | None = None
    mechanisms: tuple[PixelMechanism, ...] = ()
    """Empty where no mechanism is shown by the pixels."""
    before: Real | None = None
    """Root mean square of the difference about its mean on the drawn images that differ, in grey
    levels: of a resize in luma, of a decode over R, G and B."""
    after: Real | None = None
    """The same without the mechanisms; ``None`` where none is named, or it cannot be taken out."""
