"""`TrainingImages`: the images of one training, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from alignkit.errors import TrainingError
from alignkit.train.training_draws import (
    Draws,
    chosen_path,
    draw,
    held_out,
    held_out_identities,
    shuffle,
)

if TYPE_CHECKING:
    from alignkit.experiment.train_option import Recipe
    from alignkit.plan.work import Training
    from alignkit.preprocess.normalise import Normalise

EVERY = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class PixelSource:
    """Pixels of one path."""

    pixels: npt.NDArray[Any]
    """(n, h, w, 3), ``uint8`` or ``float32``, 0..255; may be a memory map: the page cache keeps as
    much as fits, and a batch is gathered at memory speed."""
    rows: npt.NDArray[np.int64]
    """(images,), index of each image in ``pixels``."""
    normalise: Normalise

    def take(self, chosen: npt.NDArray[np.int64]) -> PixelSource:
        """Select images."""
        return PixelSource(self.pixels, self.rows[chosen], self.normalise)

    def gathered(self, chosen: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
        """Gather (n, 3, h, w), 0..255, channels last; bytes are sent to the device, not floats."""
        gathered = np.asarray(self.pixels)[self.rows[chosen]]
        return torch.from_numpy(gathered).to(device).permute(0, 3, 1, 2)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send a memory map to another process as the name of its file."""
        if isinstance(self.pixels, np.memmap):
            return _mapped, (str(self.pixels.filename), self.rows, self.normalise)
        return PixelSource, (self.pixels, self.rows, self.normalise)


