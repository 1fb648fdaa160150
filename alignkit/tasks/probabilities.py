"""Scores of labels that do not exclude each other → probabilities, if they are what they seem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.errors import BackendError
from alignkit.tasks import Scores, settled
from alignkit.text.numbers import significant

if TYPE_CHECKING:
    from alignkit.tasks import AskedScores, ScoreScale

_ROUNDING = 1e-3
"""Greatest distance of a float16 probability from 0..1, and of a sum of them from 1."""
_FEWEST = 16
"""Scores that are all from 0 to 1 by accident in no trained model that gives logits."""


def required(
    scores: npt.NDArray[np.float32], asked: AskedScores, scale: ScoreScale, what: str = "its scores"
) -> Scores:
    """Return what scores are, logits where nothing says it and they do not look otherwise.

    Raise `BackendError` for scores that are not what they are taken for.
    """
    kind, finite = settled(asked, scale), scores[np.isfinite(scores)]
    if kind == "as-is":
        require_shares(finite, what, "if they are logits, set the task's 'scores: sigmoid'")
    elif kind is None and len(finite) >= _FEWEST and _are_shares(finite) and np.ptp(finite) > 0:
        raise BackendError(
            f"{what} all lie from 0 to 1, as probabilities do, and their sigmoid is 0.5 or more: "
            "set the task's 'scores: as-is' for probabilities, 'scores: sigmoid' for logits"
        )
    return kind or "sigmoid"


def require_shares(scores: npt.NDArray[np.float32], what: str, advice: str) -> None:
    """Raise `BackendError` if a score is below 0 or above 1; a NaN is neither."""
    if not _are_shares(scores):
        least, most = float(np.nanmin(scores)), float(np.nanmax(scores))
        reach = f"{what} reach from {significant(least)} to {significant(most)}"
        raise BackendError(f"{reach}, and probabilities are from 0 to 1; {advice}")


def require_exclusive(rows: npt.NDArray[np.float32], advice: str) -> None:
    """Raise `BackendError` for rows of probabilities, (n, classes), that do not add up to 1."""
    finite = rows[np.isfinite(rows).all(axis=1)]
    # rows that are all alike are no answer, whatever they add up to
    if finite.size < _FEWEST or not _are_shares(finite) or (finite == finite[0]).all():
        return
    apart = np.abs(finite.sum(axis=1, dtype=np.float64) - 1)
    if (apart > 10 * _ROUNDING).any():
        total = significant(float(finite[int(apart.argmax())].sum()))
        raise BackendError(
            f"its scores all lie from 0 to 1 and an image's add up to {total}: they are no classes "
            f"that exclude each other; {advice}"
        )


def _are_shares(scores: npt.NDArray[np.float32]) -> bool:
    with np.errstate(invalid="ignore"):
        return not ((scores < -_ROUNDING) | (scores > 1 + _ROUNDING)).any()


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
