"""A rotation of the candidate's vectors into the space of the reference, tested on other images.

Orthogonal Procrustes (Schönemann, Psychometrika 31, 1966): of all orthogonal matrices, the one that
brings the fitted images nearest to their reference in the sum of squares. Images that span fewer
dimensions than the vectors have leave it undetermined in the others; of the matrices that fit
equally well, the one nearest to the identity is taken, which leaves those directions as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.tasks.embedding.unit_vectors import UnitVectors, rounded

_ROWS = 4096
"""Vectors in float64 at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """An orthogonal matrix by which vectors are multiplied from the right."""

    matrix: FloatArray
    """(dimensions, dimensions)"""
    rank: int
    """Dimensions that the fitted images determine."""

    def apply(self, vectors: UnitVectors) -> UnitVectors:
        """Rotate vectors, (images, dimensions)."""
        found = np.empty_like(vectors)
        for start in range(0, len(vectors), _ROWS):
            part = slice(start, start + _ROWS)
            found[part] = rounded(vectors[part].astype(np.float64) @ self.matrix)
        return found


def fitted_rotation(source: UnitVectors, target: UnitVectors) -> Rotation:
    """Fit the rotation of ``source`` to ``target``, (images, dimensions) of the same images."""
    dimensions = source.shape[1]
    product = np.zeros((dimensions, dimensions))
    for start in range(0, len(source), _ROWS):
        part = slice(start, start + _ROWS)
        product += source[part].T.astype(np.float64) @ target[part].astype(np.float64)
    left, sizes, right = np.linalg.svd(product)
    # components are rounded to 2⁻²⁶, so a smaller part of the greatest is no direction
    rank = int((sizes > sizes[0] * dimensions * 2.0**-26).sum())
    if np.array_equal(source, target):
        return Rotation(np.eye(dimensions), rank)
    free_left, free_right = left[:, rank:], right[rank:]
    inner_left, _, inner_right = np.linalg.svd(free_left.T @ free_right.T)
    free = free_left @ (inner_left @ inner_right) @ free_right
    return Rotation(left[:, :rank] @ right[:rank] + free, rank)
