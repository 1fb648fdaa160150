"""Effects of known differences on real models, to compare a difference of pixels with.

They are of other images and another model than the reader's: a comparison, never a forecast.
"""

from __future__ import annotations

from alignkit.record.diff_document import KnownEffect

_LITE0 = "EfficientNet-Lite0, 400 ImageNet photographs, docs/diff.md"

EFFECTS = (
    KnownEffect(
        stacks="nvJPEG's rule and Pillow's decoder",
        levels=0.45,
        effect="0.5 % [0.0, 1.2] of the predictions change",
        kind="measured",
        source=_LITE0,
    ),
)
"""By size."""


def nearest_effects(levels: float) -> tuple[KnownEffect, ...]:
    """Return the greatest known effect of at most this size and the smallest above it."""
    below = [each for each in EFFECTS if each.levels <= levels]
    above = [each for each in EFFECTS if each.levels > levels]
    return (*below[-1:], *above[:1])
