"""Accuracy of verification, with a threshold that is tuned on other identities than it is tested.

The threshold is tuned on all folds but one, to the greatest accuracy and, of equal ones, the
greatest threshold; it is tested on that fold, and the accuracies of the folds are averaged (Huang
et al., Labeled Faces in the Wild, 2007, section 4). Accuracy is the mean of the shares that are
right among same and among different pairs, so that it does not depend on how many there are of
each; of equally many, as that protocol has, it is the share of right pairs.

Only some thresholds can be the best: of those between two neighbouring similarities of different
pairs all reject as many of these, and the lowest accepts the most same pairs. These are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weights
from alignkit.compare.metrics import ratio
from alignkit.tasks.embedding.pair_weights import BinnedPairs, Units, accumulate
from alignkit.tasks.embedding.verification import (
    ACCEPT_ALL,
    NO_SIMILARITY,
    Verification,
    bins_of,
)
from alignkit.tasks.embedding.verified_pairs import PairList

_DRAWS, _SUMS = 64, 1 << 23
"""Draws that are computed at a time, and the most sums of them; of one draw there may be more."""


@dataclass(frozen=True, eq=False)
class FoldAccuracy:
    """The accuracy of one side's verification."""

    verification: Verification

    @cached_property
    def _folds(self) -> Labels:
        return np.array(self.verification.pairs.folds, np.int64)

    def of(self, weights: Weights) -> FloatArray:
        """Compute it, (draws,), under weights (images, draws); NaN with fewer than two folds.

        A fold without same or different pairs, in a draw or at all, does not count.
        """
        pairs, folds = self.verification.pairs, self._folds
        found = np.full(weights.shape[1], np.nan)
        if len(folds) < 2:
            return found
        draws = max(1, min(_DRAWS, _SUMS // self._binned[0].count))
        for part, drawn in pairs.drawn(weights).parts(draws):
            same, different = (self._sums(binned, drawn.units) for binned in self._binned)
            found[part] = _mean_accuracy(same, different)
        return found

    @cached_property
    def _binned(self) -> tuple[BinnedPairs, BinnedPairs]:
        """Same and different pairs of the folds, by threshold and fold."""
        side = self.verification
        inside = np.isin(side.pairs.different.fold, self._folds)
        tested = np.isin(side.pairs.same.fold, self._folds)
        thresholds = _worth_trying(side.same[tested], side.different[inside])
        folds = len(self._folds)

        def binned(similarity: FloatArray, pairs: PairList) -> BinnedPairs:
            place = np.searchsorted(self._folds, pairs.fold).clip(max=folds - 1)
            bins = bins_of(similarity, thresholds) * folds + place
            # a pair that no threshold accepts is in a last bin of its own
            bins[self._folds[place] != pairs.fold] = -1
            if pairs is side.pairs.different:
                # as in FAR: that nothing was compared is no merit
                bins[similarity <= NO_SIMILARITY] = -1
            count = (len(thresholds) + 1) * folds
            return BinnedPairs.of(pairs.first, pairs.second, side.pairs.groups, bins, count)

        return binned(side.same, side.pairs.same), binned(side.different, side.pairs.different)

    def _sums(self, binned: BinnedPairs, units: Units) -> FloatArray:
        """Sum the weights accepted, (thresholds + 1, folds, draws); the last row has all pairs."""
        sums = binned.sums(units).reshape(-1, len(self._folds), units.weights.shape[1])
        return accumulate(sums)


def _worth_trying(same: FloatArray, different: FloatArray) -> FloatArray:
    """Choose the thresholds, descending, that accept a same pair which no greater one accepts."""
    values = np.unique(different[different > NO_SIMILARITY])[::-1]
    every = np.append(values, ACCEPT_ALL)
    first = bins_of(same[same > NO_SIMILARITY], every)
    # the greatest too: it accepts no different pair
    found: FloatArray = every[np.union1d(first, 0)]
    return found


def _mean_accuracy(same: FloatArray, different: FloatArray) -> FloatArray:
    """Average over folds, (draws,), from accepted weights (thresholds + 1, folds, draws)."""
    all_same, all_different = same.sum(axis=1), different.sum(axis=1)
    found = []
    for fold in range(same.shape[1]):
        right = _accuracy(all_same - same[:, fold], all_different - different[:, fold])
        # where it is NaN, it is so of all thresholds
        tuned = right.argmax(axis=0)
        rows = np.stack([tuned, np.full_like(tuned, len(same) - 1)])
        tested = _accuracy(*(each[rows, fold, np.arange(len(tuned))] for each in (same, different)))
        found.append(np.where(np.isnan(right[0]), np.nan, tested[0]))
    known = ~np.isnan(found)
    return ratio(np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _accuracy(same: FloatArray, different: FloatArray) -> FloatArray:
    """Compute the accuracy of each threshold, (thresholds, draws); NaN without pairs of a kind.

    The last row of both weights, (thresholds + 1, draws), is that of all pairs.
    """
    with np.errstate(invalid="ignore"):  # 0 / 0, of a draw without pairs of a kind
        accuracy: FloatArray = same[:-1] / same[-1]
        accuracy += 1
        accuracy -= different[:-1] / different[-1]
    accuracy /= 2
    return accuracy
