"""The epochs of one training."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from alignkit.errors import TrainingError
from alignkit.numerics import available_threads, reproducible, require_device
from alignkit.record import Epoch
from alignkit.train.augment import shuffle
from alignkit.train.batch_mixing import mix_batch, seed_of
from alignkit.train.images import TrainingImages, batch_bounds
from alignkit.train.models import build_model, load_pretrained, model_version
from alignkit.train.state import TrainingState, read_state, state_of, weights_hash

if TYPE_CHECKING:
    from alignkit.load.experiment import Recipe
    from alignkit.plan import Training


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished training."""

    weights: bytes
    """A ``state_dict`` as ``torch.save`` writes it."""
    log: dict[str, Any]
    """As `alignkit.train.read_log` describes it."""


def fit(
    training: Training,
    recipe: Recipe,
    images: TrainingImages,
    classes: int,
    unfinished: Path,
    progress: Callable[[Epoch], None] | None = None,
) -> Fitted:
    """Run the epochs that ``unfinished`` does not hold yet, saving the state there after each.

    Torch's global settings and generators are as before when it returns.
    """
    if len(images) < 2:
        raise TrainingError(
            f"{training.label}: every path decoded only {len(images)} training images; needs two"
        )
    device = require_device(recipe.device)
    stored = read_state(unfinished)
    # a continuation adds up in the same order only with as many threads as the beginning
    threads = stored["log"]["threads"] if stored else available_threads()
    with reproducible(device, threads):
        state = _initial_state(recipe, images, classes, training.seed, device)
        if stored:
            state.resume(stored)
        for epoch in range(state.epochs_done, recipe.epochs):
            try:
                line = _run_epoch(state, recipe, images, training.seed, epoch, device, classes)
            except _NotFiniteError as error:
                raise TrainingError(f"{training.label}: {error}") from None
            state.log["epochs"].append(line.model_dump())
            state.save(unfinished)
            if progress:
                progress(line)
        return Fitted(state.weights(), state.log)


def _initial_state(
    recipe: Recipe, images: TrainingImages, classes: int, seed: int, device: torch.device
) -> TrainingState:
    torch.manual_seed(seed_of(f"weights:{seed}"))
    model = build_model(recipe.model, classes, *images.size)
    if recipe.pretrained:
        load_pretrained(model, recipe.pretrained)
    order = shuffle(seed=seed, epoch=0, ids=images.ids)
    log = {
        "images": len(images),
        "library": model_version(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "initial_weights": weights_hash(model),
        "order": hashlib.sha256(order.tobytes()).hexdigest(),
        "resumed_after": [],
        "epochs": [],
    }
    model = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return state_of(recipe, model, log, device)


def _run_epoch(
    state: TrainingState,
    recipe: Recipe,
    images: TrainingImages,
    seed: int,
    epoch: int,
    device: torch.device,
    classes: int,
) -> Epoch:
    """One pass over the images."""
    began = time.perf_counter()
    # dropout draws from the global generator: begin it anew, as a continuation does
    torch.manual_seed(seed_of(f"epoch:{seed}:{epoch}"))
    bounds = batch_bounds(len(images), recipe.batch_size)
    steps = len(bounds) * recipe.epochs
    losses = torch.zeros(len(bounds), device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    batches = images.epoch(
        seed=seed, epoch=epoch, batch_size=recipe.batch_size, augment=recipe.augment, device=device
    )
    state.model.train()
    for step, (batch, labels) in enumerate(batches):
        rate = learning_rate(recipe, epoch * len(bounds) + step, steps)
        mixed, targets = mix_batch(
            batch, labels, recipe, classes=classes, key=f"blend:{seed}:{epoch}:{step}"
        )
        loss, logits = _step(state, mixed, targets, rate, recipe)
        losses[step] = loss
        correct += (logits.argmax(1) == labels).sum()
    _require_finite(losses, state.model, recipe, epoch)
    sizes = torch.tensor([stop - start for start, stop in bounds], device=device)
    return Epoch(
        epoch=epoch + 1,
        loss=float((losses * sizes).sum()) / len(images),
        accuracy=int(correct) / len(images),
        learning_rate=learning_rate(recipe, epoch * len(bounds), steps),
        images_per_second=len(images) / (time.perf_counter() - began),
    )


def _step(
    state: TrainingState,
    batch: torch.Tensor,
    targets: torch.Tensor,
    rate: float,
    recipe: Recipe,
) -> tuple[torch.Tensor, torch.Tensor]:
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    with lowered(recipe, batch.device):
        logits = state.forward(batch)
        loss = nn.functional.cross_entropy(
            logits.float(), targets, label_smoothing=recipe.label_smoothing
        )
    state.optimiser.zero_grad()
    state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    if recipe.clip_norm is not None:
        state.scaler.unscale_(state.optimiser)
        nn.utils.clip_grad_norm_(state.model.parameters(), recipe.clip_norm)
    state.scaler.step(state.optimiser)
    state.scaler.update()
    if state.average is not None:
        state.average.update_parameters(state.model)
    return loss.detach(), logits.detach()


def lowered(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The forward pass in the recipe's ``amp`` precision."""
    dtype = torch.float16 if recipe.amp == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=recipe.amp != "off")


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """The rate of one step of all: the schedule's, less during warm-up.

    ``constant``; ``cosine``, half a wave from the recipe's rate down to 0; ``step``, a tenth after
    every ``step_epochs``. The first step of a warm-up of n steps has 1/n of the rate.
    """
    rate = recipe.learning_rate
    if recipe.schedule == "cosine":
        rate = recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
    elif recipe.schedule == "step":
        epoch = step * recipe.epochs // steps
        rate = recipe.learning_rate * 0.1 ** (epoch // recipe.step_epochs)
    warm = recipe.warm_up * steps / recipe.epochs
    return rate * min(1.0, (step + 1) / warm) if warm else rate


class _NotFiniteError(ArithmeticError): ...


def _require_finite(losses: torch.Tensor, model: nn.Module, recipe: Recipe, epoch: int) -> None:
    advice = (
        f"lower train.learning_rate (now {recipe.learning_rate:g}) or check the 'normalise' of "
        "the path; no model was stored"
    )
    broken = torch.nonzero(~torch.isfinite(losses))
    if len(broken):
        batch = int(broken[0])
        raise _NotFiniteError(
            f"the loss became {float(losses[batch])} in epoch {epoch + 1}, "
            f"batch {batch + 1} of {len(losses)}; {advice}"
        )
    for name, weights in model.state_dict().items():
        if not bool(torch.isfinite(weights).all()):
            raise _NotFiniteError(f"{name} is not finite after epoch {epoch + 1}; {advice}")
