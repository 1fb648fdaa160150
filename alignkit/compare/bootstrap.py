"""Paired bootstrap: images drawn with replacement, with the same draws for every side and seed.

The image is the cluster: a draw takes it with the predictions of all seeds, and the estimate is the
mean over seeds. A resample is a weight for each image, the number of its draws: Multinomial(n,
1/n). All comparisons of n images share one matrix of weights, made from the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import sparse

from alignkit.arrays import FloatArray, Labels

RESAMPLES = 2_000
BLOCK_BYTES = 32 << 20  # float32 weights multiplied at a time
KEPT_BYTES = 112 << 20  # one-byte weights kept for the next comparison; more are drawn again


def resampled_counts(
    members: sparse.csr_matrix, *, resamples: int = RESAMPLES, seed: int = 0
) -> FloatArray:
    """Count, (groups, resamples), the members (groups, n) that each resample drew.

    Float32 counts exactly up to 2²⁴ images.
    """
    blocks = [members @ weights for weights in resample_weights(members.shape[1], resamples, seed)]
    return np.concatenate(blocks, axis=1).astype(np.float64)


def indicators(group: Labels, groups: int, weights: npt.NDArray[np.bool_]) -> sparse.csr_matrix:
    """Mark, (groups, n), the group (n,) of each image where ``weights`` is true."""
    images = np.flatnonzero(weights)
    ones = np.ones(len(images), np.float32)
    return sparse.csr_matrix((ones, (group[images], images)), shape=(groups, len(group)))


def resample_weights(n: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.float32]]:
    """Yield blocks (n, part) of (n, resamples): the number of draws of each image."""
    part = max(1, BLOCK_BYTES // (4 * n))
    if n * resamples <= KEPT_BYTES:
        kept = _kept(n, resamples, seed)
        for start in range(0, resamples, part):
            yield kept[start : start + part].T.astype(np.float32, order="C")
        return
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, part):
        drawn = _draw(generator, n, min(part, resamples - start))
        yield drawn.T.astype(np.float32, order="C")


# comparisons that follow each other are of the same images and seed
@lru_cache(maxsize=1)
def _kept(n: int, resamples: int, seed: int) -> npt.NDArray[np.uint8]:
    drawn = _draw(np.random.default_rng(seed), n, resamples)
    drawn.flags.writeable = False
    return drawn


def _draw(generator: np.random.Generator, n: int, resamples: int) -> npt.NDArray[np.uint8]:
    """Draw (resamples, n) counts; one byte is enough, as 256 draws of an image do not occur."""
    drawn = np.empty((resamples, n), np.uint8)
    for row in drawn:
        # same distribution as Generator.multinomial(n, [1/n] * n), ten times as fast at n = 50,000
        row[:] = np.bincount(generator.integers(0, n, n), minlength=n)
    return drawn
