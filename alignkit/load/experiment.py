"""`Experiment`: what a YAML file means, validated. Unknown keys are refused.

The edge of the package: pydantic models whose plugin fields hold the plugins' own frozen
dataclasses. Nothing heavy is imported, so that a file is checked in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from alignkit.backends import BACKENDS, Backend, Precision
from alignkit.datasets import DATASETS, Dataset
from alignkit.field import STRICT, Flag, Integer, Name, Number, Share
from alignkit.gate.rule import Gate
from alignkit.load.advise_option import AdviseOption, unadvisable
from alignkit.load.model_option import ModelOption, mismatched
from alignkit.load.option import (
    PluginOption,
    plugin_from,
    plugin_schema,
    refuse,
    validated_with_plugin,
    wrong,
)
from alignkit.load.preprocess_option import PreprocessOption
from alignkit.load.published_option import Published, unplaced
from alignkit.load.rule_place import misplaced
from alignkit.load.timm_config import unknown_timm
from alignkit.plugins import did_you_mean
from alignkit.preprocess import Preprocess
from alignkit.train.models import SCHEMA, unknown_model


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


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Precisions = Annotated[
    tuple[Precision, ...],
    Field(min_length=1),
    BeforeValidator(_one_or_many, json_schema_input_type=Precision | tuple[Precision, ...]),
]


class BackendOption(BaseModel):
    """One entry of ``evaluate.backends``: a backend by name with its options and precisions."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)
    name: str
    precision: Precisions = ("fp32",)
    builds: Annotated[Integer, Field(ge=1, le=100)] = 1
    """Times each model is exported, built and loaded anew; from 2 on, the spread of the builds'
    logits is reported."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_plugin(cls, given: Any, handler: Callable[[Any], BackendOption]) -> BackendOption:
        given = {"name": given} if isinstance(given, str) else given
        if isinstance(given, dict) and given.get("name") in BACKENDS:
            first = BACKENDS[given["name"]].load().precisions[0]
            given = {"precision": first, **given}
        return validated_with_plugin(cls, given, handler, family="backends", table=BACKENDS)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        own = dict(handler.resolve_ref_schema(handler(core))["properties"])
        del own["name"]
        return plugin_schema(BACKENDS, own=own)

    def build(self) -> Backend:
        """The backend."""
        backend: Backend = plugin_from(
            "backends", BACKENDS, {"name": self.name, **(self.model_extra or {})}
        )
        return backend

    def title(self, without: Collection[str] = ()) -> str:
        """Name and options, so that two of one kind stay apart."""
        given = sorted((self.model_extra or {}).items())
        return " ".join([self.name, *(f"{k}={v}" for k, v in given if k not in without)])


class Evaluate(BaseModel):
    """``evaluate:``: what every model runs in.

    The first backend's first precision is the reference of every row.
    """

    model_config = STRICT
    backends: Annotated[tuple[BackendOption, ...], Field(min_length=1)] = Field(
        default_factory=lambda: (BackendOption(name="torch"),)
    )
    batch_size: Annotated[Integer, Field(ge=1, le=65_536)] = 250
    resamples: Annotated[Integer, Field(ge=200, le=100_000)] = 2000
    """Bootstrap resamples behind each interval."""

    def titles(self) -> list[str]:
        """Of each backend; an endpoint's address is named only to tell two apart."""
        unnamed = [getattr(each.build(), "unnamed", ()) for each in self.backends]
        pairs = zip(self.backends, unnamed, strict=True)
        brief = [each.title(without) for each, without in pairs]
        full = [each.title() for each in self.backends]
        return [
            short if brief.count(short) == 1 else long
            for short, long in zip(brief, full, strict=True)
        ]


class ReportOption(BaseModel):
    """``report:``: what the page shows."""

    model_config = STRICT
    worst: Annotated[Integer, Field(ge=0, le=200)] = 12
    """Images shown for each candidate path, worst first."""


class ExperimentFile(BaseModel):
    """The YAML file, key by key."""

    model_config = STRICT
    name: Name
    data: Annotated[Dataset, PluginOption("datasets", DATASETS)]
    preprocess: Annotated[dict[Name, PreprocessOption], Field(min_length=1)]
    """Two or more paths; the first is the reference. One, where a gate compares it with a baseline
    alone."""
    train: Recipe = Recipe()
    models: tuple[ModelOption, ...] = ()
    """Your own models, in place of ``train``."""
    evaluate: Evaluate = Field(default_factory=Evaluate)
    gate: Gate = Gate()
    advise: AdviseOption | None = None
    report: ReportOption = ReportOption()
    published: Published | None = None
    """A table from elsewhere, shown beside what is measured here."""

    @field_validator("preprocess")
    @classmethod
    def _sizes_agree(cls, paths: dict[str, PreprocessOption]) -> dict[str, PreprocessOption]:
        sizes = {name: option.build(name).size for name, option in paths.items()}
        (reference, (height, width)), *others = sizes.items()
        lines = [
            wrong(
                "size",
                f"gives {size[0]}x{size[1]}, but {reference!r} gives {height}x{width}; one model "
                "takes one size",
                name,
                given=paths,
            )
            for name, size in others
            if size != (height, width)
        ]
        refuse(cls.__name__, lines)
        return paths

    @property
    def labelled(self) -> bool:
        """Whether models can be trained; without labels there are only pixels to compare."""
        return getattr(self.data, "labelled", True)

    @model_validator(mode="after")
    def _mix_fits(self) -> Self:
        lines = [
            wrong("mix", f"no path {name!r}{did_you_mean(name, self.preprocess)}", "train", "mix")
            for name in self.train.mix
            if name not in self.preprocess
        ]
        refuse("ExperimentFile", lines)
        return self

    @model_validator(mode="after")
    def _models_fit(self) -> Self:
        trains = "train" in self.model_fields_set
        refuse("ExperimentFile", mismatched(self.models, dict(self.preprocess), trains=trains))
        return self

    @model_validator(mode="after")
    def _advise_fits(self) -> Self:
        if self.advise is not None:
            paths, trains = tuple(self.preprocess), not self.models
            lines = unadvisable(self.advise, paths, labelled=self.labelled, trains=trains)
            refuse("ExperimentFile", lines)
        return self

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        backends = tuple(backend.name for backend in self.evaluate.backends)
        lines = misplaced(
            self.gate,
            paths=tuple(self.preprocess),
            backends=backends,
            labelled=self.labelled,
        )
        if self.published:
            lines += unplaced(
                self.published,
                paths=self.preprocess,
                backends=backends,
                labelled=self.labelled,
            )
        refuse("ExperimentFile", lines)
        return self


@dataclass(frozen=True)
class Experiment:
    """A validated file together with where it came from."""

    file: Path
    text: str
    """The YAML as written."""
    content: ExperimentFile
    overrides: tuple[str, ...] = ()
    """``--set`` arguments, as given."""

    @cached_property
    def paths(self) -> tuple[Preprocess, ...]:
        """The preprocessing paths, reference first."""
        return tuple(option.build(name) for name, option in self.content.preprocess.items())

    @property
    def reference(self) -> Preprocess:
        """The path the others are compared with."""
        return self.paths[0]

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.content.name

    @property
    def question(self) -> str:
        """The comment the file opens with: the question the experiment answers."""
        lines = []
        for line in self.text.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.lstrip("# ").rstrip())
        told = [line for line in lines if line and not line.startswith("yaml-language-server")]
        return " ".join(told)


def experiment_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an experiment file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ExperimentFile.model_json_schema(),
        "title": "alignkit experiment",
    }
