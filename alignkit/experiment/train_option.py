"""`Recipe`: how a model is trained, the same for every path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from alignkit.experiment.imported_configuration import unknown_timm
from alignkit.experiment.option import (
    STRICT_MODEL,
    Flag,
    Fraction,
    Integer,
    Number,
    Positive,
    refuse,
    wrong,
)
from alignkit.models.architectures import SCHEMA, unknown_model
from alignkit.preprocess.stages import Name

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


def _misfits(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield the key and the reason of each option that does not fit the others."""
    embeds, loss, margin = recipe.embedding is not None, recipe.loss, recipe.margin
    greatest = _GREATEST.get(loss, math.inf)
    beside = "is of the classifier beside an embedding; set train.embedding, or remove it"
    in_pairs = "circle compares the images of a batch and has no classifier; remove it"
    chosen = (
        "is chosen on training images that are held out; set train.holdout, say to 0.1. Chosen on "
        "the evaluation images, it would flatter every cell"
    )
    # torch would raise at the first batch, after all images are prepared
    on_gpus = "torch computes SyncBatchNorm on GPUs only; set train.device: cuda"
    # a part of the classifier could overflow on one rank alone, and the others would go on
    in_parts = "needs amp: bf16 or off, as fp16 skips steps on one rank alone"
    sampled, circles = recipe.sample < 1, loss == "circle"
    halved = recipe.shard and recipe.amp == "fp16" and not circles
    untaught = f"{loss} trains embeddings; set train.embedding, say to 128"
    reasons = [
        ("keep", recipe.keep == "best" and not recipe.holdout, chosen),
        ("sync_batch_norm", recipe.sync_batch_norm and recipe.device == "cpu", on_gpus),
        ("loss", loss != "softmax" and not embeds, untaught),
        ("sample", sampled and not embeds, beside),
        ("shard", recipe.shard and not embeds, beside),
        ("sample", sampled and circles, in_pairs),
        ("shard", recipe.shard and circles, in_pairs),
        ("shard", halved, in_parts),
    ]
    if margin is not None and margin >= greatest:
        reasons.append(("margin", True, f"of {loss} is less than {greatest:.4g}, not {margin:g}"))
    for key in ("mixup", "cutmix", "label_smoothing"):
        why = "gives an image several classes, and an embedding learns one identity; set 0"
        reasons.append((key, embeds and getattr(recipe, key) > 0, why))
    for key in ("margin", "scale"):
        why = f"softmax has no {key}; choose loss: arcface or cosface, or remove it"
        reasons.append((key, loss == "softmax" and getattr(recipe, key) is not None, why))
    yield from ((key, reason) for key, found, reason in reasons if found)


class Augment(BaseModel):
    """Random changes of training images, the same for every path (drawn per sample, seeded)."""

    model_config = STRICT_MODEL
    flip: Fraction = 0.0
    """Probability of a horizontal flip."""
    crop: Annotated[Integer, Field(ge=0, le=512)] = 0
    """Pixels of zero padding on each side before a random crop back to the input size."""


