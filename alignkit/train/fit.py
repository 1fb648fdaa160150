"""Epochs of one training, in one process or in every rank of a group.

Ranks share every batch: its size, the number of steps and the rates are those of a single process,
and DDP gives each rank the gradient of the whole batch. Only two things may differ: the order of
sums, and the statistics of batch normalisation, which are each rank's own unless
``sync_batch_norm`` is set.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from alignkit.errors import TrainingError
from alignkit.models.architectures import (
    build_embedder,
    build_model,
    model_version,
    weights_hash,
)
from alignkit.models.pretrained import begin_with
from alignkit.rank import ALONE, Rank, shared
from alignkit.record import Epoch
from alignkit.torch_settings import available_threads, reproducible, require_device
from alignkit.train.nearest_identity import identity_report, score_embeddings
from alignkit.train.objective import Step, head_of
from alignkit.train.training_draws import shuffle
from alignkit.train.training_images import TrainingImages, batch_bounds
from alignkit.train.training_state import TrainingState, read_state, serialised, state_of
from alignkit.train.training_step import (
    Score,
    classification,
    learning_rate,
    mix_batch,
    not_finite,
    score,
    seed_of,
    take_step,
)

if TYPE_CHECKING:
    from alignkit.experiment.train_option import Recipe
    from alignkit.plan.work import Training
    from alignkit.train.training_images import SplitImages


@dataclass(frozen=True, slots=True)
class Fitted:
    """Result of a finished training."""

    weights: bytes
    """A ``state_dict`` as ``torch.save`` writes it, of the epoch that ``keep`` selects."""
    other: bytes | None
    """With held-out images: the last epoch's where the best is kept, and the reverse."""
    log: dict[str, Any]
    """As `alignkit.train.read_log` describes it."""
    reports: list[dict[str, Any]]
    """``classification_report`` of every epoch."""
    identities: bytes | None = None
    """Beside an embedding, the classifier of the last epoch: ``weight``, (identities, dimensions)
    float32, and their ``names``."""


@dataclass(frozen=True, slots=True)
class RankTask:
    """Description of a training for every rank; it is sent between processes."""

    label: str
    seed: int
    recipe: Recipe
    images: TrainingImages
    classes: Sequence[str]
    unfinished: Path
    """File of the state after the last whole epoch; every rank reads it, rank 0 writes it."""
    held_out: TrainingImages | None = None


def fit(
    training: Training,
    recipe: Recipe,
    images: SplitImages,
    unfinished: Path,
    progress: Callable[[Epoch], None] | None = None,
    *,
    rank: Rank = ALONE,
) -> Fitted:
    """Run the epochs that ``unfinished`` does not hold yet, and save the state there after each.

    ``progress`` is called with all epochs, including those it holds. Torch's global settings and
    generators are restored.
    """
    task = RankTask(
        training.label, training.seed, recipe, images.rest, images.classes, unfinished,
        images.held_out,
    )  # fmt: skip
    rank.call_followers(fit_along, task=task)
    return _fit(rank, task, progress)


def fit_along(rank: Rank, task: RankTask) -> None:
    """Do the part of every rank except 0 in a `fit`."""
    _fit(rank, task)


def _fit(rank: Rank, task: RankTask, progress: Callable[[Epoch], None] | None = None) -> Fitted:
    device = rank.run_on_all(lambda: _device(task, rank))
    stored = rank.run_on_all(lambda: read_state(task.unfinished, task.label, rank))
    _require_same(stored, task, rank)
    # a continuation adds up in the same order only with as many threads as the beginning
    threads = stored["log"]["threads"] if stored else available_threads()
    with rank.raise_rank_errors(), reproducible(device, threads):
        model, begun = rank.run_on_all(lambda: _fresh_model(task))
        head = head_of(task.recipe, len(task.classes), task.seed, rank)
        log = {**_log(task, model, device, rank), "pretrained": begun}
        if head is not None:
            head = head.to(device)
            log["initial_identities"] = weights_hash(head.state_dict())
        state = rank.run_on_all(lambda: state_of(task.recipe, model, log, device, rank, head))
        if stored:
            state.resume(stored)
        report = progress or (lambda _: None)
        for stored_epoch in state.log["epochs"]:
            report(Epoch(**stored_epoch))
        part = _Part(state, task, device, rank)
        for epoch in range(state.epochs_done, task.recipe.epochs):
            line = part.run_epoch(epoch)
            state.log["epochs"].append(line.model_dump())
            # on all: every rank waits for the file, and fails if it cannot be written
            rank.run_on_all(lambda: state.save(task.unfinished, write=not rank.number))
            report(line)
        return _fitted(state, task)


