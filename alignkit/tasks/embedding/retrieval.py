"""Search results of two sides: queries of either one in an index of either one, leave-one-out.

`Retrieval` has four cells. The index of the reference with its own queries is the first, to which
the others are compared; with the queries of the candidate it is *kept*, as in production after a
change; the candidate's index with its own queries is *rebuilt*. Each number is one of weights of
images: a draw weighs the queries, and the index has the same images in every draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import RatioOfSums, Weights
from alignkit.tasks.embedding.queries import IndexedImages, Queries, SearchResults, search
from alignkit.tasks.embedding.unit_vectors import Vectors

SearchSide: TypeAlias = Literal["reference", "candidate"]
SearchCell: TypeAlias = tuple[SearchSide, SearchSide]
"""The sides of the index and of the queries."""
FIRST: SearchCell = ("reference", "reference")
KEPT_INDEX: SearchCell = ("reference", "candidate")
REBUILT: SearchCell = ("candidate", "candidate")
CELLS: tuple[SearchCell, ...] = (FIRST, KEPT_INDEX, ("candidate", "reference"), REBUILT)


@dataclass(frozen=True, slots=True, eq=False)
class MedianOf:
    """The median of values that some of the images have."""

    values: FloatArray
    """(some,)"""
    images: Labels
    """(some,), the image of each value."""

    def of(self, weights: Weights) -> FloatArray:
        """Compute the median, (draws,); the mean of the middle two where half is below each."""
        if not len(self.values):
            return np.full(weights.shape[1], np.nan)
        order = np.argsort(self.values)
        values, last = self.values[order], len(order) - 1
        sums = np.cumsum(weights[self.images[order]], axis=0, dtype=np.float64)
        low, high = ((sums < sums[-1] / 2), (sums <= sums[-1] / 2))
        ends = [values[np.minimum(each.sum(axis=0), last)] for each in (low, high)]
        return np.where(sums[-1] > 0, (ends[0] + ends[1]) / 2, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Retrieval:
    """The results of the four cells."""

    queries: Queries
    cells: dict[SearchCell, SearchResults]
    k: int
    """Neighbours that are compared."""
    lacking: tuple[int, int]
    """Images of the reference and of the candidate whose vectors have no direction."""
    equal: bool
    """Whether both sides have the same vectors."""

    def recall(self, cell: SearchCell, most: int) -> RatioOfSums:
        """Compute the share of queries with an image of their identity among the ``most`` first."""
        return self.queries.mean(self.cells[cell].hits(most), self.queries.counted)

    def recall_change(self, cell: SearchCell, most: int) -> RatioOfSums:
        """Subtract the recall of the first cell from that of another one."""
        change = self.cells[cell].hits(most) - self.cells[FIRST].hits(most)
        return self.queries.mean(change, self.queries.counted)

    def overlap(self, cell: SearchCell) -> RatioOfSums:
        """Compute the share of the first cell's neighbours that another cell has too."""
        ours, theirs = (self.cells[each].near for each in (FIRST, cell))
        both = ((ours[:, :, None] == theirs[:, None]) & (ours >= 0)[:, :, None]).any(axis=2)
        most = np.maximum((ours >= 0).sum(axis=1), (theirs >= 0).sum(axis=1))
        # of two searches that find nothing, neither lacks anything
        shares = np.where(most > 0, both.sum(axis=1) / np.maximum(most, 1), 1.0)
        return self.queries.mean(shares)

    def changed(self, cell: SearchCell) -> npt.NDArray[np.bool_]:
        """Tell, (queries,), whose nearest image is not that of the first cell."""
        ours, theirs = (self.cells[each].near[:, 0] for each in (FIRST, cell))
        return np.asarray(ours != theirs)

    def churned(self, cell: SearchCell) -> RatioOfSums:
        """Compute the share of queries whose nearest image is not that of the first cell."""
        return self.queries.mean(self.changed(cell).astype(np.float64))

    def rank_change(self, cell: SearchCell) -> MedianOf:
        """Compute the median change of the rank of the first image of a query's identity.

        Where none is found, the rank is one more than the number of images.
        """
        last = len(self.queries.identities) + 1
        ours, theirs = (self.cells[each].ranks for each in (FIRST, cell))
        change = np.where(theirs > 0, theirs, last) - np.where(ours > 0, ours, last)
        counted = self.queries.counted
        return MedianOf(change[counted].astype(np.float64), self.queries.images[counted])

    def measures(self) -> dict[str, RatioOfSums]:
        """Return what the task compares two sides by, by name."""
        return {
            "recall@1.kept": self.recall_change(KEPT_INDEX, 1),
            f"overlap@{self.k}": self.overlap(KEPT_INDEX),
            "neighbour_churn": self.churned(KEPT_INDEX),
        }


def own_search(vectors: Vectors, queries: Queries, k: int) -> SearchResults:
    """Search the index of one side, (n, dimensions), for its own queries."""
    indexed = IndexedImages.of(vectors)
    return search(indexed, indexed, queries, k)


def retrieval(
    vectors: tuple[Vectors, Vectors],
    own: tuple[SearchResults, SearchResults],
    queries: Queries,
    k: int,
) -> Retrieval:
    """Search the index of each side, (n, dimensions), for the queries of the other.

    ``own`` are the results of `own_search` of the reference and of the candidate.
    """
    equal = vectors[0] is vectors[1] or np.array_equal(*vectors, equal_nan=True)
    reference = IndexedImages.of(vectors[0])
    candidate = reference if equal else IndexedImages.of(vectors[1])
    kept, swapped = own if equal else (
        search(reference, candidate, queries, k), search(candidate, reference, queries, k)
    )  # fmt: skip
    lacking = [len(vectors[0]) - len(side.images) for side in (reference, candidate)]
    return Retrieval(
        queries,
        dict(zip(CELLS, (own[0], kept, swapped, own[1]), strict=True)),
        k,
        (lacking[0], lacking[1]),
        equal,
    )
