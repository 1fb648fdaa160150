"""A share of the training images: as much of every class, drawn from the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.row import FULL
from alignkit.train.augment import words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.plan import Training


def stratified(
    training: Training, labels: Sequence[int], ids: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Ascending positions of the samples that a training uses; all of them for a share of 1.

    Of each class the nearest whole number, but one image at least. It depends on the seed and the
    ids only: every path gets the same images, and a smaller share lies within a larger one.
    """
    import numpy as np

    if training.fraction == FULL:
        return np.arange(len(ids))
    drawn = words(f"fraction:{training.seed}", ids, 1)[:, 0]
    classes = np.asarray(labels)
    kept = []
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        count = max(1, round(training.fraction * len(members)))
        kept.append(members[drawn[members].argsort(kind="stable")[:count]])
    return np.sort(np.concatenate(kept))
