"""Scores of the same images on two sides: how far they move, and on which side they are missing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.answers import RatioOfSums
from alignkit.tasks.score.score_tallies import ScoreTallies


def moves(one: ScoreTallies, other: ScoreTallies) -> FloatArray:
    """Compute Δ, (n, names): NaN where a score is not finite."""
    return other.finite - one.finite


def same_scores(one: ScoreTallies, other: ScoreTallies) -> npt.NDArray[np.bool_]:
    """Tell, (n, names), whether both sides have the same score, or the same kind of none."""
    same = (one.values == other.values) | (np.isnan(one.values) & np.isnan(other.values))
    return np.asarray(same & (one.defined == other.defined))


def moved_images(one: ScoreTallies, other: ScoreTallies, tolerance: float) -> npt.NDArray[np.bool_]:
    """Tell, (n,), whether a score moved by more than the tolerance."""
    # NaN beside a number, or a score beside none, is a change whatever the tolerance
    far = ~(np.abs(moves(one, other)) <= tolerance)
    return np.asarray((far & ~same_scores(one, other)).any(axis=1))


def score_measures(one: ScoreTallies, other: ScoreTallies) -> dict[str, RatioOfSums]:
    """Compute the change of ``score.NAME``, ``score.NAME.apart`` and ``score.NAME.missing``.

    The first two are means of Δ and |Δ| over the images that have both scores, so that a score
    which one side lacks makes no mean better. The third is the share of images with one score
    alone, of those with either.
    """
    all_moves, found = moves(one, other), {}
    for at, name in enumerate(one.names):
        own, others = one.defined[:, at], other.defined[:, at]
        both = own & others
        move, count = np.where(both, all_moves[:, at], 0.0), both.astype(np.float64)
        found[f"score.{name}"] = RatioOfSums(move, count)
        found[f"score.{name}.apart"] = RatioOfSums(np.abs(move), count)
        alone, either = own ^ others, own | others
        found[f"score.{name}.missing"] = RatioOfSums(
            alone.astype(np.float64), either.astype(np.float64)
        )
    return found
