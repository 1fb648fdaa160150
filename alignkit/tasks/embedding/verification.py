"""Verification: whether two images have one identity, decided by a threshold of their similarity.

A pair is accepted if its similarity is above the threshold. The true accept rate (TAR) is the share
of same pairs that are accepted, the false accept rate (FAR) that of different ones (ISO/IEC
19795-1). The threshold at a FAR is the least one that accepts at most this share. The equal error
rate (EER) is the FAR at which as large a share of same pairs is rejected.

A pair with an embedding that has no direction is never accepted. A same pair is then rejected; a
different pair does not count for the FAR of its side, or embeddings that fail would loosen the
threshold of all others.

Thresholds that are tried are similarities of different pairs: the greatest 2,048, and below them
one at every step of 1/512 in the number accepted. A FAR is so known to 1/512 of itself, and exactly
where there are few pairs.

A resample draws groups of images, see `alignkit.tasks.embedding.pair_weights`, and tunes every
threshold again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weights
from alignkit.compare.metrics import ratio
from alignkit.tasks.embedding.embedding_facts import at_far
from alignkit.tasks.embedding.pair_weights import BinnedPairs, OfDraws, accumulate, total_weight
from alignkit.tasks.embedding.unit_vectors import UnitVectors, Vectors, similarities, unit_vectors
from alignkit.tasks.embedding.verified_pairs import RESOLVABLE, DrawnPairs, VerifiedPairs, resolves

NO_SIMILARITY = -2.0
"""Similarity of a pair with an embedding that has no direction: no threshold accepts it."""
ACCEPT_ALL = -1.5
"""Threshold that accepts every other pair."""
_EXACT, _STEPS = 2_048, 512
_DRAWS = 256
"""Draws that are computed at a time."""
_BLOCK = 1 << 20
"""Numbers of float64 that are made at a time."""


class Tuned(NamedTuple):
    """Thresholds that were tuned in each draw, and the rates with them."""

    places: Labels
    """(rates, draws), place in `Verification.thresholds`; −1 where nothing is known."""
    far: FloatArray
    """(rates, draws), realised."""
    tar: FloatArray
    """(rates, draws)"""
    eer: FloatArray
    """(draws,)"""


@dataclass(frozen=True, eq=False)
class Verification:
    """Similarities of the pairs of one side."""

    pairs: VerifiedPairs
    same: FloatArray
    """(same pairs,), −1 … 1, or `NO_SIMILARITY`."""
    different: FloatArray
    """(different pairs,)"""
    rates: tuple[float, ...]
    """False accept rates at which thresholds are tuned."""
    _of_draws: OfDraws[Tuned] = field(default_factory=OfDraws, init=False, repr=False)

    @classmethod
    def of(cls, vectors: Vectors, pairs: VerifiedPairs, rates: tuple[float, ...]) -> Verification:
        """Compare pairs of images, whose vectors are (images, dimensions).

        Rates that so few different pairs, of those with a similarity, cannot resolve are left out.
        """
        units, images = unit_vectors(vectors)
        place = np.full(len(vectors), -1)
        place[images] = np.arange(len(images))
        same, different = (
            _similarities(units, place[each.first], place[each.second])
            for each in (pairs.same, pairs.different)
        )
        known = int(np.count_nonzero(different > NO_SIMILARITY))
        resolved = tuple(rate for rate in rates if resolves(rate, known) and len(same))
        return cls(pairs, same, different, resolved)

    @cached_property
    def thresholds(self) -> FloatArray:
        """Those that are tried, descending."""
        return thresholds_of(self.different, exact=_EXACT, steps=_STEPS)

    def drawn(self, weights: Weights) -> DrawnPairs:
        """Weigh the pairs as `VerifiedPairs.drawn`, without different ones that lack a similarity.

        These are other ones on each side.
        """
        drawn, known = self.pairs.drawn(weights), self.different > NO_SIMILARITY
        if known.all():
            return drawn
        listed = self.pairs.different
        first, second = listed.first[known], listed.second[known]
        different = total_weight(first, second, self.pairs.groups, drawn.units)
        return replace(drawn, different=different)

    def tuned(self, weights: Weights) -> Tuned:
        """Tune the thresholds under weights (images, draws)."""
        # metrics and measures ask for the same draws
        return self._of_draws.get(weights, self._tuned)

    def _tuned(self, weights: Weights) -> Tuned:
        parts = [self._tuned_part(part) for _, part in self.drawn(weights).parts(_DRAWS)]
        return Tuned(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))

    def _tuned_part(self, drawn: DrawnPairs) -> Tuned:
        accepted = self._own.weighed(drawn)
        found = [accepted.last_within(rate) for rate in self.rates]
        places = np.array(found, np.int64).reshape(len(self.rates), len(drawn.same))
        realised, reached_tar = (
            np.where(places >= 0, each(np.maximum(places, 0)), np.nan)
            for each in (accepted.far, accepted.tar)
        )
        return Tuned(places, realised, reached_tar, accepted.equal_error())

    @cached_property
    def _own(self) -> AcceptedPairs:
        return self.binned(self.thresholds)

    def binned(self, thresholds: FloatArray) -> AcceptedPairs:
        """Sort the pairs by descending thresholds."""
        groups = self.pairs.groups
        same, different = (
            BinnedPairs.above(each.first, each.second, groups, found, order, thresholds)
            for each, found, order in zip(
                (self.pairs.same, self.pairs.different),
                (self.same, self.different),
                self._orders,
                strict=True,
            )
        )
        return AcceptedPairs(same, different)

    @cached_property
    def _orders(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Same and different pairs, each (pairs,), the greatest similarity first."""
        return tuple(np.argsort(-each).astype(np.int32) for each in (self.same, self.different))


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedPairs:
    """Pairs by the first of descending thresholds that accepts them."""

    same: BinnedPairs
    different: BinnedPairs

    def weighed(self, drawn: DrawnPairs) -> AcceptedWeights:
        """Sum the weights of those that each threshold accepts."""
        same, different = (accumulate(e.sums(drawn.units)) for e in (self.same, self.different))
        return AcceptedWeights(same, different, drawn)


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedWeights:
    """Weights of the pairs that each threshold accepts; they grow from one to the next."""

    same: FloatArray
    """(thresholds, draws)"""
    different: FloatArray
    """(thresholds, draws)"""
    drawn: DrawnPairs

    def far(self, places: Labels) -> FloatArray:
        """Compute the FAR at places of thresholds, (…, draws); NaN without different pairs."""
        return ratio(_at(self.different, places), self.drawn.different)

    def tar(self, places: Labels) -> FloatArray:
        """Compute the TAR at places of thresholds, (…, draws); NaN without same pairs."""
        return ratio(_at(self.same, places), self.drawn.same)

    def first(self, holds: Callable[[Labels], npt.NDArray[np.bool_]]) -> Labels:
        """Find, (draws,), the first place at which a condition holds; their number if at none.

        It holds at every place after that one, so that a bisection finds it: rates of all
        thresholds in all draws are not computed.
        """
        count, draws = self.different.shape
        low, high = np.zeros(draws, np.int64), np.full(draws, count)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            there = holds(np.minimum(middle, count - 1))
            high = np.where(open_ & there, middle, high)
            low = np.where(open_ & ~there, middle + 1, low)
        return low

    def last_within(self, rate: float) -> Labels:
        """Find, (draws,), the last place whose FAR is at most a rate; −1 if there is none."""
        return self.first(lambda at: ~(self.far(at) <= rate)) - 1

    def equal_error(self) -> FloatArray:
        """Compute the equal error rate, (draws,).

        Between two thresholds FAR rises first, then TAR: the two curves cross at the lesser of the
        FAR after and the share of same pairs rejected before.
        """
        at = self.first(lambda at: self.far(at) >= 1 - self.tar(at))
        found = at < len(self.different)
        after = self.far(np.where(found, at, 0))
        before = 1 - self.tar(np.where(found, np.maximum(at - 1, 0), 0))
        return np.where(found, np.minimum(before, after), np.nan)


