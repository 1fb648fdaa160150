"""`TrainingState`: all that the next epoch depends on, and its file.

No generator is stored: an epoch draws all random numbers from the seed and the epoch's number.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from alignkit.stored_file import explained, open_regular, write_atomically
from alignkit.torch_settings import DETERMINISTIC_KERNELS
from alignkit.train.objective import objective_of

if TYPE_CHECKING:
    from alignkit.experiment.train_option import Recipe
    from alignkit.rank import Rank
    from alignkit.train.identity_head import IdentityHead
    from alignkit.train.objective import Objective
    from alignkit.train.training_step import Score


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Best:
    """Weights with the best score on held-out images so far."""

    epoch: int
    accuracy: float
    loss: float
    weights: bytes
    """A ``state_dict`` as ``torch.save`` writes it."""


@dataclass(slots=True)
class TrainingState:
    """State of a training between two epochs."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    log: dict[str, Any]
    """As `alignkit.train.read_log` describes it."""
    forward: Callable[[torch.Tensor], torch.Tensor]
    """The model, compiled where the recipe asks for it."""
    objective: Objective
    scaler: GradScaler
    """Scaler of the loss against underflow in float16; without effect in other precisions."""
    head: IdentityHead | None = None
    """Classifier of the training identities beside a model of embeddings, or this rank's part."""
    average: AveragedModel | None = None
    """Moving average of the weights; if there is one, it is the model that is kept."""
    best: Best | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    """``classification_report`` of every epoch; rank 0 alone has them."""

    @property
    def epochs_done(self) -> int:
        """Count the finished epochs."""
        return len(self.log["epochs"])

    def save(self, file: Path, *, write: bool = True) -> None:
        """Replace the file in one step: a kill or a full disk leaves the last good state.

        Every rank calls it, as a sharded classifier is joined, and one of them writes.
        """
        own = {"optimiser": self.optimiser.state_dict()} if self.head is None else self._joined()
        if not write:
            return
        content = {
            "model": self.model.state_dict(),
            **own,
            "log": self.log,
            "scaler": self.scaler.state_dict(),
            "average": self.average and self.average.state_dict(),
            "best": self.best and asdict(self.best),
            "reports": self.reports,
        }
        data = serialised(content)
        write_atomically(file, _seal(file, data) + data)

    def resume(self, stored: dict[str, Any]) -> None:
        """Restore the state that another process saved."""
        self.model.load_state_dict(stored["model"])
        optimiser = stored["optimiser"]
        if self.head is not None:
            with torch.no_grad():
                self.head.weight.copy_(self.head.taken(stored["head"]))
            optimiser = self._moments(optimiser, self.head.taken)
        self.optimiser.load_state_dict(optimiser)
        self.scaler.load_state_dict(stored["scaler"])
        if self.average is not None:
            self.average.load_state_dict(stored["average"])
        self.best = stored["best"] and Best(**stored["best"])
        self.reports = stored["reports"]
        self.log = stored["log"]
        self.log["resumed_after"].append(self.epochs_done)

    def _joined(self) -> dict[str, Any]:
        """Return the classifier of all ranks, and the optimiser's state with its moments."""
        assert self.head is not None
        moments = self._moments(self.optimiser.state_dict(), self.head.joined)
        return {"head": self.head.joined(self.head.weight), "optimiser": moments}

    def _moments(
        self, optimiser: dict[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
    ) -> dict[str, Any]:
        """Change the arrays of the optimiser's state that have a row for each identity."""
        last = len([*self.model.parameters()])
        states = dict(optimiser["state"])
        if last in states:
            states[last] = {
                name: change(each) if isinstance(each, torch.Tensor) and each.ndim == 2 else each
                for name, each in states[last].items()
            }
        return {**optimiser, "state": states}

    @property
    def every_weight(self) -> dict[str, torch.Tensor]:
        """Return the ``state_dict`` of the model and of its classifier, if it has one beside it."""
        head = {} if self.head is None else {"identities.weight": self.head.weight.detach()}
        return {**self.model.state_dict(), **head}

    def note_best(self, epoch: int, scored: Score) -> None:
        """Keep these weights if they score better than every earlier epoch's."""
        if self.best is None or scored.better_than(self.best.accuracy, self.best.loss):
            self.best = Best(epoch, scored.accuracy, scored.loss, self.weights())

    @property
    def kept(self) -> nn.Module:
        """Return the model that is the result of the training."""
        return self.model if self.average is None else self.average.module

    def weights(self) -> bytes:
        """Serialise the ``state_dict``, on the CPU, as ``torch.save`` writes it."""
        on_cpu = {name: each.cpu() for name, each in self.kept.state_dict().items()}
        return serialised(on_cpu)


def read_state(file: Path, label: str, rank: Rank) -> dict[str, Any] | None:
    """Read a file of `TrainingState.save`; ``None`` if there is nothing to continue.

    If it is not what this training wrote, rank 0 says so. Raise `WorkspaceError` for anything but a
    regular file.
    """
    if not file.exists():
        return None
    # a pipe would never end, and no state could be written in its place
    with explained(file), open_regular(file) as opened:
        content = opened.read()
    size = hashlib.sha256().digest_size
    seal, data = content[:size], content[size:]
    if seal != _seal(file, data):
        if not rank.number:
            logger.warning("%s: %s is damaged and the training begins again", label, file)
        return None
    # to the CPU: a training may continue on another device; and no code in the pickle is run
    stored: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return stored


def _seal(file: Path, data: bytes) -> bytes:
    """Hash a state with the name of its folder, which holds the training's key."""
    return hashlib.sha256(file.parent.name.encode() + b"\n" + data).digest()


def state_of(
    recipe: Recipe,
    model: nn.Module,
    log: dict[str, Any],
    device: torch.device,
    rank: Rank,
    head: IdentityHead | None = None,
) -> TrainingState:
    """Return the initial state of a training of ``model`` on ``device``; ``head`` is there."""
    model = model.to(device)  # before anything holds its weights: the optimiser, DDP, an average
    if recipe.sync_batch_norm and rank.world > 1:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    average = None
    if recipe.ema:
        average = AveragedModel(
            model,
            multi_avg_fn=get_ema_multi_avg_fn(recipe.ema),  # type: ignore[no-untyped-call]
            # the statistics of batch normalisation must fit the averaged weights
            use_buffers=True,
        )
    return TrainingState(
        model,
        optimiser_for(recipe, model, head),
        log,
        forward=_forward(recipe, model, device, rank),
        objective=objective_of(recipe, head, device, rank),
        scaler=GradScaler(device.type, enabled=recipe.amp == "fp16"),
        head=head,
        average=average,
    )


def _forward(
    recipe: Recipe, model: nn.Module, device: torch.device, rank: Rank
) -> Callable[[torch.Tensor], torch.Tensor]:
    shared: nn.Module = model
    if rank.world > 1:
        from torch.nn.parallel import DistributedDataParallel

        shared = DistributedDataParallel(
            model, device_ids=[rank.local] if device.type == "cuda" else None
        )
    return torch.compile(shared, options=DETERMINISTIC_KERNELS) if recipe.compile else shared


def optimiser_for(
    recipe: Recipe, model: nn.Module, head: nn.Module | None = None
) -> torch.optim.Optimizer:
    """Build AdamW or SGD over all weights, as the recipe asks; those of ``head`` come last."""
    rate, decay = recipe.learning_rate, recipe.weight_decay
    weights = [*model.parameters(), *(head.parameters() if head else ())]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(weights, lr=rate, momentum=recipe.momentum, weight_decay=decay)
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def serialised(content: Any) -> bytes:
    """Run ``torch.save`` into memory: on a full disk it would raise no `OSError` itself."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
