"""Scores of labels that do not exclude each other → probabilities, if they are what they seem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.logit_sums import SUM_ROUNDING, TOPS
from alignkit.errors import BackendError
from alignkit.task_facts import OutputScale
from alignkit.tasks import Scores, settled
from alignkit.text.numbers import significant

if TYPE_CHECKING:
    from alignkit.tasks import AskedScores, ScoreScale

SCALES: dict[Scores, OutputScale] = {
    "sigmoid": "logits", "as-is": "probabilities", "percent": "percent", "levels": "levels",
}  # fmt: skip
"""How a task reads scores, its option ``scores`` → the scale of the outputs."""
CERTAIN = {kind: TOPS[scale] for kind, scale in SCALES.items() if scale in TOPS}
"""Reading → the score of a probability of 1."""


def required(
    scores: npt.NDArray[np.float32], asked: AskedScores, scale: ScoreScale
) -> Scores | None:
    """Return what scores are said to be; ``None`` where nothing says it.

    Raise `BackendError` for scores that are not what they are said to be.
    """
    kind = settled(asked, scale)
    if kind not in (None, "sigmoid"):
        finite = scores[np.isfinite(scores)]
        require_shares(
            finite, "its scores", "if they are logits, set the task's 'scores: sigmoid'", kind
        )
    return kind


def require_shares(
    scores: npt.NDArray[np.float32], what: str, advice: str, kind: Scores = "as-is"
) -> None:
    """Raise `BackendError` if a score is below 0 or above the `CERTAIN`; a NaN is neither."""
    top = CERTAIN[kind]
    with np.errstate(invalid="ignore"):
        if not ((scores < -SUM_ROUNDING * top) | (scores > (1 + SUM_ROUNDING) * top)).any():
            return
    least, most = float(np.nanmin(scores)), float(np.nanmax(scores))
    reach = f"{what} reach from {significant(least)} to {significant(most)}"
    raise BackendError(f"{reach}, and probabilities are from 0 to {top:g}; {advice}")


def reach_of(scores: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Return the least finite score, 0 at most, and the greatest, 0 at least."""
    finite = scores[np.isfinite(scores)]
    return float(finite.min(initial=0)), float(finite.max(initial=0))


def doubtful(reaches: Iterable[tuple[float, float]], what: str) -> str:
    """Say why scores of all images are no logits, by each `reach_of`; empty if they may be.

    Of logits some are below 0: else every image would have every label.
    """
    found = [*reaches]
    least = min((low for low, _ in found), default=0)
    most = max((top for _, top in found), default=0)
    if least < -SUM_ROUNDING or most <= 0:
        return ""
    fitting = next((kind for kind, top in CERTAIN.items() if most <= top + SUM_ROUNDING), None)
    like = {"as-is": "probabilities", "percent": "percentages", "levels": "levels of a mask"}
    named = f", as {like[fitting]} do" if fitting else ""
    ways = "'scores: as-is' for probabilities, 'scores: percent' for 0 to 100, 'scores: levels' for"
    return (
        f"{what} lie from 0 to {significant(most)}{named}, and none is below 0, as logits are: "
        f"set the task's {ways} 0 to 255, 'scores: sigmoid' for logits"
    )


def probabilities(scores: npt.NDArray[np.float32], kind: Scores) -> FloatArray:
    """Return the probability of each score, in float64; NaN of NaN."""
    wide = scores.astype(np.float64)
    if kind != "sigmoid":
        return wide / CERTAIN[kind]
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
    if kind != "sigmoid":
        # in float64 the model's own 0.3 would exceed a limit of 0.3
        return np.asarray(np.multiply(limits, CERTAIN[kind]), np.float32).astype(np.float64)
    wide = np.asarray(limits, np.float64)
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(wide) - np.log1p(-wide)
    return found