class Recipe(BaseModel):
    """``train:``: the training every path gets; only the preprocessing differs."""

    model_config = STRICT_MODEL
    model: Annotated[str, Field(json_schema_extra=SCHEMA)] = "small-cnn"
    """``small-cnn``, the name of a torchvision classification model, or ``timm:NAME``."""
    epochs: Annotated[Integer, Field(ge=1, le=10_000)] = 8
    """Passes over the training images."""
    seeds: Annotated[tuple[Integer, ...], Field(min_length=1)] = (0, 1, 2)
    """One training for each seed; the noise floor needs at least two."""
    fractions: Annotated[tuple[Annotated[Number, Field(gt=0, le=1)], ...], Field(min_length=1)] = (
        1.0,
    )
    """Shares of the training images; each gives rows of its own. A share takes as much of every
    class, the same images for every path, and the smaller lies within the larger."""
    mix: tuple[Name, ...] = ()
    """Paths of a further row: one model whose images each come from one of these paths, drawn for
    every image and epoch. Its cells are compared with the first of these paths."""
    batch_size: Annotated[Integer, Field(ge=1, le=65_536)] = 64
    """Images of a training step."""
    optimiser: Literal["adamw", "sgd"] = "adamw"
    """``adamw`` or ``sgd``."""
    learning_rate: Positive = 0.005
    """Greatest learning rate."""
    weight_decay: Annotated[Number, Field(ge=0)] = 0.05
    """Weight decay of the optimiser, of all weights."""
    momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.9
    """Used by ``sgd`` only."""
    schedule: Literal["cosine", "constant", "step"] = "cosine"
    """How the learning rate changes: ``cosine`` falls to 0, ``step`` by ten after each
    ``step_epochs``."""
    step_epochs: Annotated[Integer, Field(ge=1)] = 30
    """Used by ``step`` only: the rate is divided by ten after each such number of epochs."""
    warm_up: Annotated[Number, Field(ge=0)] = 0.0
    """Epochs in which the rate rises linearly to that of the schedule."""
    label_smoothing: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Share of the target given equally to all classes."""
    loss: LossName = "softmax"
    """``softmax`` is the cross entropy of a classifier. The others train embeddings: ``arcface``
    and ``cosface`` by a classifier of the training identities with a margin, ``circle`` by the
    pairs of a batch."""
    embedding: Annotated[Integer, Field(ge=2, le=65_536)] | None = None
    """Length of the vector that the model gives in place of a score for each class. The classifier
    of the training identities stays beside the model and is not served."""
    margin: Annotated[Number, Field(gt=0)] | None = None
    """By default 0.5 radians for ``arcface``, a cosine of 0.35 for ``cosface``, 0.4 for
    ``circle``."""
    scale: Positive | None = None
    """Factor of the cosines: by default 64, and 80 for ``circle``."""
    sample: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Share of the other identities that a step compares its images with, drawn by the seed."""
    shard: Flag = False
    """Under ``torchrun``, give each rank a part of the classifier of the identities."""
    clip_norm: Positive | None = None
    """Greatest norm of the gradient of all weights together; a larger gradient is scaled down."""
    mixup: Annotated[Number, Field(ge=0)] = 0.0
    """Alpha of Mixup; 0 is none. With ``cutmix`` too, each batch gets one of the two."""
    cutmix: Annotated[Number, Field(ge=0)] = 0.0
    """Alpha of CutMix."""
    ema: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Decay per step of the moving average of the weights, which is kept as the model; 0: none."""
    amp: Literal["off", "bf16", "fp16"] = "off"
    """Precision of the operations that ``torch.amp`` lowers; the weights stay float32."""
    compile: Flag = False
    """Run through ``torch.compile``: a minute or more before the first step."""
    channels_last: Flag = True
    """Memory format of weights and images; it decides which convolution kernels run."""
    sync_batch_norm: Flag = False
    """Under ``torchrun``, normalise by the statistics of the whole batch, not of each rank's part.
    Torch computes it on GPUs only."""
    holdout: Annotated[Number, Field(ge=0, le=0.5)] = 0.0
    """Share of each class's training images that is kept from training to score every epoch on;
    for an embedding, share of the identities. The same images for every path."""
    # Selecting the weights on the evaluation images would inflate every cell.
    keep: Literal["last", "best"] = "last"
    """Epoch whose weights become the model. ``best`` has the most right answers on ``holdout``; a
    tie goes to the smallest loss. For an embedding an answer is the identity of the nearest other
    image. The evaluation images are not used."""
    pretrained: Annotated[str, Field(min_length=1)] | None = None
    """Weights to begin with: a file of a ``state_dict``, with its suffix, torchvision's name
    (``IMAGENET1K_V1``) or timm's tag. A last layer for other classes is initialised randomly."""
    augment: Augment = Augment()
    """Random changes of training images, the same draws for every path."""
    device: Literal["cpu", "cuda"] = "cpu"
    """``cpu``, or ``cuda`` for an NVIDIA GPU."""

    # twice the same would train one model and count it as two
    @field_validator("seeds", "fractions", "mix")
    @classmethod
    def _distinct(cls, given: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        if len(set(given)) != len(given):
            one = {"seeds": "seed", "fractions": "fraction", "mix": "path"}[str(info.field_name)]
            raise PydanticCustomError("distinct", f"each {one} may stand here once")
        return given

    @field_validator("mix")
    @classmethod
    def _several(cls, mix: tuple[str, ...]) -> tuple[str, ...]:
        if len(mix) == 1:
            raise PydanticCustomError("mix", "name two paths or more, or none")
        return mix

    @model_validator(mode="after")
    def _possible(self) -> Self:
        refuse("Recipe", [wrong("recipe", message, key) for key, message in _misfits(self)])
        return self

    @property
    def identities(self) -> IdentityLoss | None:
        """The loss of an embedding; ``None`` for a classifier."""
        if self.embedding is None:
            return None
        margin, scale = PUBLISHED[self.loss]
        return IdentityLoss(
            self.loss,
            margin if self.margin is None else self.margin,
            scale if self.scale is None else self.scale,
            self.embedding,
            self.sample,
            self.shard,
        )

    @field_validator("model")
    @classmethod
    def _known_model(cls, model: str) -> str:
        timm = model.startswith("timm:")
        reason = unknown_timm(model.removeprefix("timm:")) if timm else unknown_model(model)
        if reason:
            raise PydanticCustomError("model", "{message}", {"message": reason})
        return model
