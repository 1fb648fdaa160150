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
    if kind == "as-is":
        # in float64 the model's own 0.3 would exceed a limit of 0.3
        return np.asarray(scores > np.asarray(limits, np.float32))
    return np.asarray(probabilities(scores, kind) > np.asarray(limits))


def score_limits(limits: Sequence[float], kind: Scores) -> FloatArray:
    """Return the score at which each probability reaches its limit, (limits,), for `above`.

    Infinite for a probability of 0 or 1, which no finite logit has.
    """
    if kind == "as-is":
        return np.asarray(limits, np.float32).astype(np.float64)
    wide = np.asarray(limits, np.float64)
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(wide) - np.log1p(-wide)
    return found
