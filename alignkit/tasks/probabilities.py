"""Scores of labels that do not exclude each other → probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray

Scores = Literal["sigmoid", "as-is"]
"""Logits, whose sigmoid is the probability, or probabilities."""


def probabilities(scores: npt.NDArray[np.float32], kind: Scores) -> FloatArray:
    """Return the probability of each score, in float64; NaN of NaN."""
    wide = scores.astype(np.float64)
    if kind == "as-is":
        return wide
    # the exponent is never positive, so that none overflows
    small = np.exp(-np.abs(wide))
    found: FloatArray = np.where(wide >= 0, 1.0, small) / (1.0 + small)
    return found


def above(
    scores: npt.NDArray[np.float32], limits: float | Sequence[float], kind: Scores
) -> npt.NDArray[np.bool_]:
    """Tell whether the probability of each score exceeds its limit; a NaN exceeds none.

    ``limits`` is one number, or one for each of the last axis.
    """
    # by the logits: of two that differ in their last digits, the rounded probabilities may be equal
    return np.asarray(scores > score_limits(limits, kind))


def score_limits(limits: float | Sequence[float], kind: Scores) -> FloatArray:
    """Return the score at which each probability reaches its limit, of the shape of ``limits``.

    Infinite for a probability of 0 or 1, which no finite logit has.
    """
    if kind == "as-is":
        # in float64 the model's own 0.3 would exceed a limit of 0.3
        return np.asarray(limits, np.float32).astype(np.float64)
    wide = np.asarray(limits, np.float64)
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(wide) - np.log1p(-wide)
    return found
