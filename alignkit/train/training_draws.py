"""Random draws of a training, equal in every matched one: augmentation, order, path, share.

A decision is a pure function of (seed, epoch, sample id): the preprocessing path, the batch size,
the order of the samples and the number of workers cannot change it. It comes from a keyed hash
(BLAKE2b) of the id, not from a generator that other draws could advance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.place import FULL

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.experiment.train_option import Augment
    from alignkit.plan.work import Training


@dataclass(frozen=True, slots=True)
class Draws:
    """Decisions of one epoch, one entry for each sample."""

    flip: npt.NDArray[np.bool_]
    """Whether to mirror left to right."""
    top: npt.NDArray[np.int64]
    """First row of the crop in the padded image, 0..2·crop."""
    left: npt.NDArray[np.int64]
    """First column, likewise."""

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Draws:
        return Draws(self.flip[indices], self.top[indices], self.left[indices])


def draw(augment: Augment, *, seed: int, epoch: int, ids: Sequence[str]) -> Draws:
    """Decide every sample's changes in one epoch.

    A flip has probability ``augment.flip`` to within 2⁻⁵³; offsets are uniform over 0..2·crop to
    within 2⁻⁴⁸.
    """
    drawn = words(f"augment:{seed}:{epoch}", ids, 3)
    offsets = (drawn[:, 1:] % np.uint64(2 * augment.crop + 1)).astype(np.int64)
    # 53 bits, which a float64 holds exactly
    uniform = (drawn[:, 0] >> np.uint64(11)) * 2.0**-53
    return Draws(uniform < augment.flip, offsets[:, 0], offsets[:, 1])


def shuffle(*, seed: int, epoch: int, ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Draw the order in which an epoch visits the samples, a permutation of their indices."""
    return words(f"order:{seed}:{epoch}", ids, 1)[:, 0].argsort(kind="stable")


def chosen_path(*, seed: int, epoch: int, ids: Sequence[str], paths: int) -> npt.NDArray[np.int64]:
    """Draw, (ids,), the path of each sample of a mix, in 0..paths-1; uniform to within 2⁻⁵⁰."""
    return (words(f"mix:{seed}:{epoch}", ids, 1)[:, 0] % np.uint64(paths)).astype(np.int64)


def stratified(
    training: Training, labels: Sequence[int], ids: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Draw the ascending positions of the samples that a training uses; all for a share of 1.

    Each class has the nearest whole number of images, one or more. The draw depends on the seed
    and the ids only: every path uses the same images, and a smaller share lies within a larger one.
    """
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


def held_out_identities(share: float, *, seed: int, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Draw the ascending positions of the identities that are held out, the nearest whole number.

    The draw depends on the seed and the names only: every path holds out the same.
    """
    drawn = words(f"holdout:{seed}", names, 1)[:, 0]
    return np.sort(drawn.argsort(kind="stable")[: round(share * len(names))])


def _drawn(
    key: str, share: float, labels: Sequence[int], ids: Sequence[str], least: int = 0, left: int = 0
) -> npt.NDArray[np.int64]:
    drawn = words(key, ids, 1)[:, 0]
    classes = np.asarray(labels)
    kept = []
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        # of each class alike, so that a small share keeps the balance
        count = min(len(members) - left, max(least, round(share * len(members))))
        kept.append(members[drawn[members].argsort(kind="stable")[:count]])
    return np.sort(np.concatenate(kept))


def words(key: str, ids: Sequence[str], count: int) -> npt.NDArray[np.uint64]:
    """Draw (ids, count) uniform 64-bit words; row i depends on the key and on ``ids[i]`` only."""
    secret = hashlib.blake2b(key.encode(), digest_size=32).digest()
    digests = b"".join(
        hashlib.blake2b(each.encode(), digest_size=8 * count, key=secret).digest() for each in ids
    )
    return np.frombuffer(digests, "<u8").reshape(len(ids), count)