def _device(task: RankTask, rank: Rank) -> torch.device:
    """Return this rank's device; raise if the training cannot begin."""
    count, needed = len(task.images), 2 * rank.world
    if count < needed:
        raise TrainingError(
            f"{task.label}: every path decoded only {count} training images; needs {needed}"
        )
    if task.recipe.batch_size < needed and rank.world > 1:
        raise TrainingError(
            f"train.batch_size: {task.recipe.batch_size} is shared by {rank.world} processes and "
            f"each needs two images; make it {needed} or more"
        )
    if task.recipe.shard and len(task.classes) < rank.world:
        raise TrainingError(
            f"train.shard: {len(task.classes)} identities are fewer than the {rank.world} "
            "processes; remove it, or start fewer"
        )
    device = require_device(task.recipe.device)
    if device.type == "cuda" and rank.world > 1:
        if rank.local >= torch.cuda.device_count():
            raise TrainingError(
                f"rank {rank.number} has no GPU of its own: this machine has "
                f"{torch.cuda.device_count()}; start as many processes with --nproc-per-node"
            )
        torch.cuda.set_device(rank.local)
    return device


def _require_same(stored: dict[str, Any] | None, task: RankTask, rank: Rank) -> None:
    done = rank.gather(stored and len(stored["log"]["epochs"]))
    if len(set(done)) > 1:
        message = (
            f"the ranks do not see the same {task.unfinished}; --reports must be a folder that "
            "all machines share"
        )
        raise shared(TrainingError(message))


def _fresh_model(task: RankTask) -> tuple[nn.Module, dict[str, Any] | None]:
    """Build the initial model, and return the log entry of its pretrained weights, if any."""
    torch.manual_seed(seed_of(f"weights:{task.seed}"))
    recipe = task.recipe
    size, begun = task.images.size, None
    if recipe.embedding:
        model: nn.Module = build_embedder(recipe.model, recipe.embedding, *size)
        own = model.get_submodule("0")
    else:
        own = model = build_model(recipe.model, len(task.classes), *size)
    if recipe.pretrained:
        begun = begin_with(own, recipe.pretrained, recipe.model)
    return model, begun


def _log(task: RankTask, model: nn.Module, device: torch.device, rank: Rank) -> dict[str, Any]:
    order = shuffle(seed=task.seed, epoch=0, ids=task.images.ids)
    return {
        "images": len(task.images),
        "held_out": len(task.held_out) if task.held_out else 0,
        "library": model_version(task.recipe.model),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "ranks": rank.world,
        "initial_weights": weights_hash(model.state_dict()),
        "order": hashlib.sha256(order.tobytes()).hexdigest(),
        "resumed_after": [],
        "epochs": [],
    }


