"""Queries: the images of a data set that are searched for in an index of it, leave-one-out.

faiss names candidates by sums in float32, whose bits depend on how many queries it gets, on threads
and on the processor, and whose ties have no order. Their similarities are then computed again
(`unit_vectors`), and ordered by similarity, the earlier image first if tied. An error bound decides
which queries this settles: an image that is no candidate cannot be nearer than the last of those
found. The others, mostly of images that are equal, are compared with the whole index.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import RatioOfSums
from alignkit.tasks.embedding.unit_vectors import (
    UnitVectors,
    Vectors,
    error_bound,
    pair_similarities,
    similarity_blocks,
    unit_vectors,
)

_AT_A_TIME = 500
"""Queries that a thread searches for."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The nearest images of an index for each query, the nearest first."""

    images: Labels
    """(queries, k), places in the index; −1 where it has fewer other images."""
    similarity: FloatArray
    """(queries, k); −∞ where there is none."""


def nearest(index: UnitVectors, queries: UnitVectors, own: Labels, k: int) -> Nearest:
    """Find the ``k`` most similar images of the index, which has some, for each query.

    ``own``, (queries,), is the place of a query's own image in the index, which is not found; −1 if
    the index does not have it.
    """
    # more than asked for: the bound then settles nearly every query
    wanted = min(2 * k + 8, len(index))
    found = Nearest(np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf))
    rough, places = _candidates(index, queries, wanted)
    similarity = pair_similarities(queries, index, places)
    bound = error_bound(index.shape[1])
    # a library that sums in fewer bits than float32 has would break the bound
    trusted = np.abs(rough - similarity).max(axis=1) <= bound
    similarity[places == own[:, None]] = -np.inf
    order = np.lexsort((places, -similarity), axis=-1)[:, :k]
    found.images[:, :wanted] = np.take_along_axis(places, order, axis=1)
    found.similarity[:, :wanted] = np.take_along_axis(similarity, order, axis=1)
    found.images[np.isneginf(found.similarity)] = -1
    if wanted < len(index):
        settled = trusted & (found.similarity[:, -1] > rough[:, -1] + bound)
        unsettled = np.flatnonzero(~settled)
        again = _searched(index, queries[unsettled], own[unsettled], k)
        found.images[unsettled], found.similarity[unsettled] = again.images, again.similarity
    return found


