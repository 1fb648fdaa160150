"""`Objective`: outputs of a model and the truth of a batch → its loss, and its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn

from alignkit.extras import require_libraries
from alignkit.train.identity_head import IdentityHead, gather_rows

if TYPE_CHECKING:
    from alignkit.experiment.train_option import IdentityLoss, Recipe
    from alignkit.rank import Rank


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a training, which all ranks take together."""

    key: str
    """Seed, epoch and number, for draws."""
    images: int
    """Images of the whole batch."""


class Objective(Protocol):
    """Loss of a batch, and the model's answers to its images."""

    @property
    def whole(self) -> bool:
        """Whether the loss is that of the whole batch, in every rank; else that of a share."""
        ...

    def __call__(
        self, outputs: torch.Tensor, targets: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the mean loss and, where there are answers, this rank's (n,) classes."""
        ...


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Cross entropy of scores of classes; the greatest is the answer."""

    label_smoothing: float
    whole: bool = False

    def __call__(
        self,
        outputs: torch.Tensor,
        targets: torch.Tensor,
        step: Step,  # noqa: ARG002 - nothing is drawn or shared
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        # in float32, whatever type the layers return: the logits are widened first
        loss = nn.functional.cross_entropy(
            outputs.float(), targets, label_smoothing=self.label_smoothing
        )
        return loss, outputs.detach().argmax(1)


@dataclass(frozen=True, slots=True)
class IdentityScores:
    """A classifier of the identities beside the model."""

    classify: Callable[..., tuple[torch.Tensor, torch.Tensor | None]]
    """An `IdentityHead`, or DDP around one."""
    whole: bool

    def __call__(
        self, outputs: torch.Tensor, targets: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.classify(outputs, targets, step)


class ComparedPairs:
    """CircleLoss of all pairs of a batch (Sun et al., CVPR 2020); it answers nothing."""

    whole = True

    def __init__(self, loss: IdentityLoss, rank: Rank) -> None:
        """Raise `MissingDependency` without pytorch-metric-learning."""
        require_libraries("pytorch_metric_learning")
        from pytorch_metric_learning.losses import CircleLoss

        self._loss = CircleLoss(m=loss.margin, gamma=loss.scale)
        self._rank = rank

    def __call__(
        self, outputs: torch.Tensor, targets: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        with torch.autocast(outputs.device.type, enabled=False):
            # every rank computes the loss of all pairs, so that the sum of the gradients has each
            # as often as DDP divides by
            embeddings = gather_rows(outputs.float(), step.images, self._rank)
            mean: torch.Tensor = self._loss(
                embeddings, gather_rows(targets, step.images, self._rank)
            )
        return mean, None


def head_of(recipe: Recipe, identities: int, seed: int, rank: Rank) -> IdentityHead | None:
    """Build the classifier of a recipe's identities, this rank's part of it if it is sharded.

    Return ``None`` if the recipe trains none beside the model.
    """
    from alignkit.rank import ALONE

    loss = recipe.identities
    if loss is None or not loss.classifies:
        return None
    return IdentityHead(loss, identities, seed, rank if loss.shard else ALONE)


def objective_of(
    recipe: Recipe, head: IdentityHead | None, device: torch.device, rank: Rank
) -> Objective:
    """Return the objective of a recipe; ``head`` is that of `head_of`, on ``device``."""
    loss = recipe.identities
    if loss is None:
        return ClassScores(recipe.label_smoothing)
    if head is None:
        return ComparedPairs(loss, rank)
    if head.rank.world < rank.world:
        from torch.nn.parallel import DistributedDataParallel

        ids = [rank.local] if device.type == "cuda" else None
        return IdentityScores(DistributedDataParallel(head, device_ids=ids), whole=False)
    return IdentityScores(head, whole=True)
