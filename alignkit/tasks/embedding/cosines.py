"""Cosine and norm of an image's two embeddings, and weighted quantiles over images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.answers import RatioOfSums, Weights
from alignkit.tasks.embedding.unit_vectors import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class QuantileOf:
    """The least value that a share of the images does not exceed; NaN values do not count."""

    values: FloatArray
    """(images,)"""
    share: float

    def of(self, weights: Weights) -> FloatArray:
        """Compute it, (draws,): the inverse of the weighted distribution function."""
        known = np.flatnonzero(~np.isnan(self.values))
        if not len(known):
            return np.full(weights.shape[1], np.nan)
        order = known[np.argsort(self.values[known], kind="stable")]
        sums = np.cumsum(weights[order], axis=0, dtype=np.float64)
        at = (sums < self.share * sums[-1]).sum(axis=0)
        found: FloatArray = np.where(sums[-1] > 0, self.values[order][at], np.nan)
        return found


def cosines(one: Vectors, other: Vectors) -> FloatArray:
    """Compute the cosine of the two vectors of each image, (images,).

    It is exactly 1 where both are equal, and NaN where one of them is zero or not finite.
    """
    mine, theirs = (each.astype(np.float64) for each in (one, other))
    norms = np.sqrt(np.vecdot(mine, mine)) * np.sqrt(np.vecdot(theirs, theirs))
    known = np.isfinite(norms) & (norms > 0)
    found: FloatArray = np.full(len(one), np.nan)
    with np.errstate(invalid="ignore"):  # of vectors that are not finite
        np.divide(np.vecdot(mine, theirs), norms, out=found, where=known)
    found[known & (one == other).all(axis=1)] = 1.0
    return np.clip(found, -1.0, 1.0)


def cosine_measures(one: Vectors, other: Vectors) -> dict[str, RatioOfSums | QuantileOf]:
    """Compute ``cosine``, ``cosine.p01`` and ``norm``, over the images with both directions."""
    cosine = cosines(one, other)
    known = ~np.isnan(cosine)
    norms = [np.linalg.norm(each[known].astype(np.float64), axis=1) for each in (one, other)]
    change = np.zeros(len(one))
    change[known] = norms[1] / norms[0] - 1
    below = known.astype(np.float64)
    return {
        "cosine": RatioOfSums(np.where(known, cosine, 0.0), below),
        "cosine.p01": QuantileOf(cosine, 0.01),
        "norm": RatioOfSums(change, below),
    }
