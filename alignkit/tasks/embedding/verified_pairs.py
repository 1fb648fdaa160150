"""Pairs of images that verification compares: given by the data, or drawn from identities.

Images of an identity, or of images that given pairs join, form a group. Folds are of groups, so
that a threshold is never tested on a person it was tuned on (Huang et al., Labeled Faces in the
Wild, 2007, section 4). Without given folds a different pair has one only if both of its groups are
in the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from alignkit.annotations import PAIR_FOLDS, Pairs
from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weights
from alignkit.tasks.embedding.pair_weights import OfDraws, Units, total_weight

NO_FOLD = -1
RESOLVABLE = 3
"""Different pairs that a false accept rate must accept on average to be resolvable: of a rate that
accepts none of n, 3 / n is the upper 95 % bound (Hanley and Lippman-Hand, JAMA 249, 1983)."""
_OF_IDENTITY = 1_000
"""Most same pairs of one identity, so that none with thousands of images outweighs all others."""


@dataclass(frozen=True, slots=True, eq=False)
class PairList:
    """Pairs that are all the same or all different."""

    first: Labels
    """(pairs,), index of an image."""
    second: Labels
    fold: Labels
    """(pairs,), `NO_FOLD` for a pair of two folds."""

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, eq=False)
class DrawnPairs:
    """All pairs in each draw."""

    units: Units
    same: FloatArray
    """(draws,), weight of all same pairs."""
    different: FloatArray
    """(draws,)"""

    def parts(self, draws: int) -> Iterator[tuple[slice, DrawnPairs]]:
        """Yield parts of so many draws, and their places among all."""
        for part, units in self.units.parts(draws):
            yield part, DrawnPairs(units, self.same[part], self.different[part])


@dataclass(frozen=True, eq=False)
class VerifiedPairs:
    """Same and different pairs of images, and the groups that depend on each other."""

    same: PairList
    different: PairList
    groups: Labels
    """(images,), 0 and up without gaps."""
    all_drawn: bool
    """Whether these are all pairs that there are."""
    _drawn: OfDraws[DrawnPairs] = field(default_factory=OfDraws, init=False, repr=False)

    def drawn(self, weights: Weights) -> DrawnPairs:
        """Weigh the pairs, under weights (images, draws)."""
        # both sides of a comparison, and all their numbers, ask for the same draws
        return self._drawn.get(weights, self._weigh)

    def _weigh(self, weights: Weights) -> DrawnPairs:
        units = Units.of(weights, self.groups)
        same, different = (
            total_weight(each.first, each.second, self.groups, units)
            for each in (self.same, self.different)
        )
        return DrawnPairs(units, same, different)

    @property
    def folds(self) -> tuple[int, ...]:
        """The folds that have same and different pairs, ascending."""
        same, different = (set(each.fold.tolist()) for each in (self.same, self.different))
        return tuple(sorted((same & different) - {NO_FOLD}))


def resolves(rate: float, different: int) -> bool:
    """Tell whether so many different pairs are enough for a false accept rate."""
    return rate * different >= RESOLVABLE


def given_pairs(pairs: Pairs, identities: Labels) -> VerifiedPairs:
    """Take the pairs of the data; ``identities`` are (images,), below 0 where they are not known.

    Images without an identity form a group if same pairs join them.
    """
    groups = _connected(pairs, identities)

    def chosen(same: npt.NDArray[np.bool_]) -> PairList:
        return PairList(pairs.first[same], pairs.second[same], pairs.fold[same])

    return VerifiedPairs(chosen(pairs.same), chosen(~pairs.same), groups, all_drawn=True)


def _connected(pairs: Pairs, identities: Labels) -> Labels:
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    images = len(identities)
    known = np.flatnonzero(identities >= 0)
    # an image joins the first of its identity
    names, first, place = np.unique(identities[known], return_index=True, return_inverse=True)
    of_first = known[first][place] if len(names) else known
    rows = np.concatenate([pairs.first[pairs.same], known])
    columns = np.concatenate([pairs.second[pairs.same], of_first])
    joined = sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(images, images))
    _, groups = connected_components(joined, directed=False)
    return np.asarray(groups, np.int64)


def identity_groups(identities: Labels) -> Labels:
    """Number identities, (images,), from 0 without gaps; an image without one is its own group."""
    unknown = identities < 0
    own = np.where(unknown, identities.max(initial=0) + np.cumsum(unknown), identities)
    groups: Labels = np.unique(own, return_inverse=True)[1].astype(np.int64)
    return groups


def drawn_pairs(identities: Labels, most: int) -> VerifiedPairs:
    """Draw up to ``most`` same and ``most`` different pairs of the images that have identities.

    All pairs are taken where they are no more. The result depends on ``identities``, (images,), and
    ``most`` alone, and is the same object for both sides of a comparison.
    """
    return _drawn_pairs(np.ascontiguousarray(identities, np.int64).tobytes(), most)


@lru_cache(maxsize=4)
def _drawn_pairs(stored: bytes, most: int) -> VerifiedPairs:
    identities: Labels = np.frombuffer(stored, np.int64)
    groups = identity_groups(identities)
    rng = np.random.default_rng(0)
    known = np.flatnonzero(identities >= 0)
    order = known[np.argsort(identities[known], kind="stable")]
    _, starts, sizes = np.unique(identities[order], return_index=True, return_counts=True)
    same, all_same = _same_pairs(order, starts, sizes, most, rng)
    different, all_different = _different_pairs(order, sizes, most, rng)
    fold = np.full(len(identities), NO_FOLD, np.int64)
    # two groups at least, so that a fold has different pairs
    count = min(PAIR_FOLDS, len(sizes) // 2)
    if count > 1:
        fold[order] = np.repeat(rng.permutation(len(sizes)) % count, sizes)
    same_list, different_list = (
        PairList(*each, _fold_of(fold, *each)) for each in (same, different)
    )
    return VerifiedPairs(same_list, different_list, groups, all_drawn=all_same and all_different)


def _fold_of(fold: Labels, first: Labels, second: Labels) -> Labels:
    return np.where(fold[first] == fold[second], fold[first], NO_FOLD)


def _same_pairs(
    order: Labels, starts: Labels, sizes: Labels, most: int, rng: np.random.Generator
) -> tuple[tuple[Labels, Labels], bool]:
    """Draw pairs of images of an identity; ``order`` lists images by identity."""
    every = sizes * (sizes - 1) // 2
    cap = _cap(every, most)
    firsts, seconds = [], []
    for start, size, pairs in zip(starts, sizes, every, strict=True):
        if not pairs:
            continue
        chosen = np.arange(pairs) if pairs <= cap else rng.choice(pairs, cap, replace=False)
        a, b = _triangle(chosen)
        firsts.append(order[start + a])
        seconds.append(order[start + b])
        assert b.max(initial=0) < size
    nothing = np.zeros(0, np.int64)
    joined = (np.concatenate([nothing, *each]) for each in (firsts, seconds))
    first, second = joined
    return (first, second), bool((every <= cap).all())


def _cap(every: Labels, most: int) -> int:
    """Find the most pairs of an identity so that all together are at most ``most``; 1 at least."""
    low, high = 1, _OF_IDENTITY
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(every, middle).sum() <= most else (low, middle - 1)
    return low


def _triangle(numbers: Labels) -> tuple[Labels, Labels]:
    """Decode pairs a < b from b (b − 1) / 2 + a."""
    b = ((1 + np.sqrt(1 + 8 * numbers.astype(np.float64))) / 2).astype(np.int64)
    # a root that is rounded may be one off
    b -= b * (b - 1) // 2 > numbers
    b += b * (b + 1) // 2 <= numbers
    return numbers - b * (b - 1) // 2, b


def _different_pairs(
    order: Labels, sizes: Labels, most: int, rng: np.random.Generator
) -> tuple[tuple[Labels, Labels], bool]:
    """Draw pairs of images of two identities; ``order`` lists images by identity, ``sizes`` each.

    Every pair is as likely as any other, and none is drawn twice.
    """
    images = len(order)
    identity = np.repeat(np.arange(len(sizes)), sizes)
    total = (images * images - int((sizes.astype(np.int64) ** 2).sum())) // 2
    if total <= most:
        pairs = [
            (np.repeat(np.arange(start, start + size), images - start - size),
             np.tile(np.arange(start + size, images), size))
            for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True)
        ]  # fmt: skip
        nothing = np.zeros(0, np.int64)
        first, second = (np.concatenate([nothing, *each]) for each in zip(*pairs, strict=True))
        return (order[first], order[second]), True
    keys = seen = np.zeros(0, np.int64)
    while len(keys) < most:
        # the share of pairs that are different, and a few for those drawn twice
        wanted = int((most - len(keys)) * images * images / (2 * total) * 1.1) + 100
        drawn = np.sort(rng.integers(0, images, (wanted, 2)), axis=1)
        drawn = drawn[identity[drawn[:, 0]] != identity[drawn[:, 1]]]
        found, order_drawn = np.unique(drawn[:, 0] * images + drawn[:, 1], return_index=True)
        fresh = np.append(seen, -1)[np.searchsorted(seen, found)] != found
        # in the order they are drawn: the last ones are too many
        keys = np.concatenate([keys, found[fresh][np.argsort(order_drawn[fresh])]])
        # stable: it merges two sorted parts
        seen = np.sort(np.concatenate([seen, found[fresh]]), kind="stable")
    first, second = np.divmod(np.sort(keys[:most]), images)
    return (order[first], order[second]), False
