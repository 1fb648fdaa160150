"""Stored types of causes: each factor and its share of a drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.record.spatial_facts import MechanismName, ShownBy
from alignkit.record.stored import STRICT, Count, Estimate, Real, Stored

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
    sentence: str = ""
    """The finding in words if it is significant; otherwise empty."""


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
    sentence: str = ""
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
