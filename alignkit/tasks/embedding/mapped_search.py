"""Recall of queries that a rotation maps into the kept index, on images it was not fitted on.

One half of the identities, drawn by seed, fits the rotation. The index and the queries of the test
are images of the other half alone, so that no number is one of an image that the rotation saw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import RatioOfSums
from alignkit.tasks.embedding.queries import IndexedImages, Queries, search
from alignkit.tasks.embedding.rotation import fitted_rotation

UNTESTED = (
    "a rotation is fitted on one half of the identities and tested on the other: there are too few "
    "with two images, or with a direction on both sides"
)


@dataclass(frozen=True, slots=True, eq=False)
class MappedSearch:
    """Recall@1 of the half of the identities on which a rotation is tested."""

    first: RatioOfSums
    """Index and queries of the reference."""
    kept: RatioOfSums
    """Its change where the candidate's queries are searched as they are."""
    mapped: RatioOfSums
    """Its change where they are rotated first."""
    fitted: int
    """Images that the rotation was fitted on."""
    tested: int
    """Images of the index in the test."""
    of_queries: Labels
    """(queries,), those of the test that have another image of their identity."""
    rank: int
    """Dimensions that the fitted images determine."""
    reason: str = ""
    """Why nothing was tested."""


def mapped_search(
    reference: IndexedImages, candidate: IndexedImages, queries: Queries
) -> MappedSearch:
    """Fit a rotation of the candidate to the reference and test it.

    The seed of the queries draws the halves.
    """
    fit = _fitting_half(queries)
    fitted = np.intersect1d(reference.images, candidate.images)
    fitted = fitted[fit[fitted]]
    counted = queries.counted & ~fit[queries.images]
    tested = replace(queries, images=queries.images[counted])
    index = reference.only(~fit)

    def result(values: list[FloatArray], rank: int, reason: str = "") -> MappedSearch:
        measured = counted & (not reason)
        first, kept, mapped = (queries.mean(each, measured) for each in values)
        sizes = len(fitted), len(index.images), tested.images, rank
        return MappedSearch(first, kept, mapped, *sizes, reason)

    if not (len(fitted) and counted.any()):
        return result([np.zeros(len(counted))] * 3, 0, queries.why_none_counts or UNTESTED)
    rotation = fitted_rotation(
        candidate.units[candidate.places(fitted)], reference.units[reference.places(fitted)]
    )
    asked = candidate.only(np.isin(np.arange(len(fit)), tested.images))
    rotated = IndexedImages(rotation.apply(asked.units), asked.images)

    def hits(side: IndexedImages) -> FloatArray:
        values = np.zeros(len(counted))
        values[counted] = search(index, side, tested, 1).hits(1)
        return values

    first = hits(reference)
    return result([first, hits(asked) - first, hits(rotated) - first], rotation.rank)


def _fitting_half(queries: Queries) -> npt.NDArray[np.bool_]:
    """Mark, (n,), the images of the identities that the rotation is fitted on."""
    identities = np.unique(queries.identities)
    # a stream of its own: the draw of the queries has the plain seed
    order = np.random.default_rng([queries.seed, 1]).permutation(identities)
    return np.isin(queries.identities, order[: len(identities) // 2])
