"""`Experiment`: what a YAML file means, validated. Unknown keys are refused.

The edge of the package: pydantic models whose plugin fields hold the plugins' own frozen
dataclasses. Nothing heavy is imported, so that a file is checked in milliseconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alignkit.backends import BACKENDS, Backend, Precision
from alignkit.datasets import DATASETS, Dataset
from alignkit.decoders import DECODERS, Decoder
from alignkit.errors import ConfigError
from alignkit.option import PluginOption, plugin_from
from alignkit.preprocess import Colour, Crop, Normalise, Orient, Preprocess, Quantise, Resize
from alignkit.presets import PRESETS
from alignkit.plugins import did_you_mean
from alignkit.resizers import RESIZERS

STRICT = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]


def _pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else value


Side = Annotated[int, Field(ge=1, le=8192)]
Size = Annotated[tuple[Side, Side], BeforeValidator(_pair)]


class ResizeOption(BaseModel):
    """``resize:`` of a path: a resizer by name with its options, and the target."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    size: Size
    fit: Literal["squash", "shorter", "letterbox"] = "squash"
    pad: Annotated[int, Field(ge=0, le=255)] = 114

    def build(self) -> Resize:
        """The stage; raises a validation error for an unknown resizer or option."""
        options = {"name": self.name, **(self.model_extra or {})}
        return Resize(plugin_from("resizers", RESIZERS, options), self.size, self.fit, self.pad)


class NormaliseOption(BaseModel):
    """``normalise:`` of a path: per-channel mean and std of values in 0..1."""

    model_config = STRICT
    mean: tuple[float, float, float]
    std: tuple[
        Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]
    ]


class PreprocessOption(BaseModel):
    """One entry of ``preprocess:``: a preset with overrides, or every stage spelt out."""

    model_config = STRICT
    preset: str | None = None
    size: Annotated[int, Field(ge=1, le=8192)] | None = None
    """Side of the square input a preset prepares, in pixels."""
    decode: Annotated[Decoder, PluginOption("decoders", DECODERS)]
    orient: Literal["none", "exif"] = "none"
    resize: ResizeOption
    crop: Size | None = None
    quantise: Literal["none", "round", "truncate"] = "none"
    colour: str = "rgb"
    normalise: NormaliseOption | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_preset(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {"preset": given}
        if not isinstance(given, dict) or given.get("preset") is None:
            return given
        preset = PRESETS.get(given["preset"])
        if preset is None:
            raise PydanticCustomError(
                "preset",
                "no preset '{name}'{hint}",
                {"name": given["preset"], "hint": did_you_mean(given["preset"], PRESETS)},
            )
        if "size" not in given:
            raise PydanticCustomError("preset_size", "a preset needs 'size', the input's side in pixels")
        stages = preset.stages(given["size"])
        resize = given.get("resize")
        if isinstance(resize, dict) and "name" not in resize:
            given = {**given, "resize": {**stages["resize"], **resize}}
        return {**stages, **given}

    @field_validator("colour")
    @classmethod
    def _known_colour(cls, value: str) -> str:
        Colour(value)  # type: ignore[arg-type]  # raises ValueError for an unknown space
        return value

    def build(self, name: str) -> Preprocess:
        """The `Preprocess` this entry describes."""
        if self.decode.orients and self.orient == "exif":
            raise ConfigError(
                f"preprocess.{name}: this decoder turns images by EXIF itself; leave 'orient' out"
            )
        surrogate_of = PRESETS[self.preset].surrogate_of if self.preset else ""
        normalise = Normalise(self.normalise.mean, self.normalise.std) if self.normalise else Normalise()
        return Preprocess(
            name=name,
            decode=self.decode,
            resize=self.resize.build(),
            orient=Orient(self.orient),
            crop=Crop(self.crop),
            quantise=Quantise(self.quantise),
            colour=Colour(self.colour),  # type: ignore[arg-type]
            normalise=normalise,
            surrogate_of=surrogate_of,
        )


class Augment(BaseModel):
    """Random changes of training images, the same for every path (drawn per sample, seeded)."""

    model_config = STRICT
    flip: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Probability of a horizontal flip."""
    crop: Annotated[int, Field(ge=0, le=512)] = 0
    """Pixels of zero padding on each side before a random crop back to the input size."""


class Recipe(BaseModel):
    """``train:``: the training every path gets; only the preprocessing differs."""

    model_config = STRICT
    model: str = "small-cnn"
    """``small-cnn`` or the name of a torchvision classification model."""
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 8
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2)
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 64
    optimiser: Literal["adamw", "sgd"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0)] = 0.002
    weight_decay: Annotated[float, Field(ge=0)] = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Used by ``sgd`` only."""
    schedule: Literal["cosine", "constant"] = "cosine"
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    augment: Augment = Augment()
    device: Literal["cpu", "cuda"] = "cpu"

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) != len(seeds):
            raise PydanticCustomError("seeds", "each seed may stand here once")
        return seeds


