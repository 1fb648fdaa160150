"""Effects of known differences on a real model, to compare a difference of pixels with.

They are of other images and another model than the reader's: a comparison, never a forecast.
Each was measured by ``alignkit diff --model`` against Pillow's decoder and bicubic resize to 256,
centre crop to 224; docs/diff.md has the table.
"""

from __future__ import annotations

from alignkit.record.diff_document import KnownEffect


def _measured(stacks: str, levels: float, churn: str) -> KnownEffect:
    return KnownEffect(
        stacks=f"{stacks} in place of Pillow's bicubic",
        levels=levels,
        effect=f"{churn} of predictions change",
        kind="measured",
        source="EfficientNet-Lite0, 400 ImageNet photographs: docs/diff.md",
    )


EFFECTS = (
    _measured("torch's antialiased bicubic, rounded,", 0.17, "0.8 % [0.0, 1.8]"),
    KnownEffect(
        stacks="nvJPEG's rule in place of Pillow's decoder",
        levels=0.53,
        effect="0.5 % [0.0, 1.2] of predictions change",
        kind="measured",
        source="EfficientNet-Lite0, 400 ImageNet photographs: docs/diff.md",
    ),
    _measured("OpenCV's area", 1.02, "1.2 % [0.2, 2.5]"),
    _measured("OpenCV's linear", 1.37, "1.0 % [0.2, 2.2]"),
    _measured("OpenCV's cubic", 1.86, "2.5 % [1.0, 4.2]"),
    _measured("OpenCV's nearest", 7.68, "7.2 % [5.0, 9.8]"),
)
"""By size."""


def nearest_effects(levels: float) -> tuple[KnownEffect, ...]:
    """Return the greatest known effect of at most this size and the smallest above it."""
    below = [each for each in EFFECTS if (each.levels or 0) <= levels]
    above = [each for each in EFFECTS if (each.levels or 0) > levels]
    return (*below[-1:], *above[:1])
