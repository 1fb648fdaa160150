"""``models:`` of an experiment: models the user brings, in place of ``train:``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from alignkit.experiment.option import STRICT_MODEL, Name, wrong
from alignkit.models.architectures import USER_BUILT, unknown_model
from alignkit.models.checkpoint import CheckpointFormat
from alignkit.models.user_model import UserModel
from alignkit.plugins import did_you_mean

FORMATS: tuple[CheckpointFormat, ...] = ("weights", "torchscript", "exported", "onnx")


class ModelOption(BaseModel):
    """One model: exactly one file, and the path it was trained with."""

    model_config = STRICT_MODEL
    name: Name
    preprocess: Name
    """The path it was trained with, which its row is compared with."""
    weights: Path | None = None
    """A ``state_dict`` saved by ``torch.save``, for ``model``; nothing in it is executed."""
    model: str | None = None
    """With ``weights``: a torchvision name, ``timm:NAME``, or ``module:function`` of your own."""
    torchscript: Path | None = None
    """A file of ``torch.jit.save``."""
    exported: Path | None = None
    """An archive of ``torch.export.save``."""
    onnx: Path | None = None
    classes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Names in the order of the outputs; without it, the data's order."""

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        named = [each for each in FORMATS if getattr(self, each) is not None]
        if len(named) != 1:
            raise PydanticCustomError("model", "give one of weights, torchscript, exported, onnx")
        if (self.model is not None) != (self.weights is not None):
            raise PydanticCustomError("model", "'weights' and 'model' belong together")
        own = self.model is not None and USER_BUILT.fullmatch(self.model)
        if self.model and not own and (reason := unknown_model(self.model)):
            raise PydanticCustomError("model", "{message}", {"message": reason})
        if self.classes and len(set(self.classes)) != len(self.classes):
            raise PydanticCustomError("model", "each class may be named once")
        return self

    @property
    def format(self) -> CheckpointFormat:
        """The format of the file."""
        return next(each for each in FORMATS if getattr(self, each) is not None)

    @property
    def file(self) -> Path:
        """The path of the file."""
        path: Path = getattr(self, self.format)
        return path.expanduser()

    def build(self) -> UserModel:
        """Build the model this entry describes."""
        return UserModel(self.name, self.format, self.file, self.model or "", self.classes or ())


def mismatched(
    models: tuple[ModelOption, ...], paths: dict[str, object], *, trains: bool
) -> list[InitErrorDetails]:
    """Return one line for each model that does not fit the rest of the file."""
    lines = []
    if models and trains:
        lines.append(wrong("models", "stands in place of 'train'; remove one", "models"))
    names = [model.name for model in models]
    for index, model in enumerate(models):
        if model.preprocess not in paths:
            message = f"no path {model.preprocess!r}{did_you_mean(model.preprocess, paths)}"
            lines.append(wrong("models", message, "models", index, "preprocess"))
        if model.name in names[:index]:
            lines.append(wrong("models", "each name may stand once", "models", index, "name"))
    return lines
