"""Queries: the images of a data set that are searched for in an index of it, leave-one-out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import RatioOfSums
from alignkit.tasks.embedding.nearest import first_right, nearest
from alignkit.tasks.embedding.unit_vectors import UnitVectors, Vectors, unit_vectors


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