class BackendOption(BaseModel):
    """One entry of ``evaluate.backends``: a backend by name with its options and precisions."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)
    name: str
    precision: Annotated[tuple[Precision, ...], Field(min_length=1)] = ("fp32",)

    @field_validator("precision", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _plugin_is_valid(self) -> Self:
        self.build()
        return self

    def build(self) -> Backend:
        """The backend; raises a validation error for an unknown name or option."""
        backend: Backend = plugin_from(
            "backends", BACKENDS, {"name": self.name, **(self.model_extra or {})}
        )
        return backend


class Evaluate(BaseModel):
    """``evaluate:``: what every model runs in. The first backend's first precision is the
    reference of every row."""

    model_config = STRICT
    backends: Annotated[tuple[BackendOption, ...], Field(min_length=1)] = (
        BackendOption(name="torch"),
    )
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 250
    resamples: Annotated[int, Field(ge=200, le=100_000)] = 2000
    """Bootstrap resamples behind each interval."""


class Rule(BaseModel):
    """One entry of ``gate.rules``. ``metric`` is ``churn``, ``top1``, ``recall.macro``,
    ``recall.micro``, ``precision.macro`` or ``precision.micro``."""

    model_config = STRICT
    metric: Literal[
        "churn", "top1", "recall.macro", "recall.micro", "precision.macro", "precision.micro"
    ]
    warn: Annotated[float, Field(ge=0, le=1)] | None = None
    fail: Annotated[float, Field(ge=0, le=1)] | None = None
    """Threshold on the absolute value."""
    margin: Annotated[float, Field(gt=0, le=1)] | None = None
    """Two-sided equivalence margin: the whole interval inside it passes, wholly outside fails,
    across it is inconclusive."""

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.warn is None and self.fail is None and self.margin is None:
            raise PydanticCustomError("rule", "a rule needs 'warn', 'fail' or 'margin'")
        return self


class Gate(BaseModel):
    """``gate:``: when the run fails."""

    model_config = STRICT
    informational: bool = False
    """Show verdicts, but exit 0."""
    on_inconclusive: Literal["warn", "fail"] = "warn"
    rules: tuple[Rule, ...] = ()


class ReportOption(BaseModel):
    """``report:``: what the page shows."""

    model_config = STRICT
    worst: Annotated[int, Field(ge=0, le=200)] = 12
    """Images shown for each candidate path, worst first."""


class ExperimentFile(BaseModel):
    """The YAML file, key by key."""

    model_config = STRICT
    name: Name
    data: Annotated[Dataset, PluginOption("datasets", DATASETS)]
    preprocess: Annotated[dict[Name, PreprocessOption], Field(min_length=2)]
    """Two or more paths; the first is the reference."""
    train: Recipe = Recipe()
    evaluate: Evaluate = Evaluate()
    gate: Gate = Gate()
    report: ReportOption = ReportOption()


class Experiment(BaseModel):
    """A validated file together with where it came from."""

    model_config = STRICT
    file: Path
    text: str
    """The YAML as written."""
    overrides: tuple[str, ...] = ()
    """``--set`` arguments, as given."""
    content: ExperimentFile
    paths: tuple[Preprocess, ...]
    """The built paths, reference first."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        sizes = {path.size for path in self.paths}
        if len(sizes) > 1:
            described = ", ".join(f"{path.name} {path.size[0]}x{path.size[1]}" for path in self.paths)
            raise ConfigError(f"all paths must give inputs of one size: {described}")
        return self

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
        return " ".join(line for line in lines if not line.startswith("yaml-language-server")).strip()

    @property
    def reference(self) -> Preprocess:
        """The path the others are compared with."""
        return self.paths[0]
