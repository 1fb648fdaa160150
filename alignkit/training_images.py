"""`TrainingImages`: what one training sees, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from alignkit.augment import apply, draw, shuffle

if TYPE_CHECKING:
    from alignkit.experiment import Augment
    from alignkit.preprocess import Normalise


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """One path's pixels of the images that every path decoded."""

    pixels: npt.NDArray[Any]
    """(n, h, w, 3), ``uint8`` or ``float32``, 0..255; may be a memory map: the page cache keeps
    what fits, and a batch is gathered at memory speed."""
    rows: npt.NDArray[np.int64]
    """(images,), where each image lies in ``pixels``."""
    labels: Sequence[int]
    """(images,)"""
    ids: Sequence[str]
    """(images,)"""
    normalise: Normalise

    def __len__(self) -> int:
        return len(self.ids)

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, augment: Augment, device: torch.device
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The batches of one epoch: (n, 3, h, w) float32, normalised, and (n,) int64 labels."""
        order = shuffle(seed=seed, epoch=epoch, ids=self.ids)
        draws = draw(augment, seed=seed, epoch=epoch, ids=self.ids)
        labels = torch.tensor(self.labels, dtype=torch.int64)
        normalise = tensor_normaliser(self.normalise, device)
        for start, stop in batch_bounds(len(self), batch_size):
            chosen = order[start:stop]
            gathered = np.asarray(self.pixels)[self.rows[chosen]]
            batch = torch.from_numpy(gathered).to(device).permute(0, 3, 1, 2)
            if augment.flip or augment.crop:
                batch = apply(batch, draws[chosen], crop=augment.crop)
            yield normalise(batch), labels[torch.from_numpy(chosen)].to(device)


def batch_bounds(count: int, size: int) -> list[tuple[int, int]]:
    """(start, stop) of every batch; a last one of a single image joins the one before it.

    Batch normalisation has no variance over one image of one pixel.
    """
    starts = list(range(0, count, size))
    if len(starts) > 1 and count - starts[-1] == 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], count], strict=True))


def tensor_normaliser(
    normalise: Normalise, device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """`Normalise` on tensors, to the same bits: (n, 3, h, w) 0..255 → float32."""
    mean = torch.tensor(normalise.mean, dtype=torch.float32, device=device)[:, None, None]
    std = torch.tensor(normalise.std, dtype=torch.float32, device=device)[:, None, None]
    return lambda images: images.to(torch.float32, copy=True).div_(255.0).sub_(mean).div_(std)
