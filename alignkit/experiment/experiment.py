"""`Experiment`: the validated content of a YAML file. Unknown keys are refused.

The edge of the package: pydantic models whose plugin fields hold the plugins' own frozen
dataclasses. Nothing heavy is imported, so that a file is checked in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from alignkit.datasets import DATASETS, Dataset
from alignkit.datasets.unlabelled_images import CalibratedData, Images
from alignkit.experiment.gate_option import Able, Gate, misplaced
from alignkit.experiment.model_option import (
    Evaluate,
    ModelOption,
    is_graph_alone,
    mismatched,
    uncalibrated,
    unlabelled,
)
from alignkit.experiment.option import (
    STRICT_MODEL,
    Name,
    PluginOption,
    no_such,
    refuse,
    wrong,
)
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.report_option import (
    AdviseOption,
    AttributeOption,
    ReportOption,
    unadvisable,
)
from alignkit.experiment.rule_option import Rule
from alignkit.experiment.task_option import NEEDS_CLASSES, mistaught, training_truth, untaught
from alignkit.experiment.train_option import Recipe
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess, same_as
from alignkit.tasks import TASKS, Task, usual_task


class ExperimentFile(BaseModel):
    """The YAML file, key by key."""

    model_config = STRICT_MODEL
    name: Name
    """Name of the experiment; its runs are in reports/<name>/."""
    data: Annotated[Dataset, PluginOption(DATASETS)]
    """The images: a data set by name, with its options."""
    task: Annotated[Task, PluginOption(TASKS)] = usual_task()
    """The task that the models solve: by name, with its options."""
    preprocess: Annotated[dict[Name, PreprocessOption], Field(min_length=1)]
    """The paths; the first is the reference. One is enough where models run in two runtimes or
    precisions, and for a gate that compares it only with a baseline."""
    train: Recipe = Recipe()
    """The recipe by which a model is trained with every path; the same for all of them."""
    models: tuple[ModelOption, ...] = ()
    """The user's own models, in place of ``train``."""
    calibration: Annotated[Images | None, PluginOption(DATASETS, "images")] = None
    """Images that int8 takes its scales from, with or without labels, as ``{root: DIR}``; by
    default training images. For the user's own models."""
    evaluate: Evaluate = Field(default_factory=Evaluate)
    """Runtimes and precisions in which every model is evaluated with every path."""
    gate: Gate = Gate()
    """Rules by which the result passes or fails."""
    attribute: AttributeOption = AttributeOption()
    """How the drift is divided among the stages."""
    advise: AdviseOption | None = None
    """Search for options that bring training and serving nearer to each other."""
    report: ReportOption = ReportOption()
    """Content of the report."""
    """A table from elsewhere, shown beside what is measured here."""

    @model_validator(mode="before")
    @classmethod
    def _graphs_run_in_onnxruntime(cls, given: Any) -> Any:
        """Let ONNX files run in ONNX Runtime if ``evaluate`` names no backend: torch runs none."""
        if not isinstance(given, dict) or not isinstance(models := given.get("models"), list):
            return given
        evaluate = given.get("evaluate", {})
        if not isinstance(evaluate, dict) or "backends" in evaluate or not models:
            return given
        if not all(isinstance(each, dict) and is_graph_alone(each) for each in models):
            return given
        return {**given, "evaluate": {**evaluate, "backends": ["onnxruntime"]}}

    @field_validator("preprocess")
    @classmethod
    def _sizes_agree(cls, paths: dict[str, PreprocessOption]) -> dict[str, PreprocessOption]:
        # a preset's or an import's size is known only when the path is built
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

    @field_validator("preprocess")
    @classmethod
    def _same_paths_are(cls, paths: dict[str, PreprocessOption]) -> dict[str, PreprocessOption]:
        doubles = same_as([option.build(name) for name, option in paths.items()])
        message = "is not true: no earlier path has all of these stages and options"
        lines = [
            wrong("same", message, name, "same", given=paths)
            for name, option in paths.items()
            if option.same and name not in doubles
        ]
        refuse(cls.__name__, lines)
        return paths

    @property
    def labelled(self) -> bool:
        """Whether the images have labels, so that models can be trained and recall measured."""
        return getattr(self.data, "labelled", True)

    @property
    def predicts(self) -> bool:
        """Whether models predict: trained ones need a class an image, given ones need none."""
        return bool(self.models) or training_truth(self.data) == "class"

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        """Check the names by which parts of the file refer to each other, all in one pass."""
        paths = tuple(self.preprocess)
        backends = tuple(backend.name for backend in self.evaluate.backends)
        lines = [
            wrong("mix", no_such("path", name, paths), "train", "mix")
            for name in self.train.mix
            if name not in paths
        ]
        trains = "train" in self.model_fields_set
        lines += mismatched(self.models, paths, trains=trains)
        lines += uncalibrated(self.calibration, self.evaluate, self.models, self.advise)
        calibrates = bool(self.models) and self.evaluate.calibrates and self.calibration is None
        lines += unlabelled(trains=trains, calibrates=calibrates) * (not self.labelled)
        trained = training_truth(self.data) if trains and self.labelled else None
        lines += untaught(self.task, self.data.truth, trained)
        if self.predicts and not self.models:
            lines += mistaught(self.task, self.train, self.data)
        if self.data.truth not in ("class", "none"):
            if self.advise is not None:
                lines.append(
                    wrong("task", NEEDS_CLASSES.format("advise", self.data.truth), "advise")
                )
        elif self.advise is not None:
            trains = not self.models
            lines += unadvisable(self.advise, paths, labelled=self.labelled, trains=trains)
        stacks = [option.build(name) for name, option in self.preprocess.items()]
        fitted = stacks if self.labelled and not self.models else []
        lines += [
            wrong(
                "auto",
                "gives images of varying sizes, and a training takes one; give the trained model "
                "under 'models:', or leave 'auto' out",
                "preprocess", path.name, "resize", "auto",
            )
            for path in fitted
            if path.varies
        ]  # fmt: skip
        precisions = tuple(each for one in self.evaluate.backends for each in one.precision)
        able = Able(self.labelled, self.predicts, precisions * self.predicts, self.task.facts())
        lines += misplaced(self.gate, stacks=stacks, backends=backends, able=able)
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
    quick: tuple[str, ...] = ()
    """Each value that ``--quick`` made smaller, in words; empty for the experiment as it is."""

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
        """The data set that models are trained and evaluated on.

        All of it is evaluated where nothing takes training images, or ``calibration`` names them.
        """
        content = self.content
        if content.calibration is not None:
            return CalibratedData(content.data.undivided(), content.calibration)
        idle = content.models and content.advise is None and not content.evaluate.calibrates
        return content.data.undivided() if idle else content.data

    @property
    def data_name(self) -> str:
        """The data set's name, as in the file."""
        return name_of(self.content.data, DATASETS)

    @property
    def labelled(self) -> bool:
        """Whether the images have labels."""
        return self.content.labelled

    @property
    def predicts(self) -> bool:
        """Whether models predict; otherwise there are only pixels to compare."""
        return self.content.predicts

    @cached_property  # it reads the headers of the models' files
    def task(self) -> Task:
        """The task that the models solve, as their outputs need it."""
        fitted = self.content.task
        for option in self.content.models:
            fitted = option.build(fitted).fitted().task
        return fitted

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

    @property
    def same(self) -> list[str]:
        """The names of paths that repeat an earlier one on purpose."""
        return [name for name, option in self.entries.items() if option.same]

    def with_paths(self, options: Mapping[str, PreprocessOption]) -> Experiment:
        """Return the experiment with more paths, after its own."""
        return self._changed(preprocess={**self.content.preprocess, **options})

    def narrowed(self, paths: Sequence[str], rules: Sequence[Rule]) -> Experiment:
        """Return the experiment with these of its paths and these rules alone."""
        return self._changed(
            preprocess={name: self.content.preprocess[name] for name in paths},
            gate=self.gate.model_copy(update={"rules": tuple(rules)}),
        )

    def with_graphs(self, found: Callable[[ModelOption], Path | None]) -> Experiment:
        """Return the experiment with the ONNX files of models that scripts make, where found."""
        made = [each.made_by and found(each) for each in self.content.models]
        models = tuple(
            each.model_copy(update={"onnx": file, "made_by": ""}) if file else each
            for each, file in zip(self.content.models, made, strict=True)
        )
        return self._changed(models=models) if any(made) else self

    def _changed(self, **update: Any) -> Experiment:
        return replace(self, content=self.content.model_copy(update=update))

    @property
    def question(self) -> str:
        """The comment the file opens with: the question the experiment answers."""
        lines = []
        for line in self.text.splitlines():
            # comments further down explain keys
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
