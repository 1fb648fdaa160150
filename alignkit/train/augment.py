"""Random changes of training images, drawn so that every matched training sees the same ones.

A decision is a pure function of (seed, epoch, sample id): the preprocessing path, the batch size,
the order of the samples and the number of workers cannot change it. Each comes from a keyed hash
(BLAKE2b) of the id, not from a generator that others could advance. The order of the samples is
drawn in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from alignkit.experiment.recipe import Augment


@dataclass(frozen=True, slots=True)
class Draws:
    """The decisions of one epoch, one entry a sample."""

    flip: npt.NDArray[np.bool_]
    """Mirror left to right."""
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
    import numpy as np

    drawn = words(f"augment:{seed}:{epoch}", ids, 3)
    offsets = (drawn[:, 1:] % np.uint64(2 * augment.crop + 1)).astype(np.int64)
    uniform = (drawn[:, 0] >> np.uint64(11)) * 2.0**-53
    return Draws(uniform < augment.flip, offsets[:, 0], offsets[:, 1])


def shuffle(*, seed: int, epoch: int, ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """The order in which an epoch visits the samples: a permutation of their indices."""
    return words(f"order:{seed}:{epoch}", ids, 1)[:, 0].argsort(kind="stable")


def chosen_path(*, seed: int, epoch: int, ids: Sequence[str], paths: int) -> npt.NDArray[np.int64]:
    """(ids,): which of so many paths each sample of a mix comes from; uniform to within 2⁻⁵⁰."""
    import numpy as np

    return (words(f"mix:{seed}:{epoch}", ids, 1)[:, 0] % np.uint64(paths)).astype(np.int64)


def words(key: str, ids: Sequence[str], count: int) -> npt.NDArray[np.uint64]:
    """(ids, count) uniform 64-bit words; row i depends on the key and on ``ids[i]`` only."""
    import numpy as np

    secret = hashlib.blake2b(key.encode(), digest_size=32).digest()
    digests = b"".join(
        hashlib.blake2b(each.encode(), digest_size=8 * count, key=secret).digest() for each in ids
    )
    return np.frombuffer(digests, "<u8").reshape(len(ids), count)


def apply(images: torch.Tensor, draws: Draws, *, crop: int) -> torch.Tensor:
    """Pad by ``crop`` zeros on each side, cut each sample's own window out and mirror it.

    (n, 3, h, w) of any dtype, 0..255 before normalisation → the same shape and dtype, channels
    last: the padding is black, as torchvision's ``RandomCrop(padding=…)`` before ``ToTensor``.
    """
    import torch

    count, _, height, width = images.shape
    device = images.device
    pixels = images.permute(0, 2, 3, 1)
    if crop:
        padded = pixels.new_zeros(count, height + 2 * crop, width + 2 * crop, pixels.shape[3])
        padded[:, crop : crop + height, crop : crop + width] = pixels
        pixels = padded
    flip = torch.from_numpy(draws.flip).to(device)[:, None]
    rows = torch.from_numpy(draws.top).to(device)[:, None] + torch.arange(height, device=device)
    steps = torch.arange(width, device=device).expand(count, width)
    steps = torch.where(flip, width - 1 - steps, steps)
    columns = torch.from_numpy(draws.left).to(device)[:, None] + steps
    sample = torch.arange(count, device=device)[:, None, None]
    return pixels[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