@dataclass(frozen=True, slots=True)
class _Part:
    """One rank's part of a training."""

    state: TrainingState
    task: RankTask
    device: torch.device
    rank: Rank

    def run_epoch(self, epoch: int) -> Epoch:
        """Pass once over the images, in all ranks together."""
        began = time.perf_counter()
        recipe, rank, count = self.task.recipe, self.rank, len(self.task.images)
        bounds = batch_bounds(count, recipe.batch_size, least=2 * rank.world)
        losses, answers = self._pass(epoch, bounds)
        rank.all_reduce(losses)
        sizes = torch.tensor([stop - start for start, stop in bounds], device=self.device)
        unfit = not_finite(losses / sizes, self.state.every_weight, recipe, epoch)
        # the statistics of batch normalisation, and a part of a classifier, are each rank's own:
        # the first rank that found something speaks for all
        if unfit := next(filter(None, rank.gather(unfit)), ""):
            raise shared(TrainingError(f"{self.task.label}: {unfit}"))
        dealt = rank.gather(answers)
        labels = [label for part, _ in dealt for label in part]
        predicted = [answer for _, part in dealt for answer in part]
        # the time of scoring is left out: it is no part of the training's speed
        seconds = time.perf_counter() - began
        held_out = self._score(epoch, labels, predicted)
        return Epoch(
            epoch=epoch + 1,
            loss=float(losses.sum()) / count,
            # an image that is compared with a part of the identities has no answer
            accuracy=Score(0.0, labels, predicted).accuracy if predicted else None,
            learning_rate=learning_rate(recipe, epoch * len(bounds), len(bounds) * recipe.epochs),
            images_per_second=count / seconds,
            **held_out,
        )

    def _pass(
        self, epoch: int, bounds: Sequence[tuple[int, int]]
    ) -> tuple[torch.Tensor, tuple[list[int], list[int]]]:
        """Train on this rank's share of each batch; return (steps,) losses, (labels, answers)."""
        task, rank, recipe, seed = self.task, self.rank, self.task.recipe, self.task.seed
        # dropout draws from the global generator: one seed per epoch makes a continuation equal
        own = f":{rank.number}" if rank.number else ""
        torch.manual_seed(seed_of(f"epoch:{seed}:{epoch}{own}"))
        losses = torch.zeros(len(bounds), device=self.device)
        true, answered = [], []
        blends = bool(recipe.mixup or recipe.cutmix)  # needs the neighbours: load the batch whole
        share = slice(None) if blends else rank.share
        batches = task.images.epoch(
            seed=seed, epoch=epoch, recipe=recipe, device=self.device, bounds=bounds, share=share
        )
        self.state.model.train()
        for step, (batch, labels) in enumerate(batches):
            rate = learning_rate(recipe, epoch * len(bounds) + step, len(bounds) * recipe.epochs)
            mixed, targets = mix_batch(
                batch, labels, recipe, classes=len(task.classes), key=f"blend:{seed}:{epoch}:{step}"
            )
            if blends:
                mixed, targets, labels = mixed[rank.share], targets[rank.share], labels[rank.share]  # noqa: PLW2901
            start, stop = bounds[step]
            share_of_mean = len(labels) * rank.world / (stop - start)
            loss, answers = take_step(
                self.state, mixed, targets, rate=rate, recipe=recipe,
                weight=1.0 if self.state.objective.whole else share_of_mean,
                step=Step(f"{seed}:{epoch}:{step}", stop - start),
            )  # fmt: skip
            # summed over images, as the last batch may be smaller
            losses[step] = loss * len(labels)
            true.append(labels)
            answered += [] if answers is None else [answers]
        return losses, (
            torch.cat(true).tolist(),
            torch.cat(answered).tolist() if answered else [],
        )

    def _score(self, epoch: int, labels: list[int], predicted: list[int]) -> dict[str, float]:
        """Note the epoch's classification report, and the weights if they are the best so far."""
        state, task = self.state, self.task
        embeds = task.recipe.identities is not None
        of, facts, without = "training images as augmented", {}, None
        if task.held_out is not None:
            rate = score_embeddings if embeds else score
            scored = rate(state.kept, task.held_out, task.recipe, self.device, self.rank)
            if not self.rank.number:
                state.note_best(epoch + 1, scored)
            of, labels, predicted = "held-out training images", scored.labels, scored.predicted
            without = scored.without
            facts = {"held_out_accuracy": scored.accuracy}
            if not embeds:
                facts["held_out_loss"] = scored.loss
        if not self.rank.number and predicted:
            report = (
                identity_report(labels, predicted, without)
                if embeds
                else classification(labels, predicted, task.classes)
            )
            state.reports.append({"epoch": epoch + 1, "of": of, "report": report})
            if facts:
                facts["held_out_recall"] = report["macro avg"]["recall"]
        return facts


def _fitted(state: TrainingState, task: RankTask) -> Fitted:
    log = {**state.log, "kept_epoch": state.epochs_done}
    identities = None
    if state.head is not None:
        weight = state.head.joined(state.head.weight)
        identities = serialised({"weight": weight, "names": list(task.classes)})
    last, best = state.weights(), state.best
    if best is None:
        return Fitted(last, None, log, state.reports, identities)
    if task.recipe.keep == "last":
        return Fitted(last, best.weights, log, state.reports, identities)
    log["kept_epoch"] = best.epoch
    return Fitted(best.weights, last, log, state.reports, identities)
