"""Effects of known differences on a real model, to compare a difference of pixels with.

They are of other images and another model than the reader's: a comparison, never a forecast.
Each was measured by ``alignkit diff --model`` against Pillow's decoder and bicubic resize to 256,
centre crop to 224; docs/evidence.md has the same table.
"""

from __future__ import annotations

from alignkit.record import KnownEffect

_MEASURED = (
    ("torch's antialiased bicubic, rounded, for Pillow's", 0.17, "0.8 % [0.0, 1.8]"),
    ("nvJPEG's rule for Pillow's decoder", 0.53, "0.5 % [0.0, 1.2]"),
    ("OpenCV's area for Pillow's bicubic", 1.02, "1.2 % [0.2, 2.5]"),
    ("the fast inverse DCT for the accurate one", 1.10, "0.5 % [0.0, 1.2]"),
    ("Pillow's bilinear for its bicubic", 1.27, "1.8 % [0.5, 3.2]"),
    ("NV12 for RGB", 1.29, "0.8 % [0.0, 1.8]"),
    ("OpenCV's linear for Pillow's bicubic", 1.37, "1.0 % [0.2, 2.2]"),
    ("torchpipe's resize of tensors for Pillow's bicubic", 1.68, "0.8 % [0.0, 1.8]"),
    ("OpenCV's cubic for Pillow's bicubic", 1.86, "2.5 % [1.0, 4.2]"),
    ("OpenCV's nearest for Pillow's bicubic", 7.68, "7.2 % [5.0, 9.8]"),
    ("torchpipe's resize straight to 224 for Pillow's with a crop", 39.7, "11.5 % [8.5, 14.8]"),
)
"""Stacks, mean |Δ| in grey levels, and share of predictions that change; by size."""
EFFECTS = tuple(
    KnownEffect(
        stacks=stacks,
        levels=levels,
        effect=f"{churn} of predictions change",
        kind="measured",
        source="EfficientNet-Lite0, 400 ImageNet photographs: docs/evidence.md",
    )
    for stacks, levels, churn in _MEASURED
)


def nearest_effects(levels: float) -> tuple[KnownEffect, ...]:
    """Return the greatest known effect of at most this size and the smallest above it."""
    below = [each for each in EFFECTS if (each.levels or 0) <= levels]
    above = [each for each in EFFECTS if (each.levels or 0) > levels]
    return (*below[-1:], *above[:1])
