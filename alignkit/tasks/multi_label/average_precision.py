"""Average precision of images ranked by a score, under weights of the images.

It is no ratio of sums over images, as the rank of an image depends on the others. Ranks are those
of all images, though, whatever a draw takes: so the images are sorted once, and a draw adds up its
weights in that order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.answers import Weights
from alignkit.compare.metrics import ratio


# A mean of each image's AP would be quicker to resample, and is another number.
def average_precision(
    truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float32], weights: Weights
) -> FloatArray:
    """Compute it for each draw: (n,), (n,), (n, draws) → (draws,); NaN without a true image.

    The sum, over the scores from above, of the precision at the score times the recall that it
    adds; images of one score count together. This is scikit-learn's ``average_precision_score``
    with ``sample_weight``. A score of NaN ranks last. Weights are whole numbers, whose sums float32
    holds exactly up to 2²⁴.
    """
    from scipy import sparse

    ranked = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(-ranked, kind="stable")
    found, ranked = truth[order], ranked[order]
    # the last image of each score, and of these the ones that add to recall
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    lasts = ends[np.diff(np.cumsum(found)[ends], prepend=0) > 0] if len(ranked) else ends[:0]
    if not len(lasts):
        return np.full(weights.shape[1], np.nan)
    # between two of them, the numbers of images and of true ones are enough
    starts = np.append(0, lasts + 1)
    taken = [order[: starts[-1]], order[: starts[-1]][found[: starts[-1]]]]
    bounds = [starts, np.append(0, np.cumsum(found))[starts]]
    images, gained = (
        # a product, since a copy of the weights in order takes ten times as long
        (
            sparse.csr_matrix(
                (np.ones(len(which), np.float32), which, bound), shape=(len(lasts), len(truth))
            )
            @ weights
        ).astype(np.float64)
        for which, bound in zip(taken, bounds, strict=True)
    )
    all_images, true = np.cumsum(images, axis=0), np.cumsum(gained, axis=0)
    precision = np.divide(true, all_images, out=np.zeros_like(true), where=all_images > 0)
    return ratio((gained * precision).sum(axis=0), true[-1])
