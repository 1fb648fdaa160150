"""One step of a training, its rate's schedule and blends, and the score of an epoch's weights."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from alignkit.compare.metrics import class_counts, ratio
from alignkit.rank import Rank

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray
    from alignkit.experiment.train_option import Recipe
    from alignkit.train.objective import Step
    from alignkit.train.training_images import TrainingImages
    from alignkit.train.training_state import TrainingState


def take_step(
    state: TrainingState,
    batch: torch.Tensor,
    targets: torch.Tensor,
    *,
    rate: float,
    weight: float,
    recipe: Recipe,
    step: Step,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Update the weights by one batch; return the mean loss and the (n,) answers, if any.

    ``weight`` multiplies this rank's mean loss, because DDP averages the gradients of ranks with
    unequal shares of a batch: the share's size over the mean size, 1 for a single process.
    """
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    with lowered(recipe, batch.device):
        loss, answers = state.objective(state.forward(batch), targets, step)
    state.optimiser.zero_grad()
    state.scaler.scale(loss * weight).backward()  # type: ignore[no-untyped-call]
    if recipe.clip_norm is not None:
        # gradients are clipped at their true size, without the loss's scale
        state.scaler.unscale_(state.optimiser)
        clip_gradients(state, recipe.clip_norm)
    state.scaler.step(state.optimiser)
    state.scaler.update()
    if state.average is not None:
        state.average.update_parameters(state.model)
    return loss.detach(), answers


def clip_gradients(state: TrainingState, norm: float) -> None:
    """Scale the gradient of all weights together down to ``norm``, in place.

    The weights of a sharded classifier are those of all ranks.
    """
    head = state.head
    if head is None:
        nn.utils.clip_grad_norm_(state.model.parameters(), norm)
        return
    own = [*state.model.parameters()]
    squared = head.rank.all_reduce(nn.utils.get_total_norm([head.weight.grad]) ** 2)  # type: ignore[list-item]
    gradients = [each.grad for each in own if each.grad is not None]
    total = (nn.utils.get_total_norm(gradients) ** 2 + squared).sqrt()
    nn.utils.clip_grads_with_norm_([*own, head.weight], norm, total)


