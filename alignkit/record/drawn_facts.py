"""Stored types of answers that a page draws on an image: boxes and masks.

Coordinates are those of `alignkit.annotations`: pixels of the oriented image.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from alignkit.record.stored import Artifact, Count, Real, Stored

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
