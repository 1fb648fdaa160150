"""`Experiment`: the validated content of a YAML file. Unknown keys are refused.

The edge of the package: pydantic models whose plugin fields hold the plugins' own frozen
dataclasses. Nothing heavy is imported, so that a file is checked in milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, Field, field_validator, model_validator

from alignkit.datasets import DATASETS, Dataset
from alignkit.datasets.unlabelled_images import CalibratedData, Images
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.misfits import misfits, training_truth
from alignkit.experiment.option import STRICT_MODEL, Options, PluginOption, refuse, wrong
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.rule_option import Rule
from alignkit.experiment.run_options import (
    GIVEN_MODEL,
    AdviseOption,
    AttributeOption,
    Evaluate,
    ReportOption,
)
from alignkit.experiment.train_option import Recipe
from alignkit.models.user_model import UserModel
from alignkit.outcome import Skipped
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess, same_as
from alignkit.preprocess.stages import Name
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
    models: tuple[Annotated[UserModel, GIVEN_MODEL], ...] = ()
    """The user's own models, in place of ``train``."""
    calibration: Annotated[Images, Options(Images)] | None = None
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

    @model_validator(mode="before")
    @classmethod
    def _graphs_run_in_onnxruntime(cls, given: Any) -> Any:
        """Let ONNX files run in ONNX Runtime if ``evaluate`` names no backend: torch runs none."""
        if not isinstance(given, dict) or not isinstance(models := given.get("models"), list):
            return given
        evaluate = given.get("evaluate", {})
        if not isinstance(evaluate, dict) or "backends" in evaluate or not models:
            return given
        graphs, others = {"onnx", "made_by"}, {"weights", "torchscript", "exported", "pretrained"}
        keys = [{*each} if isinstance(each, dict) else set() for each in models]
        if not all(each & graphs and not each & others for each in keys):
            return given
        return {**given, "evaluate": {**evaluate, "backends": ["onnxruntime"]}}

    @field_validator("preprocess")
    @classmethod
    def _paths_fit(cls, paths: dict[str, PreprocessOption]) -> dict[str, PreprocessOption]:
        # a preset's or an import's size is known only when the path is built
        built = [option.build(name) for name, option in paths.items()]
        reference, doubles = built[0], same_as(built)
        (height, width), lines = reference.size, []
        for path in built:
            if path.size != reference.size:
                message = (
                    f"gives {path.size[0]}x{path.size[1]}, but {reference.name!r} gives "
                    f"{height}x{width}; one model takes one size"
                )
                lines.append(wrong("size", message, path.name, given=paths))
            if paths[path.name].same and path.name not in doubles:
                message = "is not true: no earlier path has all of these stages and options"
                lines.append(wrong("same", message, path.name, "same", given=paths))
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
        """Check what the parts of the file say of each other, all in one pass."""
        refuse("ExperimentFile", [*misfits(self)])
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

    @cached_property  # a data set lists its files once
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
        for model in self.content.models:
            fitted = replace(model, task=fitted).fitted().task
        return fitted

    @cached_property  # each hashes its file once
    def models(self) -> tuple[UserModel, ...]:
        """The user's own models, with the task as their outputs need it."""
        return tuple(replace(each, task=self.task) for each in self.content.models)

    @property
    def gate(self) -> Gate:
        """The rules that measurements are judged by."""
        return self.content.gate

    @property
    def recipe(self) -> Recipe:
        """The recipe of every training."""
        return self.content.train

    @property
    def report(self) -> ReportOption:
        """The images whose pixels are kept."""
        return self.content.report

    @property
    def advise(self) -> AdviseOption | None:
        """The search for nearer options; ``None`` for no search."""
        return self.content.advise

    @property
    def batch_size(self) -> int:
        """The number of images in a batch that a model predicts."""
        return self.content.evaluate.batch_size

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

    def with_graphs(self, found: Callable[[UserModel], Path | None]) -> Experiment:
        """Return the experiment with the ONNX files of models that scripts make, where found."""
        made = [each.made_by and found(each) for each in self.content.models]
        models = tuple(
            replace(each, onnx=file, made_by="") if file else each
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


_IMAGES = 300
"""Images of each split, drawn class by class; one of each class if there are more classes."""
_IDENTITIES = 100
"""Evaluated ones; each has several images, and every pair of these is compared."""
_ANNOTATED = 150
"""Images of each split with boxes or masks: an image has several."""
_EPOCHS = 3
_EPOCHS_OF_SMALL_CNN = 10
"""It begins without pretrained weights, and trains in seconds."""
_RESAMPLES = 200
_ATTRIBUTED = 100
_SEARCHED = 50
_KEPT = 500_000
"""Bytes of images that changed, of each pair of paths."""


_Smaller: TypeAlias = tuple[str, Any, Any]
"""The key of a value, and the value before and after."""


def quick_changes(experiment: Experiment) -> dict[str, str]:
    """Map the overrides of a first look to the values that they replace, in words.

    Only what is larger than a first look needs is replaced: its paths, models, runtimes and rules
    stay. It fails no build, so that its gate becomes informational.
    """
    changes = [*_smaller_values(experiment)]
    if changes and not experiment.gate.informational:
        changes.append(("gate.informational", False, True))

    def written(value: Any) -> str:
        return "none" if value is None else json.dumps(value).strip('"')

    return {
        f"{key}={json.dumps(after)}": f"{key}: {written(before)} → {written(after)}"
        for key, before, after in changes
    }


def _smaller_values(experiment: Experiment) -> Iterator[_Smaller]:
    content = experiment.content
    yield from _of_data(experiment)
    for index, model in enumerate(content.models):
        if model.made_by and "--quick" not in model.made_by:
            made = f"{model.made_by} --quick"
            yield f"models.{index}.made_by", model.made_by, made
    if experiment.predicts:
        yield from _smaller("evaluate.resamples", content.evaluate.resamples, _RESAMPLES)
        if not content.models:
            recipe = content.train
            most = _EPOCHS_OF_SMALL_CNN if recipe.model == "small-cnn" else _EPOCHS
            yield from _smaller("train.epochs", recipe.epochs, most)
            if len(recipe.seeds) > 1:
                yield "train.seeds", [*recipe.seeds], [recipe.seeds[0]]
            if len(recipe.fractions) > 1:
                yield "train.fractions", [*recipe.fractions], [max(recipe.fractions)]
        for index, backend in enumerate(content.evaluate.backends):
            yield from _smaller(f"evaluate.backends.{index}.builds", backend.builds, 1)
        yield from _of_attribution(experiment)
        yield from _smaller("report.changed", content.report.changed, _KEPT)
    if content.advise:
        yield from _smaller("advise.images", content.advise.images, _SEARCHED)


def _of_data(experiment: Experiment) -> Iterator[_Smaller]:
    data = experiment.content.data
    annotated = getattr(data, "truth", "") in ("boxes", "mask")
    most = max(_ANNOTATED if annotated else _IMAGES, len(data.class_names()))
    evaluated = _IDENTITIES if getattr(data, "held_out", False) else most
    for field, few in (("train", most), ("eval", evaluated)):
        if isinstance(value := getattr(data, field, None), int):
            yield from _smaller(f"data.{field}", value, few)
    if hasattr(data, "limit") and max(experiment.data.counts()) > most:
        yield "data.limit", data.limit, most


def _of_attribution(experiment: Experiment) -> Iterator[_Smaller]:
    option = experiment.content.attribute
    if option.images == "none":
        return
    _, evaluated = experiment.data.counts()
    most = min(evaluated, option.images) if isinstance(option.images, int) else evaluated
    if most > _ATTRIBUTED:
        yield "attribute.images", option.images, _ATTRIBUTED
    if option.decode or (option.decode is None and _decode_is_divided(experiment)):
        yield "attribute.decode", option.decode, False
    if option.runtimes == "all":
        yield "attribute.runtimes", "all", "worst"


def _decode_is_divided(experiment: Experiment) -> bool:
    """Tell whether a decoder differs from the reference's in switches, which divide decode."""
    # pairs with the reference alone are attributed
    from alignkit.decoders.decoder_switches import switches_of

    reference, *others = (path.decode for path in experiment.paths)
    pairs = (switches_of(reference, each) for each in others)
    return any(not isinstance(both, Skipped) and both[0] != both[1] for both in pairs)


def _smaller(key: str, value: int, most: int) -> Iterator[_Smaller]:
    if value > most:
        yield key, value, most


def experiment_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an experiment file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ExperimentFile.model_json_schema(),
        "title": "alignkit experiment",
    }
