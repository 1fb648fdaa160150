"""Search: the images of an index that are most similar to each query, as if all were compared.

faiss names candidates by sums in float32, whose bits depend on how many queries it gets, on threads
and on the processor, and whose ties have no order. Their similarities are then computed again
(`unit_vectors`), and ordered by similarity, the earlier image first if tied. An error bound decides
which queries this settles: an image that is no candidate cannot be nearer than the last of those
found. The others, mostly of images that are equal, are compared with the whole index.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.tasks.embedding.unit_vectors import (
    UnitVectors,
    error_bound,
    pair_similarities,
    similarity_blocks,
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
