"""Score of an epoch's weights on training images that were held out of the training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from alignkit.rank import Rank
from alignkit.train.step import lowered

if TYPE_CHECKING:
    from alignkit.experiment.train_option import Recipe
    from alignkit.train.images import TrainingImages


@dataclass(frozen=True, slots=True)
class Score:
    """Answers on a set of images."""

    loss: float
    """Mean cross entropy."""
    labels: list[int]
    predicted: list[int]

    @property
    def accuracy(self) -> float:
        """Compute the share of right answers."""
        right = sum(a == b for a, b in zip(self.labels, self.predicted, strict=True))
        return right / len(self.labels)

    def better_than(self, accuracy: float, loss: float) -> bool:
        """Tell whether more answers are right or, with as many right, the loss is smaller."""
        return (self.accuracy, -self.loss) > (accuracy, -loss)


def score(
    model: nn.Module, images: TrainingImages, recipe: Recipe, device: torch.device, rank: Rank
) -> Score:
    """Score every image once, not augmented, along the first path; ranks take batches in turn.

    Afterwards ``model`` has the buffers of rank 0 on every rank.
    """
    # the statistics of batch normalisation are each rank's own
    rank.broadcast_tensors(model.buffers())
    model.eval()
    answers: list[tuple[float, list[int], list[int]]] = []
    with torch.inference_mode(), lowered(recipe, device):
        for batch, labels in images.plain(recipe, device, rank.share):
            logits = model(batch).float()
            loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
            answers.append((float(loss), labels.tolist(), logits.argmax(1).tolist()))
    model.train()
    dealt = rank.gather(answers)
    every = [part for parts in dealt for part in parts]
    return Score(
        # exact, so that the number of ranks does not change the sum
        math.fsum(loss for loss, _, _ in every) / len(images),
        [label for _, labels, _ in every for label in labels],
        [answer for _, _, answers in every for answer in answers],
    )


def classification(
    labels: Sequence[int], predicted: Sequence[int], classes: Sequence[str]
) -> dict[str, Any]:
    """Compute scikit-learn's ``classification_report`` as a mapping.

    An undefined value, such as the precision of a class that was never predicted, is ``None``.
    """
    from sklearn.metrics import classification_report

    report = classification_report(
        labels,
        predicted,
        labels=range(len(classes)),
        target_names=list(classes),
        output_dict=True,
        zero_division=math.nan,
    )
    cleared: dict[str, Any] = _without_nan(report)
    return cleared


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    number = float(value)
    return None if math.isnan(number) else number
