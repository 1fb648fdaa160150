"""`Recipe`: how a model is trained, the same for every path."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from alignkit.experiment.option import refuse, wrong
from alignkit.experiment.strict_types import STRICT, Flag, Integer, Name, Number, Share
from alignkit.experiment.timm_config import unknown_timm
from alignkit.models.architectures import SCHEMA, unknown_model


class Augment(BaseModel):
    """Random changes of training images, the same for every path (drawn per sample, seeded)."""

    model_config = STRICT
    flip: Share = 0.0
    """Probability of a horizontal flip."""
    crop: Annotated[Integer, Field(ge=0, le=512)] = 0
    """Pixels of zero padding on each side before a random crop back to the input size."""


class Recipe(BaseModel):
    """``train:``: the training every path gets; only the preprocessing differs."""

    model_config = STRICT
    model: Annotated[str, Field(json_schema_extra=SCHEMA)] = "small-cnn"
    """``small-cnn``, the name of a torchvision classification model, or ``timm:NAME``."""
    epochs: Annotated[Integer, Field(ge=1, le=10_000)] = 8
    seeds: Annotated[tuple[Integer, ...], Field(min_length=1)] = (0, 1, 2)
    fractions: Annotated[tuple[Annotated[Number, Field(gt=0, le=1)], ...], Field(min_length=1)] = (
        1.0,
    )
    """Shares of the training images; each gives rows of its own. A share takes as much of every
    class, the same images for every path, and the smaller lies within the larger."""
    mix: tuple[Name, ...] = ()
    """Paths of a further row: one model whose images come from one of them, drawn anew for every
    image and epoch. Its cells are compared with the first of these paths."""
    batch_size: Annotated[Integer, Field(ge=1, le=65_536)] = 64
    optimiser: Literal["adamw", "sgd"] = "adamw"
    learning_rate: Annotated[Number, Field(gt=0)] = 0.005
    weight_decay: Annotated[Number, Field(ge=0)] = 0.05
    momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.9
    """Used by ``sgd`` only."""
    schedule: Literal["cosine", "constant", "step"] = "cosine"
    step_epochs: Annotated[Integer, Field(ge=1)] = 30
    """Used by ``step`` only: after every so many epochs the rate is a tenth."""
    warm_up: Annotated[Number, Field(ge=0)] = 0.0
    """Epochs in which the rate rises in a straight line to that of the schedule."""
    label_smoothing: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    clip_norm: Annotated[Number, Field(gt=0)] | None = None
    """Greatest norm of the gradient of all weights together; longer ones are scaled down."""
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
    """Share of the training images, of each class, that is not trained on: every epoch is scored on
    it. The same images for every path."""
    keep: Literal["last", "best"] = "last"
    """Which epoch's weights are the model. ``best`` has the most right answers on ``holdout``, and
    of as many the smallest loss; the evaluation images have no part in it."""
    pretrained: Annotated[str, Field(min_length=1)] | None = None
    """Weights to begin with: a file of a ``state_dict``, with its suffix, torchvision's name
    (``IMAGENET1K_V1``) or timm's tag. A last layer for other classes is drawn anew."""
    augment: Augment = Augment()
    device: Literal["cpu", "cuda"] = "cpu"

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
        lines = []
        if self.keep == "best" and not self.holdout:
            told = (
                "is chosen on training images that are held out; set train.holdout, say to 0.1. "
                "Chosen on the evaluation images, it would flatter every cell"
            )
            lines.append(wrong("keep", told, "keep"))
        if self.sync_batch_norm and self.device == "cpu":
            told = "torch computes SyncBatchNorm on GPUs only; set train.device: cuda"
            lines.append(wrong("device", told, "sync_batch_norm"))
        refuse("Recipe", lines)
        return self

    @field_validator("model")
    @classmethod
    def _known_model(cls, model: str) -> str:
        timm = model.startswith("timm:")
        reason = unknown_timm(model.removeprefix("timm:")) if timm else unknown_model(model)
        if reason:
            raise PydanticCustomError("model", "{message}", {"message": reason})
        return model
