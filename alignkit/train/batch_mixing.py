"""Mixup and CutMix, drawn so that every matched training blends the same images alike."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from alignkit.experiment.recipe import Recipe


def seed_of(words: str) -> int:
    """A 63-bit seed for torch's generators."""
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little") >> 1


def mix_batch(
    batch: torch.Tensor, labels: torch.Tensor, recipe: Recipe, *, classes: int, key: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(n, 3, h, w), (n,) → the blended images and (n, classes) soft targets that sum to 1.

    One of the two blends is done where the recipe asks for both; neither, and the batch and its
    (n,) labels come back as they were. All that is random follows from ``key``; torch's global
    generator is left as it was. torchvision's ``MixUp`` (Zhang et al., ICLR 2018) and ``CutMix``
    (Yun et al., ICCV 2019): each image is blended with the one before it in the batch.
    """
    from torchvision.transforms import v2

    blends: list[tuple[type[v2.MixUp | v2.CutMix], float]] = []
    blends += [(v2.MixUp, recipe.mixup)] if recipe.mixup else []
    blends += [(v2.CutMix, recipe.cutmix)] if recipe.cutmix else []
    if not blends:
        return batch, labels
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(key))
        blend, alpha = blends[int(torch.randint(len(blends), ()))]
        mixed, targets = blend(alpha=alpha, num_classes=classes)(batch, labels)
    return mixed, targets
