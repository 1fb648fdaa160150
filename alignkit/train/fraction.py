"""Shares of the training images: the same share of every class, drawn from the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.place import FULL
from alignkit.train.augment import words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.plan.work import Training


def stratified(
    training: Training, labels: Sequence[int], ids: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Draw the ascending positions of the samples that a training uses; all for a share of 1.

    Each class has the nearest whole number of images, one or more. The draw depends on the seed
    and the ids only: every path uses the same images, and a smaller share lies within a larger one.
    """
    import numpy as np

    if training.fraction == FULL:
        return np.arange(len(ids))
    return _drawn(f"fraction:{training.seed}", training.fraction, labels, ids, least=1)


def held_out(
    share: float, *, seed: int, labels: Sequence[int], ids: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Draw the ascending positions of the samples that are held out of the training.

    Each class has the nearest whole number of images, but never all; every path holds out the same.
    """
    return _drawn(f"holdout:{seed}", share, labels, ids, left=1)


def _drawn(
    key: str, share: float, labels: Sequence[int], ids: Sequence[str], least: int = 0, left: int = 0
) -> npt.NDArray[np.int64]:
    import numpy as np

    drawn = words(key, ids, 1)[:, 0]
    classes = np.asarray(labels)
    kept = []
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        count = min(len(members) - left, max(least, round(share * len(members))))
        kept.append(members[drawn[members].argsort(kind="stable")[:count]])
    return np.sort(np.concatenate(kept))
