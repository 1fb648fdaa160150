"""The loss of an embedding: its options, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

LossName = Literal["softmax", "arcface", "cosface", "circle"]
PUBLISHED: dict[str, tuple[float, float]] = {
    "softmax": (0.0, 1.0),
    "arcface": (0.5, 64.0),
    "cosface": (0.35, 64.0),
    "circle": (0.4, 80.0),
}
"""Loss → its usual margin and scale.

ArcFace: Deng et al., CVPR 2019, in radians. CosFace: Wang et al., CVPR 2018, of the cosine.
CircleLoss: Sun et al., CVPR 2020, its values for retrieval.
"""
_GREATEST = {"arcface": math.pi / 2, "cosface": 1.0, "circle": 1.0}
"""Loss → the margin that none may reach."""


@dataclass(frozen=True, slots=True)
class IdentityLoss:
    """The loss by which a model learns to place images of one identity together."""

    name: LossName
    margin: float
    scale: float
    embedding: int
    """Length of a vector."""
    sample: float = 1.0
    """Share of the other identities that a step compares an image with."""
    shard: bool = False
    """Whether each rank holds a part of the classifier."""

    @property
    def classifies(self) -> bool:
        """Whether it trains a classifier of the identities beside the model."""
        return self.name != "circle"

    def parts(self, ranks: int) -> dict[str, Any]:
        """Return what the weights depend on, for the key of a training by so many processes."""
        parts: dict[str, Any] = {
            "loss": self.name,
            "margin": self.margin,
            "scale": self.scale,
            "dimensions": self.embedding,
        }
        # each is left out where it changes nothing
        if self.sample < 1:
            parts["sample"] = self.sample
        if self.shard and ranks > 1:
            parts["shard"] = True
        return parts

    def weight_copies(self, optimiser: str, momentum: float) -> int:
        """Count the arrays of the classifier's size in a step: weights, gradient and moments."""
        return 4 if optimiser == "adamw" else 3 if momentum else 2


def misused(recipe: Any) -> Iterator[tuple[str, str]]:
    """Yield the key and the reason of each option of a recipe that does not fit its loss."""
    loss = recipe.loss
    if recipe.embedding is None:
        yield from _without_embedding(recipe)
    else:
        yield from _blended(recipe)
    if loss == "softmax":
        for key in ("margin", "scale"):
            if getattr(recipe, key) is not None:
                yield key, f"softmax has no {key}; choose loss: arcface or cosface, or remove it"
    elif recipe.margin is not None and recipe.margin >= _GREATEST[loss]:
        yield "margin", f"of {loss} is less than {_GREATEST[loss]:.4g}, not {recipe.margin:g}"
    if loss == "circle":
        reason = "circle compares the images of a batch and has no classifier; remove it"
        if recipe.sample < 1:
            yield "sample", reason
        if recipe.shard:
            yield "shard", reason
    elif recipe.shard and recipe.amp == "fp16":
        # a part of the classifier could overflow on one rank alone, and the others would go on
        yield "shard", "needs amp: bf16 or off, as fp16 skips steps on one rank alone"


def _without_embedding(recipe: Any) -> Iterator[tuple[str, str]]:
    if recipe.loss != "softmax":
        yield "loss", f"{recipe.loss} trains embeddings; set train.embedding, say to 128"
    for key, given in (("sample", recipe.sample < 1), ("shard", recipe.shard)):
        if given:
            yield key, "is of the classifier beside an embedding; set train.embedding, or remove it"


def _blended(recipe: Any) -> Iterator[tuple[str, str]]:
    for key in ("mixup", "cutmix", "label_smoothing"):
        if getattr(recipe, key):
            yield key, "gives an image several classes, and an embedding learns one identity; set 0"