def _candidates(
    index: UnitVectors, queries: UnitVectors, wanted: int
) -> tuple[npt.NDArray[np.float32], Labels]:
    """Search by faiss: similarities that were summed in float32 and places, (queries, wanted)."""
    import faiss

    def found(start: int) -> tuple[npt.NDArray[np.float32], Labels]:
        part = queries[start : start + _AT_A_TIME]
        # IndexFlatIP without its copy of the index
        return faiss.knn(part, index, wanted, metric=faiss.METRIC_INNER_PRODUCT)

    # threads of our own, as those of OpenMP wait for each other at every block of the index
    threads, starts = faiss.omp_get_max_threads(), range(0, len(queries), _AT_A_TIME)
    with ThreadPoolExecutor(threads, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
        parts = [*pool.map(found, starts)]
    rough, places = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rough, places


def _searched(index: UnitVectors, queries: UnitVectors, own: Labels, k: int) -> Nearest:
    """Do as `nearest` by similarities to the whole index."""
    images = np.full((len(queries), k), -1)
    similarity = np.full((len(queries), k), -np.inf)
    for part, found in similarity_blocks(queries, index, own):
        # a later image does not replace an equal one; nor does a query's own
        rows = np.flatnonzero(found.max(axis=1) > similarity[:, -1])
        places = np.broadcast_to(np.arange(part.start, part.stop), (len(rows), found.shape[1]))
        joined = np.hstack([similarity[rows], found[rows]])
        order = np.argsort(-joined, axis=1, kind="stable")[:, :k]
        similarity[rows] = np.take_along_axis(joined, order, axis=1)
        images[rows] = np.take_along_axis(np.hstack([images[rows], places]), order, axis=1)
    return Nearest(images, similarity)


def first_right(
    index: UnitVectors,
    identities: Labels,
    queries: UnitVectors,
    wanted: Labels,
    own: Labels,
    found: Nearest,
) -> Labels:
    """Find the rank, (queries,), of the first image with the query's identity; 1 is the nearest.

    ``identities``, (index,), are those of its images, and ``wanted``, (queries,), the queries'.
    0 where the index has no other image of that identity.
    """
    right = (identities[found.images] == wanted[:, None]) & (found.images >= 0)
    ranks = np.where(right.any(axis=1), right.argmax(axis=1) + 1, 0)
    members = np.bincount(identities, minlength=wanted.max(initial=0) + 1)
    unknown = np.flatnonzero((ranks == 0) & (members[wanted] > (own >= 0)))
    if len(unknown):
        ranks[unknown] = _counted(
            index, identities, queries[unknown], wanted[unknown], own[unknown]
        )
    return ranks


def _counted(
    index: UnitVectors, identities: Labels, queries: UnitVectors, wanted: Labels, own: Labels
) -> Labels:
    """Count, (queries,), the images up to the first right one, which the whole index has."""
    best, place = np.full(len(queries), -np.inf), np.zeros(len(queries), np.int64)
    by_identity = np.argsort(identities, kind="stable")
    starts = np.searchsorted(identities[by_identity], np.arange(identities.max() + 2))
    for identity in np.unique(wanted):
        rows = np.flatnonzero(wanted == identity)
        # ascending, so that the first of equal ones is found
        members = by_identity[starts[identity] : starts[identity + 1]]
        places = np.where(own[rows] < 0, -1, np.searchsorted(members, own[rows]))
        for part, similarity in similarity_blocks(queries[rows], index[members], places):
            greatest = similarity.max(axis=1)
            better = np.flatnonzero(greatest > best[rows])
            best[rows[better]] = greatest[better]
            place[rows[better]] = members[part][similarity[better].argmax(axis=1)]
    ranks = np.ones(len(queries), np.int64)
    for part, similarity in similarity_blocks(queries, index, own, best):
        earlier = np.arange(part.start, part.stop) < place[:, None]
        before = (similarity > best[:, None]) | ((similarity == best[:, None]) & earlier)
        ranks += before.sum(axis=1)
    return ranks


@dataclass(frozen=True, slots=True, eq=False)
class IndexedImages:
    """The images of one side that have a direction."""

    units: UnitVectors
    """(m, dimensions)"""
    images: Labels
    """(m,), ascending."""

    @classmethod
    def of(cls, vectors: Vectors) -> IndexedImages:
        """Index the images whose vectors, (n, dimensions), are finite and not zero."""
        return cls(*unit_vectors(vectors))

    def places(self, images: Labels) -> Labels:
        """Find the place of each image, −1 if it is not here."""
        places = np.searchsorted(self.images, images)
        here = np.append(self.images, -1)[places] == images
        return np.where(here, places, -1)


@dataclass(frozen=True, slots=True, eq=False)
class SearchResults:
    """The results of queries in one index."""

    near: Labels
    """(queries, k), the nearest images first; −1 where there is none."""
    similarity: FloatArray
    """(queries, k); −∞ where there is none."""
    ranks: Labels
    """(queries,), rank of the first image of the query's identity; 0 if none is found."""

    def hits(self, most: int) -> FloatArray:
        """Mark, (queries,), by 1 those with an image of their identity among the ``most`` first."""
        return ((self.ranks > 0) & (self.ranks <= most)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Queries:
    """The images that are searched for: the same on every side, whatever the vectors are."""

    images: Labels
    """(queries,), ascending."""
    identities: Labels
    """(n,), a number of its own for each image whose identity is not known."""
    known: npt.NDArray[np.bool_]
    """(n,), whether the identity is known."""
    seed: int
    """Drew the images."""

    @classmethod
    def drawn(cls, identities: Labels, most: int, seed: int = 0) -> Queries:
        """Draw at most so many of the images, whose ``identities``, (n,), are −1 if not known."""
        known = identities >= 0
        own = np.where(known, identities, identities.max(initial=0) + np.cumsum(~known))
        drawn = np.sort(np.random.default_rng(seed).permutation(len(identities))[:most])
        return cls(drawn, own, known, seed)

    @cached_property
    def counted(self) -> npt.NDArray[np.bool_]:
        """Tell, (queries,), which have another image of their identity, so that recall has them."""
        members = np.bincount(self.identities)
        return members[self.identities[self.images]] > 1

    @property
    def why_none_counts(self) -> str:
        """Say why recall has no query; empty if it has some."""
        if self.counted.any():
            return ""
        if not self.known.any():
            return "the identities of the images are not known"
        if np.bincount(self.identities[self.known]).max() < 2:
            return "no identity has two images"
        return "no image that is searched for has another image of its identity"

    def mean(self, values: FloatArray, counted: npt.NDArray[np.bool_] | None = None) -> RatioOfSums:
        """Return the mean of values, (queries,), of all queries or those that are counted."""
        above, below = np.zeros((2, len(self.identities)))
        below[self.images] = 1.0 if counted is None else counted
        above[self.images] = values if counted is None else np.where(counted, values, 0.0)
        return RatioOfSums(above, below)

    def over_images(self, values: FloatArray) -> FloatArray:
        """Place values, (queries,), among all images, (n,); NaN for those not searched for."""
        placed = np.full(len(self.identities), np.nan)
        placed[self.images] = values
        return placed


def search(index: IndexedImages, asked: IndexedImages, queries: Queries, k: int) -> SearchResults:
    """Search an index for the ``k`` images nearest to each query, by the vectors of a side.

    A query without a direction finds nothing.
    """
    count = len(queries.images)
    found = SearchResults(
        np.full((count, k), -1), np.full((count, k), -np.inf), np.zeros(count, np.int64)
    )
    place = asked.places(queries.images)
    some = np.flatnonzero(place >= 0)
    if not (len(some) and len(index.images)):
        return found
    units, images = asked.units[place[some]], queries.images[some]
    own, wanted = index.places(images), queries.identities[images]
    near = nearest(index.units, units, own, k)
    # −1 stays −1
    found.near[some] = np.append(index.images, -1)[near.images]
    found.similarity[some] = near.similarity
    of_index = queries.identities[index.images]
    found.ranks[some] = first_right(index.units, of_index, units, wanted, own, near)
    return found