def _mapped(file: str, rows: npt.NDArray[np.int64], normalise: Normalise) -> PixelSource:
    return PixelSource(np.load(file, mmap_mode="r"), rows, normalise)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """Pixels, labels and ids of the images that every path decoded."""

    sources: tuple[PixelSource, ...]
    """One path, or several for a mix."""
    labels: Sequence[int]
    """(images,)"""
    ids: Sequence[str]
    """(images,)"""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> tuple[int, int]:
        """Return (height, width) in pixels."""
        height, width = self.sources[0].pixels.shape[1:3]
        return height, width

    def take(self, chosen: npt.NDArray[np.int64], *, paths: int | None = None) -> TrainingImages:
        """Select images, along all or the first ``paths`` of the paths."""
        return TrainingImages(
            tuple(source.take(chosen) for source in self.sources[:paths]),
            [self.labels[index] for index in chosen],
            [self.ids[index] for index in chosen],
        )

    def epoch(
        self,
        *,
        seed: int,
        epoch: int,
        recipe: Recipe,
        device: torch.device,
        bounds: Sequence[tuple[int, int]],
        share: slice = EVERY,
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield a share of every batch: (n, 3, h, w) float32, normalised, and (n,) int64 labels.

        The augmentation of an image follows from (seed, epoch, id) alone, in any rank's share.
        """
        augment = recipe.augment
        order = shuffle(seed=seed, epoch=epoch, ids=self.ids)
        # drawn for every image at once, and only where they decide something
        changes = bool(augment.flip or augment.crop)
        draws = draw(augment, seed=seed, epoch=epoch, ids=self.ids) if changes else None
        mixed = len(self.sources) > 1
        paths = (
            chosen_path(seed=seed, epoch=epoch, ids=self.ids, paths=len(self.sources))
            if mixed
            else None
        )
        labels = torch.tensor(self.labels, dtype=torch.int64)
        normalisers = [tensor_normaliser(each.normalise, device) for each in self.sources]

        def load(path: int, chosen: npt.NDArray[np.int64]) -> torch.Tensor:
            batch = self.sources[path].gathered(chosen, device)
            if draws is not None:
                batch = apply(batch, draws[chosen], crop=augment.crop)
            return _laid_out(normalisers[path](batch), recipe)

        for start, stop in bounds:
            chosen = order[start:stop][share]
            batch = load(0, chosen) if paths is None else _mixed(chosen, paths[chosen], load)
            yield batch, labels[torch.from_numpy(chosen)].to(device)

    def plain(
        self, recipe: Recipe, device: torch.device, share: slice
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield a share of the batches, in order and not augmented, along the first path."""
        source = self.sources[0]
        labels = torch.tensor(self.labels, dtype=torch.int64)
        normalised = tensor_normaliser(source.normalise, device)
        for start in range(0, len(self), recipe.batch_size)[share]:
            chosen = np.arange(start, min(start + recipe.batch_size, len(self)))
            batch = normalised(source.gathered(chosen, device))
            yield _laid_out(batch, recipe), labels[chosen[0] : chosen[-1] + 1].to(device)


def _mixed(
    chosen: npt.NDArray[np.int64],
    paths: npt.NDArray[np.int64],
    load: Callable[[int, npt.NDArray[np.int64]], torch.Tensor],
) -> torch.Tensor:
    """Load each image from its own path, in the order of ``chosen``."""
    used = [(path, np.flatnonzero(paths == path)) for path in np.unique(paths)]
    parts = [load(path, chosen[places]) for path, places in used]
    back = np.concatenate([places for _, places in used]).argsort()
    return torch.cat(parts)[torch.from_numpy(back).to(parts[0].device)]


def apply(images: torch.Tensor, draws: Draws, *, crop: int) -> torch.Tensor:
    """Pad by ``crop`` zeros on each side, cut out each sample's own window and mirror it.

    The images are (n, 3, h, w) of any dtype, 0..255 before normalisation; the result has the same
    shape and dtype, channels last. The padding is black, as that of torchvision's
    ``RandomCrop(padding=…)`` before ``ToTensor``.
    """
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


def _laid_out(batch: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    return batch if recipe.channels_last else batch.contiguous()


def batch_bounds(count: int, size: int, least: int = 2) -> list[tuple[int, int]]:
    """List (start, stop) of every batch; a last one of fewer than ``least`` joins the one before.

    Batch normalisation has no variance over one image of one pixel, so each rank needs two images.
    """
    starts = list(range(0, count, size))
    if len(starts) > 1 and count - starts[-1] < least:
        starts.pop()
    return list(zip(starts, [*starts[1:], count], strict=True))


def tensor_normaliser(
    normalise: Normalise, device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return `Normalise` for tensors, equal to the bit: (n, 3, h, w) 0..255 → float32.

    On a CPU ``uint8`` is looked up, in a third of the time: it has 256 levels.
    """
    mean = torch.tensor(normalise.mean, dtype=torch.float32, device=device)[:, None, None]
    std = torch.tensor(normalise.std, dtype=torch.float32, device=device)[:, None, None]

    def computed(images: torch.Tensor) -> torch.Tensor:
        return images.to(torch.float32, copy=True).div_(255.0).sub_(mean).div_(std)

    if device.type != "cpu":
        return computed
    import cv2

    levels = torch.arange(256, dtype=torch.uint8).expand(3, 1, 256)
    table = computed(levels).permute(1, 2, 0).contiguous().numpy()

    def looked_up(images: torch.Tensor) -> torch.Tensor:
        count, _, height, width = images.shape
        pixels = images.permute(0, 2, 3, 1)
        if images.dtype != torch.uint8 or not pixels.is_contiguous():
            return computed(images)
        rows: Any = cv2.LUT(pixels.reshape(-1, width, 3).numpy(), table)
        return torch.from_numpy(rows).view(count, height, width, 3).permute(0, 3, 1, 2)

    return looked_up


@dataclass(frozen=True, slots=True)
class SplitImages:
    """Images to train on, and those held out."""

    rest: TrainingImages
    held_out: TrainingImages | None
    """Scored after every epoch and never trained on, along the first path."""
    classes: Sequence[str]
    """Names of the labels of ``rest``; of an embedding, the identities that are trained on."""


def split_images(
    training: Training, recipe: Recipe, images: TrainingImages, classes: Sequence[str]
) -> SplitImages:
    """Hold out images of every class or, for an embedding, whole identities.

    Raise `TrainingError` if the share of ``holdout`` is too small to score on, or an embedding has
    fewer than two identities to train on.
    """
    if recipe.identities:
        return _split_identities(training, recipe, images, classes)
    if not recipe.holdout:
        return SplitImages(images, None, classes)
    held = held_out(recipe.holdout, seed=training.seed, labels=images.labels, ids=images.ids)
    if not len(held):
        raise TrainingError(
            f"{training.label}: train.holdout {recipe.holdout:g} of {len(images)} images is none "
            "of any class; raise it"
        )
    rest = np.setdiff1d(np.arange(len(images)), held)
    return SplitImages(images.take(rest), images.take(held, paths=1), classes)


def _split_identities(
    training: Training, recipe: Recipe, images: TrainingImages, classes: Sequence[str]
) -> SplitImages:
    """Hold out identities; number the others that have images from 0."""
    labels = np.asarray(images.labels)
    present, counts = np.unique(labels, return_counts=True)
    names = [classes[label] for label in present]
    drawn = held_out_identities(recipe.holdout, seed=training.seed, names=names)
    kept = np.setdiff1d(np.arange(len(present)), drawn)
    if len(kept) < 2:
        raise TrainingError(
            f"{training.label}: {len(kept)} identities to train on; an embedding needs two or more"
        )
    if recipe.holdout and (len(drawn) < 2 or counts[drawn].max() < 2):
        raise TrainingError(
            f"{training.label}: train.holdout {recipe.holdout:g} of {len(present)} identities is "
            f"{len(drawn)}; raise it to two or more, of which one has two images"
        )
    place = np.full(len(classes), -1)
    place[present[kept]] = np.arange(len(kept))
    places = place[labels]
    chosen = places >= 0
    rest = replace(images.take(np.flatnonzero(chosen)), labels=places[chosen].tolist())
    held = images.take(np.flatnonzero(~chosen), paths=1) if recipe.holdout else None
    return SplitImages(rest, held, [names[index] for index in kept])
