"""One step of a training: batch mixing, forward, backward, update, and the rate's schedule."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from alignkit.experiment.train_option import Recipe
    from alignkit.train.state import TrainingState


def take_step(
    state: TrainingState,
    batch: torch.Tensor,
    targets: torch.Tensor,
    *,
    rate: float,
    weight: float,
    recipe: Recipe,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Update the weights by one batch; return the mean loss and the (n, classes) logits.

    ``weight`` multiplies this rank's mean loss, because DDP averages the gradients of ranks with
    unequal shares of a batch: the share's size over the mean size, 1 for a single process.
    """
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    with lowered(recipe, batch.device):
        logits = state.forward(batch)
        loss = nn.functional.cross_entropy(
            logits.float(), targets, label_smoothing=recipe.label_smoothing
        )
    state.optimiser.zero_grad()
    state.scaler.scale(loss * weight).backward()  # type: ignore[no-untyped-call]
    if recipe.clip_norm is not None:
        # gradients are clipped at their true size, without the loss's scale
        state.scaler.unscale_(state.optimiser)
        nn.utils.clip_grad_norm_(state.model.parameters(), recipe.clip_norm)
    state.scaler.step(state.optimiser)
    state.scaler.update()
    if state.average is not None:
        state.average.update_parameters(state.model)
    return loss.detach(), logits.detach()


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


def not_finite(losses: torch.Tensor, model: nn.Module, recipe: Recipe, epoch: int) -> str:
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
    for name, weights in model.state_dict().items():
        if not bool(torch.isfinite(weights).all()):
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
