"""`Experiment`: the validated content of a YAML file. Unknown keys are refused.

The edge of the package: pydantic models whose plugin fields hold the plugins' own frozen
dataclasses. Nothing heavy is imported, so that a file is checked in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from alignkit.backends import BACKENDS, Backend, Precision
from alignkit.datasets import DATASETS, Dataset
from alignkit.experiment.advise_option import AdviseOption, unadvisable
from alignkit.experiment.model_option import ModelOption, mismatched
from alignkit.experiment.option import (
    STRICT_MODEL,
    Integer,
    Name,
    PluginOption,
    plugin_from,
    plugin_schema,
    refuse,
    validated_with_plugin,
    wrong,
)
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.published_option import Published, unplaced
from alignkit.experiment.recipe import Recipe
from alignkit.experiment.rule import Gate, Rule
from alignkit.experiment.rule_place import misplaced
from alignkit.plugins import did_you_mean
from alignkit.preprocess import Preprocess


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
    """Times each model is exported, built and loaded; from 2 on, the spread of the builds' logits
    is reported."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_plugin(cls, given: Any, handler: Callable[[Any], BackendOption]) -> BackendOption:
        given = {"name": given} if isinstance(given, str) else given
        # some backends have no fp32, so the default is the first precision that each one offers
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
        """Build the backend."""
        backend: Backend = plugin_from(
            "backends", BACKENDS, {"name": self.name, **(self.model_extra or {})}
        )
        return backend

    def title(self, without: Collection[str] = ()) -> str:
        """Return name and options, so that two backends of one name differ."""
        given = sorted((self.model_extra or {}).items())
        return " ".join([self.name, *(f"{k}={v}" for k, v in given if k not in without)])


class Evaluate(BaseModel):
    """``evaluate:``: the backends that every model runs in.

    The first backend's first precision is the reference of every row.
    """

    model_config = STRICT_MODEL
    backends: Annotated[tuple[BackendOption, ...], Field(min_length=1)] = Field(
        default_factory=lambda: (BackendOption(name="torch"),)
    )
    batch_size: Annotated[Integer, Field(ge=1, le=65_536)] = 250
    resamples: Annotated[Integer, Field(ge=200, le=100_000)] = 2000
    """Bootstrap resamples behind each interval."""

    def titles(self) -> list[str]:
        """Return a title for each backend; an endpoint's address only where two would be equal."""
        unnamed = [getattr(each.build(), "unnamed", ()) for each in self.backends]
        pairs = zip(self.backends, unnamed, strict=True)
        brief = [each.title(without) for each, without in pairs]
        full = [each.title() for each in self.backends]
        return [
            short if brief.count(short) == 1 else long
            for short, long in zip(brief, full, strict=True)
        ]


class ReportOption(BaseModel):
    """``report:``: options of the page."""

    model_config = STRICT_MODEL
    worst: Annotated[Integer, Field(ge=0, le=200)] = 12
    """Images shown for each candidate path, worst first."""


class ExperimentFile(BaseModel):
    """The YAML file, key by key."""

    model_config = STRICT_MODEL
    name: Name
    data: Annotated[Dataset, PluginOption("datasets", DATASETS)]
    preprocess: Annotated[dict[Name, PreprocessOption], Field(min_length=1)]
    """Two or more paths; the first is the reference. One path is enough for a gate that compares it
    only with a baseline."""
    train: Recipe = Recipe()
    models: tuple[ModelOption, ...] = ()
    """The user's own models, in place of ``train``."""
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
    """A validated file, with its path, text and overrides."""

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
    def data(self) -> Dataset:
        """The data set that models are trained and evaluated on."""
        return self.content.data

    @property
    def labelled(self) -> bool:
        """Whether models can be trained; without labels there are only pixels to compare."""
        return self.content.labelled

    @property
    def gate(self) -> Gate:
        """The rules that measurements are judged by."""
        return self.content.gate

    @property
    def resamples(self) -> int:
        """The number of bootstrap resamples behind each interval."""
        return self.content.evaluate.resamples

    @property
    def entries(self) -> Mapping[str, PreprocessOption]:
        """The entries of ``preprocess:``, by name."""
        return self.content.preprocess

    def with_paths(self, options: Mapping[str, PreprocessOption]) -> Experiment:
        """Return the experiment with more paths, after its own."""
        return self._changed(preprocess={**self.content.preprocess, **options})

    def narrowed(self, paths: Sequence[str], rules: Sequence[Rule]) -> Experiment:
        """Return the experiment with these of its paths and these rules alone."""
        return self._changed(
            preprocess={name: self.content.preprocess[name] for name in paths},
            gate=self.gate.model_copy(update={"rules": tuple(rules)}),
        )

    def _changed(self, **update: Any) -> Experiment:
        return replace(self, content=self.content.model_copy(update=update))

    @property
    def question(self) -> str:
        """The comment the file opens with: the question the experiment answers."""
        lines = []
        for line in self.text.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.lstrip("# ").rstrip())
        # editors read that comment: it names the schema
        said = [line for line in lines if line and not line.startswith("yaml-language-server")]
        return " ".join(said)


def experiment_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an experiment file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ExperimentFile.model_json_schema(),
        "title": "alignkit experiment",
    }
