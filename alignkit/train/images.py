"""`TrainingImages`: what one training sees, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from alignkit.train.augment import apply, chosen_path, draw, shuffle

if TYPE_CHECKING:
    from alignkit.load.experiment import Augment
    from alignkit.preprocess import Normalise


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One path's pixels."""

    pixels: npt.NDArray[Any]
    """(n, h, w, 3), ``uint8`` or ``float32``, 0..255; may be a memory map: the page cache keeps
    what fits, and a batch is gathered at memory speed."""
    rows: npt.NDArray[np.int64]
    """(images,), where each image lies in ``pixels``."""
    normalise: Normalise


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """The pixels of the images that every path decoded."""

    sources: tuple[Source, ...]
    """One path; several for a mix."""
    labels: Sequence[int]
    """(images,)"""
    ids: Sequence[str]
    """(images,)"""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)"""
        height, width = self.sources[0].pixels.shape[1:3]
        return height, width

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, augment: Augment, device: torch.device
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The batches of one epoch: (n, 3, h, w) float32, normalised, and (n,) int64 labels."""
        order = shuffle(seed=seed, epoch=epoch, ids=self.ids)
        draws = draw(augment, seed=seed, epoch=epoch, ids=self.ids)
        labels = torch.tensor(self.labels, dtype=torch.int64)
        paths = chosen_path(seed=seed, epoch=epoch, ids=self.ids, paths=len(self.sources))

        def load(source: Source, chosen: npt.NDArray[np.int64]) -> torch.Tensor:
            gathered = np.asarray(source.pixels)[source.rows[chosen]]
            batch = torch.from_numpy(gathered).to(device).permute(0, 3, 1, 2)
            if augment.flip or augment.crop:
                batch = apply(batch, draws[chosen], crop=augment.crop)
            return tensor_normaliser(source.normalise, device)(batch)

        for start, stop in batch_bounds(len(self), batch_size):
            chosen = order[start:stop]
            yield (
                self._gathered(chosen, paths[chosen], load),
                labels[torch.from_numpy(chosen)].to(device),
            )

    def _gathered(
        self,
        chosen: npt.NDArray[np.int64],
        paths: npt.NDArray[np.int64],
        load: Callable[[Source, npt.NDArray[np.int64]], torch.Tensor],
    ) -> torch.Tensor:
        """Each image from its own path, in the order of ``chosen``."""
        if len(self.sources) == 1:
            return load(self.sources[0], chosen)
        used = [(path, np.flatnonzero(paths == path)) for path in np.unique(paths)]
        parts = [load(self.sources[path], chosen[places]) for path, places in used]
        back = np.concatenate([places for _, places in used]).argsort()
        return torch.cat(parts)[torch.from_numpy(back).to(parts[0].device)]


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
