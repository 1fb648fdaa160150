"""Random changes of training images, equal in every matched training.

A decision is a pure function of (seed, epoch, sample id): the preprocessing path, the batch size,
the order of the samples and the number of workers cannot change it. It comes from a keyed hash
(BLAKE2b) of the id, not from a generator that other draws could advance. The order of the samples
is drawn in the same way.
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

    from alignkit.experiment.train_option import Augment


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
    import numpy as np

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
    import numpy as np

    return (words(f"mix:{seed}:{epoch}", ids, 1)[:, 0] % np.uint64(paths)).astype(np.int64)


def words(key: str, ids: Sequence[str], count: int) -> npt.NDArray[np.uint64]:
    """Draw (ids, count) uniform 64-bit words; row i depends on the key and on ``ids[i]`` only."""
    import numpy as np

    secret = hashlib.blake2b(key.encode(), digest_size=32).digest()
    digests = b"".join(
        hashlib.blake2b(each.encode(), digest_size=8 * count, key=secret).digest() for each in ids
    )
    return np.frombuffer(digests, "<u8").reshape(len(ids), count)


def apply(images: torch.Tensor, draws: Draws, *, crop: int) -> torch.Tensor:
    """Pad by ``crop`` zeros on each side, cut out each sample's own window and mirror it.

    The images are (n, 3, h, w) of any dtype, 0..255 before normalisation; the result has the same
    shape and dtype, channels last. The padding is black, as that of torchvision's
    ``RandomCrop(padding=…)`` before ``ToTensor``.
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
    # crop and flip are one gather
    return pixels[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