def _at(sums: FloatArray, places: Labels) -> FloatArray:
    """Take, (…, draws), sums of (thresholds, draws) at one place of each draw."""
    return sums[places, np.arange(sums.shape[1])]


@dataclass(frozen=True, eq=False)
class KeptThresholds:
    """The pairs of the candidate, accepted by the thresholds of the reference in each draw."""

    reference: Verification
    candidate: Verification
    _of_draws: OfDraws[tuple[FloatArray, FloatArray]] = field(
        default_factory=OfDraws, init=False, repr=False
    )

    @cached_property
    def _binned(self) -> AcceptedPairs:
        """The candidate's pairs by the thresholds of the reference."""
        return self.candidate.binned(self.reference.thresholds)

    def rates(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        """Compute FAR and the change of TAR, (rates, draws) each, under weights (images, draws)."""
        return self._of_draws.get(weights, self._rates)

    def _rates(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        tuned = self.reference.tuned(weights)
        far, change = (np.full(tuned.tar.shape, np.nan) for _ in range(2))
        drawn = self.candidate.drawn(weights)
        for part, some in drawn.parts(_DRAWS) if self.reference.rates else ():
            accepted = self._binned.weighed(some)
            at = np.maximum(tuned.places[:, part], 0)
            far[:, part] = accepted.far(at)
            change[:, part] = accepted.tar(at) - tuned.tar[:, part]
        return far, change


@dataclass(frozen=True, slots=True, eq=False)
class KeptRate:
    """One of the rates of `KeptThresholds`."""

    kept: KeptThresholds
    rate: float
    accepted: bool
    """Whether it is the FAR, or the change of TAR."""

    def of(self, weights: Weights) -> FloatArray:
        """Compute it, (draws,); NaN if so few different pairs cannot resolve its rate."""
        rates = self.kept.reference.rates
        if self.rate not in rates:
            return np.full(weights.shape[1], np.nan)
        far, change = self.kept.rates(weights)
        found: FloatArray = (far if self.accepted else change)[rates.index(self.rate)]
        return found


def bins_of(similarity: FloatArray, thresholds: FloatArray) -> Labels:
    """Find the first of the descending thresholds that accepts each pair; their number if none."""
    places = np.searchsorted(thresholds[::-1], similarity, side="left")
    return np.asarray(len(thresholds) - places, np.int64)


def why_unverified(metric: str, side: Verification, rates: Sequence[float]) -> str:
    """Say why a metric of verification has no value; empty if this side has one."""
    pairs, known = side.pairs, int(np.count_nonzero(side.different > NO_SIMILARITY))
    if not len(pairs.different):
        return "there is no different pair: all images have one identity"
    if not len(pairs.same):
        return "there is no same pair: no identity has two images"
    if not known:
        return "no different pair has a similarity: embeddings are zero, infinite or NaN"
    if metric.startswith("verification."):
        of_different = pairs.different.fold[side.different > NO_SIMILARITY]
        few = len({*pairs.folds} & {*of_different.tolist()}) < 2
        return "fewer than two folds of identities have same and different pairs" if few else ""
    named = (rate for rate in rates if metric.removesuffix(".kept").endswith(at_far(rate)))
    if (rate := next(named, None)) is None or resolves(rate, known):
        return ""
    of = "" if known == len(pairs.different) else " whose embeddings have a direction"
    return (
        f"a FAR of {rate:g} is not resolvable with {known} different pairs{of}; "
        f"{ceil(RESOLVABLE / rate)} are needed"
    )


def thresholds_of(different: FloatArray, *, exact: int, steps: int) -> FloatArray:
    """Choose thresholds, descending, among the similarities of different pairs.

    The greatest ``exact`` of them, then one at every step of 1 / ``steps`` in the number accepted,
    and `ACCEPT_ALL`.
    """
    values, counts = np.unique(different[different > NO_SIMILARITY], return_counts=True)
    values, counts = values[::-1], counts[::-1]
    above = np.cumsum(counts) - counts
    chosen = np.arange(min(exact, len(values)))
    if len(values) > exact:
        start, end = float(max(above[exact], 1)), float(above[-1])
        number = int(np.log(end / start) / np.log1p(1 / steps)) + 1
        wanted = start * (1 + 1 / steps) ** np.arange(number + 1)
        chosen = np.union1d(chosen, np.minimum(np.searchsorted(above, wanted), len(values) - 1))
    found: FloatArray = np.append(values[chosen], ACCEPT_ALL)
    return found


def _similarities(units: UnitVectors, first: Labels, second: Labels) -> FloatArray:
    """Compute the cosine of pairs of places, `NO_SIMILARITY` where one is −1."""
    found = np.full(len(first), NO_SIMILARITY)
    known = np.flatnonzero((first >= 0) & (second >= 0))
    rows = max(1, _BLOCK // max(1, units.shape[1]))
    for start in range(0, len(known), rows):
        part = known[start : start + rows]
        found[part] = similarities(units[first[part]], units[second[part]])
    return found
