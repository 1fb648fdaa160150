"""One rank of a group that trains embeddings; the tests start two and read what rank 0 wrote.

python -m tests.train.sharded_ranks FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from alignkit.experiment.train_option import IdentityLoss, Recipe
from alignkit.rank import Rank, this_rank
from alignkit.train.identity_head import IdentityHead
from alignkit.train.objective import Step, head_of, objective_of
from alignkit.train.training_state import TrainingState, state_of
from alignkit.train.training_step import take_step
from tests.training_case import digits_case

CLASSES, DIMENSIONS, IMAGES = 7, 6, 9
LOSSES = {
    "arcface": IdentityLoss("arcface", 0.5, 64.0, DIMENSIONS, shard=True),
    "cosface": IdentityLoss("cosface", 0.35, 64.0, DIMENSIONS, shard=True),
    "softmax": IdentityLoss("softmax", 0.0, 1.0, DIMENSIONS, shard=True),
    "sampled": IdentityLoss("arcface", 0.5, 64.0, DIMENSIONS, sample=0.3, shard=True),
    "circle": IdentityLoss("circle", 0.4, 80.0, DIMENSIONS),
}
STEP = Step("3:0:0", IMAGES)
TRAININGS = {
    "sharded": {"loss": "arcface", "embedding": 16, "shard": True, "clip_norm": 1.0},
    "replicated": {"loss": "arcface", "embedding": 16, "clip_norm": 1.0},
    "circle": {"loss": "circle", "embedding": 16},
}


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(5)
    labels = torch.randint(CLASSES, (IMAGES,), generator=draws)
    return torch.randn(IMAGES, DIMENSIONS, generator=draws), labels


def measured(name: str, rank: Rank) -> dict[str, torch.Tensor]:
    """The loss of the batch in a group, and the gradients as DDP would use them."""
    loss = LOSSES[name]
    embeddings, labels = (each[rank.share] for each in batch())
    embeddings = embeddings.clone().requires_grad_()
    head = IdentityHead(loss, CLASSES, 3, rank) if loss.classifies else None
    recipe = Recipe(loss=loss.name, embedding=DIMENSIONS, shard=loss.shard, sample=loss.sample)
    value, answers = objective_of(recipe, head, torch.device("cpu"), rank)(embeddings, labels, STEP)
    value.backward()
    found = {"loss": value.detach(), "embeddings": embeddings.grad / rank.world}
    if head is not None:
        found["head"] = head.weight.grad
    if answers is not None:
        found["answers"] = answers
    return found


def stepped(rank: Rank) -> TrainingState:
    """The state of a linear model and its classifier after two steps."""
    torch.manual_seed(1)
    model, cpu = torch.nn.Linear(DIMENSIONS, DIMENSIONS), torch.device("cpu")
    recipe = Recipe(loss="arcface", embedding=DIMENSIONS, shard=True, clip_norm=0.5)
    head = head_of(recipe, CLASSES, 3, rank)
    state = state_of(recipe, model, {"epochs": [], "resumed_after": []}, cpu, rank, head)
    images, labels = (each[rank.share] for each in batch())
    for _ in range(2):
        take_step(state, images, labels, rate=0.01, weight=1.0, recipe=recipe, step=STEP)
    return state


def recipe_of(name: str) -> dict:
    return {**TRAININGS[name], "epochs": 2, "batch_size": 31, "learning_rate": 0.001}


def main(folder: Path) -> None:
    rank = this_rank()
    torch.set_num_threads(1)
    with rank.joined():
        state = stepped(rank)
        state.save(folder / "state.pt", write=not rank.number)
        parts = {name: rank.gather(measured(name, rank)) for name in LOSSES}
        if rank.number:
            rank.serve_calls()
            return
        torch.save(parts, folder / "losses.pt")
        for name in TRAININGS:
            case = digits_case(count=95).with_recipe(**recipe_of(name))
            case.train(folder / name, rank=rank)
        rank.stop_followers()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