def lowered(recipe: Recipe, device: torch.device) -> torch.autocast:
    """Return the context in which the forward pass has the recipe's ``amp`` precision."""
    dtype = torch.float16 if recipe.amp == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=recipe.amp != "off")


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """Compute the rate of one of ``steps`` steps: the schedule's, lower during warm-up.

    The schedules are ``constant``; ``cosine``, half a wave from the recipe's rate down to 0;
    ``step``, a tenth after every ``step_epochs``. The first step of a warm-up of n steps has 1/n of
    the rate.
    """
    rate = recipe.learning_rate
    if recipe.schedule == "cosine":
        rate = recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
    elif recipe.schedule == "step":
        epoch = step * recipe.epochs // steps
        rate = recipe.learning_rate * 0.1 ** (epoch // recipe.step_epochs)
    warm = recipe.warm_up * steps / recipe.epochs
    return rate * min(1.0, (step + 1) / warm) if warm else rate


def not_finite(
    losses: torch.Tensor, weights: Mapping[str, torch.Tensor], recipe: Recipe, epoch: int
) -> str:
    """Name the loss or weight that is infinite or NaN, with the next step; empty if none is."""
    advice = (
        f"lower train.learning_rate (now {recipe.learning_rate:g}) or check the 'normalise' of "
        "the path; no model was stored"
    )
    broken = torch.nonzero(~torch.isfinite(losses))
    if len(broken):
        batch = int(broken[0])
        return (
            f"the loss became {float(losses[batch])} in epoch {epoch + 1}, "
            f"batch {batch + 1} of {len(losses)}; {advice}"
        )
    for name, each in weights.items():
        if not bool(torch.isfinite(each).all()):
            return f"{name} is not finite after epoch {epoch + 1}; {advice}"
    return ""


def seed_of(words: str) -> int:
    """Hash words to a 63-bit seed for torch's generators."""
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little") >> 1


def mix_batch(
    batch: torch.Tensor, labels: torch.Tensor, recipe: Recipe, *, classes: int, key: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Blend (n, 3, h, w) images and (n,) labels; return soft targets (n, classes) that sum to 1.

    The blends are torchvision's ``MixUp`` (Zhang et al., ICLR 2018) and ``CutMix`` (Yun et al.,
    ICCV 2019): each image is blended with the one before it in the batch, alike in every matched
    training. If the recipe asks for both, one is drawn; if for neither, batch and labels are
    returned unchanged. All draws follow from ``key``; torch's global generator is unchanged.
    """
    if not (recipe.mixup or recipe.cutmix):
        return batch, labels
    from torchvision.transforms import v2

    blends: list[tuple[type[v2.MixUp | v2.CutMix], float]] = []
    blends += [(v2.MixUp, recipe.mixup)] if recipe.mixup else []
    blends += [(v2.CutMix, recipe.cutmix)] if recipe.cutmix else []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(key))
        blend, alpha = blends[int(torch.randint(len(blends), ()))]
        mixed, targets = blend(alpha=alpha, num_classes=classes)(batch, labels)
    return mixed, targets


@dataclass(frozen=True, slots=True)
class Score:
    """Answers on a set of images."""

    loss: float
    """Mean cross entropy; of embeddings, the mean of `NearestIdentity.apart`."""
    labels: list[int]
    predicted: list[int]
    without: int = 0
    """Of embeddings, `NearestIdentity.without`."""

    @property
    def accuracy(self) -> float:
        """Compute the share of right answers."""
        right = sum(a == b for a, b in zip(self.labels, self.predicted, strict=True))
        return right / len(self.labels)

    def better_than(self, accuracy: float, loss: float) -> bool:
        """Tell whether more answers are right or, with as many right, the loss is smaller."""
        return (self.accuracy, -self.loss) > (accuracy, -loss)


def plain_outputs(
    model: nn.Module, images: TrainingImages, recipe: Recipe, device: torch.device, rank: Rank
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield outputs in float32 and labels of images not augmented, along the first path.

    Ranks take batches in turn. Afterwards ``model`` has the buffers of rank 0 on every rank.
    """
    # the statistics of batch normalisation are each rank's own
    rank.broadcast_tensors(model.buffers())
    model.eval()
    with torch.inference_mode(), lowered(recipe, device):
        for batch, labels in images.plain(recipe, device, rank.share):
            yield model(batch).float(), labels
    model.train()


def score(
    model: nn.Module, images: TrainingImages, recipe: Recipe, device: torch.device, rank: Rank
) -> Score:
    """Score every image once by its scores of classes, as `plain_outputs` gives them."""
    answers: list[tuple[float, list[int], list[int]]] = []
    for logits, labels in plain_outputs(model, images, recipe, device, rank):
        loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
        answers.append((float(loss), labels.tolist(), logits.argmax(1).tolist()))
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
    """Compute the mapping of scikit-learn's ``classification_report``, equal to the bit.

    An undefined value, such as the precision of a class that was never predicted, is ``None``. The
    library's own function takes 13 ms an epoch, and 2 s to import.
    """
    counts = class_counts(np.asarray(labels), np.asarray(predicted), len(classes))
    right, answered, support = (
        np.asarray(each, np.float64)
        for each in (counts.true_positive, counts.predicted, counts.support)
    )
    of_class = {
        "precision": ratio(right, answered),
        "recall": ratio(right, support),
        "f1-score": ratio(2 * right, answered + support),
        "support": support,
    }
    report: dict[str, Any] = {
        title: {name: _defined(values[number]) for name, values in of_class.items()}
        for number, title in enumerate(classes)
    }
    report["accuracy"] = float(right.sum() / support.sum())
    for average, weights in (("macro", None), ("weighted", support)):
        means = {name: _mean(values, weights) for name, values in of_class.items()}
        report[f"{average} avg"] = {**means, "support": float(support.sum())}
    return report


def _mean(values: FloatArray, weights: FloatArray | None) -> float | None:
    """Average the values that are defined, as scikit-learn does; ``None`` if none is.

    Weights that are all zero are ignored.
    """
    known = ~np.isnan(values)
    if not known.any():
        return None
    if weights is None:
        return float(np.nanmean(values))
    used = weights[known] if weights[known].any() else None
    return float(np.average(values[known], weights=used))


def _defined(value: FloatArray) -> float | None:
    return None if np.isnan(value) else float(value)
