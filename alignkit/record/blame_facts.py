"""Stored types of causes: where two paths differ and by which mechanism, and shares of a drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from alignkit.record.drift_facts import ALPHA
from alignkit.record.stored import STRICT, Count, Estimate, Real, Stored

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


AttributedUnit = Literal["fraction", "grey levels", "logits", "px", "value"]
"""``value``: a score of the user's own, without a unit."""
EXPLAINS_MOST = 0.5
"""Least share of a difference, or of a plainer hypothesis' distance, that a finding explains."""


@dataclass(frozen=True, slots=True)
class FactorShare:
    """The share of a drift that one factor causes."""

    __pydantic_config__ = STRICT

    factor: str
    """A stage, ``resize+crop``, ``decode.colour``, ``backend``, ``precision`` or ``runtime``; for
    int8 whose graph also ran unfused, ``quantisation`` and ``kernel``."""
    effect: Estimate
    """Its share: with the interaction beside them or within, the shares add up to the total."""
    alone: Estimate
    """Its effect with everything else as in the reference."""
    last: Estimate | None = None
    """Its effect with everything else as in the candidate: the total less this remains where it is
    the reference's. ``None`` if that was not measured."""


@dataclass(frozen=True, slots=True)
class Subgroup:
    """One kind of image against all others."""

    __pydantic_config__ = STRICT

    dimension: str
    """``subsampling``, ``quality``, ``size``, …, ``class``, ``margin of the reference`` or ``edge
    energy``."""
    kind: str
    images: Count
    churn: Real
    """Share of predictions that changed, mean over seeds."""
    elsewhere: Real
    """Share of predictions that changed in all other images."""
    difference: Estimate
    """``churn - elsewhere``; the interval is a bootstrap of each side's images by themselves."""
    p: Real
    """Fisher's exact test of "flipped with at least one seed", two-sided."""
    p_adjusted: Real
    """After Holm, over every kind that was compared for this pair of paths."""

    @property
    def significant(self) -> bool:
        """Whether chance alone would hardly show such a difference."""
        return self.p_adjusted < ALPHA


class FlippedFacts(Stored):
    """Kinds of image whose predictions another path changes more often than others."""

    reference: str
    """The path the models were trained with, along which they predicted first."""
    candidate: str
    backend: str
    precision: str
    images: Count
    seeds: Count
    flipped: Count
    """Images whose prediction changed with at least one seed."""
    subgroups: tuple[Subgroup, ...] = ()
    """The least adjusted p first."""
    reason: str = ""
    """Why no kinds were compared."""


class MitigationFacts(Stored):
    """One metric's drift before an advised change and after it."""

    metric: str
    before: Estimate
    expected: Estimate
    """The drift that should remain, computed before any model was trained or served as advised."""
    confirmed: Estimate
    """The drift that remains, on the evaluation images, which the search did not see."""


class AdviceFacts(Stored):
    """A configuration advised for one serving path, and whether its promise was kept."""

    served: str
    """The path that serves."""
    change: Literal["training", "serving"]
    advised: str = ""
    """Name of the advised path in the matrix; empty if there is none."""
    label: str = ""
    """Its decoder and resizer in words."""
    yaml: str = ""
    """The block that builds it, to paste below ``preprocess:``."""
    tried: Count = 0
    """Configurations; 0 for a change that no search proposed."""
    images: Count = 0
    """Training images the search was made on."""
    unseen_images: Count = 0
    """Training images kept for its own check."""
    distance: Estimate | None = None
    """Mean |Δ| that remains, in grey levels 0..255, on the images of the search."""
    unseen: Real | None = None
    """Mean |Δ| that remains on the images kept for its check."""
    drift: tuple[MitigationFacts, ...] = ()
    """``churn``, then the task's metrics: ``top1``, ``recall.macro``, ``precision.macro``."""
    kept: bool | None = None
    """False if the whole interval of the remaining churn lies above the expected value; true if it
    does not and lies below the churn before; ``None`` if neither holds. Without a search: whether
    the interval of the paired change of churn lies below 0 (true) or above it (false)."""
    sentence: str = ""
    reason: str = ""
    """Why there is no advice, or no check of it."""


class AttributionFacts(Stored):
    """One metric's drift between two paths and runtimes, divided among what differs."""

    reference: str
    """The path models were trained with."""
    candidate: str
    backend: str = ""
    """The candidate's runtime; empty where no model is involved."""
    precision: str = ""
    metric: str
    """``pixels``; of a task with class scores ``logits``; ``churn``; and the task's own, such as
    ``top1``, ``recall.macro`` and ``precision.macro``, or ``map50`` and ``boxes.lost``. With the
    suffix ``.decode`` if only the decoders' own switches are distinguished, with all else of the
    reference path."""
    unit: AttributedUnit
    method: Literal["shapley", "one-at-a-time"]
    images: Count
    """Images that every mixture of the paths could prepare."""
    left_out: Count = 0
    drawn_from: Count = 0
    """Evaluation images that these were drawn from, evenly from all classes; 0 if all were
    mixed."""
    shares: tuple[FactorShare, ...] = ()
    interaction: Estimate
    """The total less what each factor does alone; divided among the shares for ``shapley``."""
    total: Estimate
    notes: tuple[str, ...] = ()
    """Why some stages are not distinguished."""
    reason: str = ""
    """Why there are no shares."""


class KnownEffect(Stored):
    """A difference between two stacks whose effect on a model is known."""

    stacks: str
    levels: Real | None
    """Mean |Δ| of the model's input before normalisation, in grey levels; ``None`` if it is not
    published."""
    effect: str
    kind: Literal["measured", "published"]
    source: str
    """The model and images with the place where it is documented."""


class Mechanism(Stored):
    """A known mechanism that the paths differ in, tried on some images without it."""

    sentence: str
    evidence: str
    """Where the mechanism is documented or was measured."""
    images: Count
    before: Real
    """Mean |Δ| of the pixels before normalisation, in grey levels."""
    after: Real
    """The same if the one path does as the other in this alone."""
    published: tuple[KnownEffect, ...] = ()
    """Its effects on models, as others measured them."""
    shown_as: tuple[tuple[MechanismName, ShownBy] | None, ...] = ()
    """Each mechanism removed as pixels alone may show it, with the side that does it; ``None`` for
    one that they never show."""

    @property
    def explained(self) -> float:
        """Share of the difference that goes with it; negative if the difference grows."""
        return 1 - self.after / self.before

    @property
    def explains_most(self) -> bool:
        """Whether it explains enough to be named as the reason."""
        return self.explained >= EXPLAINS_MOST
