"""``models:`` and ``evaluate:``: models the user brings, and the backends that models run in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from alignkit.backends import BACKENDS, Backend, Builder, Precision
from alignkit.datasets.regular_file import read_text
from alignkit.errors import MissingDependency
from alignkit.experiment.option import (
    STRICT_MODEL,
    Integer,
    Name,
    PluginMapping,
    no_such,
    refuse,
    wrong,
)
from alignkit.models.architectures import USER_BUILT, unknown_model
from alignkit.models.checkpoint import CheckpointFormat
from alignkit.models.pretrained import is_file
from alignkit.models.user_model import UserModel
from alignkit.samples import NO_LABELS
from alignkit.tasks import Task, usual_task

FORMATS: tuple[CheckpointFormat, ...] = ("weights", "torchscript", "exported", "onnx")


_NO_CLASS = "N/A"
"""Name of an output that is no class, as torchvision's COCO weights have it."""


def _class_names(given: Any) -> Any:
    """Return the names of outputs; each that is no class has a name of its own."""
    names = _lines_of_file(given)
    if not isinstance(names, list | tuple):
        return names
    # one alone may be a class of the data
    gaps = (None, _NO_CLASS) if [*names].count(_NO_CLASS) > 1 else (None,)
    return [f"{_NO_CLASS} {place}" if name in gaps else name for place, name in enumerate(names)]


def _lines_of_file(given: Any) -> Any:
    """Return ImageNet's classes or the lines of the file that the YAML names; else the value."""
    if not isinstance(given, str):
        return given
    if given == "imagenet":
        return _imagenet_classes()
    try:
        # other line ends of Python's splitlines may stand within a name
        lines = read_text(Path(given).expanduser()).rstrip().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "it is not UTF-8"
        named = {"file": given, "reason": reason}
        message = "{file} cannot be read ({reason}); give a file with one name a line, or a list"
        raise PydanticCustomError("classes", message, named) from error
    names = [line.strip() for line in lines]
    if "" in names:
        empty = {"file": given, "line": names.index("") + 1}
        raise PydanticCustomError(
            "classes", "line {line} of {file} is empty: it names no output", empty
        )
    if unfit := next((each for each in names if "\0" in each), None):
        held = {"file": given, "line": names.index(unfit) + 1}
        raise PydanticCustomError(
            "classes", "line {line} of {file} holds a NUL character; save it as UTF-8 text", held
        )
    return names


def _imagenet_classes() -> tuple[str, ...]:
    from alignkit.models.pretrained import imagenet_classes

    try:
        return imagenet_classes()
    except MissingDependency as error:  # reported with its place, beside the file's other mistakes
        raise PydanticCustomError("classes", "{reason}", {"reason": str(error)}) from error


class ModelOption(BaseModel):
    """One model: its file, or one for torch and one for ONNX runtimes, or the name of published
    weights; and the path it was trained with.
    """

    model_config = STRICT_MODEL
    name: Name
    """Name of its row."""
    preprocess: Name
    """The path it was trained with, which its row is compared with."""
    weights: Path | None = None
    """A ``state_dict`` saved by ``torch.save``, for ``model``; nothing in it is executed."""
    model: str | None = None
    """With ``weights``: a torchvision name, ``timm:NAME``, or ``module:function`` of your own; with
    ``pretrained``: one of the first two."""
    pretrained: Annotated[str, Field(min_length=1)] | None = None
    """Name of the published weights of ``model``, as torchvision (``IMAGENET1K_V1``) or timm
    (``a1_in1k``) has it; they are downloaded once."""
    torchscript: Path | None = None
    """A file of ``torch.jit.save``."""
    exported: Path | None = None
    """An archive of ``torch.export.save``."""
    onnx: Path | None = None
    """Exported ONNX file; it runs in backends that take one, not in torch. Beside another file it
    is the same model exported: ONNX runtimes run it as it is, and torch runs the other file."""
    made_by: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = ""
    """In place of a file: a Python script beside this file, with arguments of its own. A run that
    finds no stored model calls it with the name of the ONNX file to write as the last argument."""
    classes: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        BeforeValidator(
            _class_names,
            json_schema_input_type=tuple[str | None, ...] | Literal["imagenet"] | Path,
        ),
    ] = ()
    """Name of each output in order, as the folders are named: a list, a file with one name a line,
    or ``imagenet`` for the 1,000 WordNet ids of ImageNet-1k. An output that is no class is null, or
    ``N/A`` if several are. A model may have more outputs than the data has classes. Without it, the
    names are those in the file, as Ultralytics writes them; without these, the outputs are the
    data's classes in their order, and of images without labels numbered from 0."""

    outputs: tuple[str, ...] = ()
    """Names of the outputs that the task reads, where the model has others too; by default it finds
    them among all."""

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        named = [each for each in (*FORMATS, "pretrained") if getattr(self, each) is not None]
        named += ["made_by"] * bool(self.made_by)
        others = [each for each in named if each != "onnx"]
        if not named or len(others) > 1 or (self.made_by and self.onnx):
            message = (
                "give one of weights, pretrained, torchscript, exported, onnx, made_by; onnx may "
                "stand beside one of the first four"
            )
            raise PydanticCustomError("model", message)
        if (self.model is not None) != bool({"weights", "pretrained"} & {*others}):
            message = "'model' belongs to 'weights' or 'pretrained'"
            raise PydanticCustomError("model", message)
        if self.pretrained and is_file(self.pretrained):
            message = "'pretrained' is a name of published weights; give a file as 'weights'"
            raise PydanticCustomError("model", message)
        # a function of the user's own is not imported by a check of the file
        own = self.model is not None and USER_BUILT.fullmatch(self.model)
        if self.pretrained and own and not str(self.model).startswith("timm:"):
            message = "'pretrained' names weights of torchvision or timm, and 'model' is neither's"
            raise PydanticCustomError("model", message)
        if self.model and not own and (reason := unknown_model(self.model)):
            raise PydanticCustomError("model", "{message}", {"message": reason})
        if repeated := [name for name, count in Counter(self.classes).items() if count > 1]:
            some = {"names": ", ".join(map(repr, repeated[:3]))}
            raise PydanticCustomError("model", "'classes': {names} stands there twice", some)
        return self

    @property
    def format(self) -> CheckpointFormat:
        """The format of the file."""
        held = (each for each in FORMATS if getattr(self, each) is not None)
        return "onnx" if self.made_by else "weights" if self.pretrained else next(held)

    @property
    def file(self) -> Path:
        """The path of the file; that of published weights, or one to make, is not known yet."""
        unknown = self.pretrained or self.made_by
        path: Path = Path() if unknown else getattr(self, self.format)
        return path.expanduser()

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths of its files: none that are fetched or made, and an ONNX file beside them."""
        own = () if self.pretrained or self.made_by else (self.file,)
        return (*own, self._beside) if self._beside else own

    @property
    def _beside(self) -> Path | None:
        return self.onnx.expanduser() if self.onnx and self.format != "onnx" else None

    def build(self, task: Task | None = None) -> UserModel:
        """Build the model this entry describes, by default a classifier."""
        return UserModel(
            self.name,
            self.format,
            self.file,
            self.model or "",
            self.classes,
            self.pretrained or "",
            self._beside,
            self.outputs,
            task or usual_task(),
            self.made_by,
        )


def is_graph_alone(entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry of ``models:``, as it is written, is an ONNX file and no other."""
    graph = "onnx" in entry or "made_by" in entry
    return graph and not any(key in entry for key in (*FORMATS[:-1], "pretrained"))


def mismatched(
    models: tuple[ModelOption, ...], paths: Collection[str], *, trains: bool
) -> list[InitErrorDetails]:
    """Return one line for each model that does not fit the rest of the file."""
    lines = []
    if models and trains:
        lines.append(wrong("models", "stands in place of 'train'; remove one", "models"))
    names = [model.name for model in models]
    for index, model in enumerate(models):
        if model.preprocess not in paths:
            message = no_such("path", model.preprocess, paths)
            lines.append(wrong("models", message, "models", index, "preprocess"))
        if model.name in names[:index]:
            lines.append(wrong("models", "each name may stand once", "models", index, "name"))
    return lines


def unlabelled(*, trains: bool, calibrates: bool) -> list[InitErrorDetails]:
    """Return one line for each part of a file that needs labels, where the images have none."""
    lines = []
    if trains:
        message = f"{NO_LABELS} to train with; use data: {{name: folder}}, or give 'models'"
        lines.append(wrong("labels", message, "train"))
    if calibrates:
        message = (
            f"int8 takes its scales from training images, and {NO_LABELS} nor a part to train "
            "with; name images that calibrate: calibration: {root: DIR}, with or without labels"
        )
        lines.append(wrong("labels", message, "evaluate", "backends"))
    return lines


def uncalibrated(
    calibration: object, evaluate: Evaluate, models: Sequence[ModelOption], advise: object
) -> list[InitErrorDetails]:
    """Return a line for images to calibrate with that nothing would use."""
    if calibration is None or (models and (evaluate.calibrates or advise)):
        return []
    message = (
        "nothing takes its scales from them: no precision of 'evaluate' is calibrated, as int8 is"
        if models
        else "is for the user's own models; those of 'train' are calibrated with training images"
    )
    return [wrong("calibration", message, "calibration", given=calibration)]


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Precisions = Annotated[
    tuple[Precision, ...],
    Field(min_length=1),
    BeforeValidator(_one_or_many, json_schema_input_type=Precision | tuple[Precision, ...]),
]


class BackendOption(PluginMapping):
    """One entry of ``evaluate.backends``: a backend by name with its options and precisions."""

    table = BACKENDS
    precision: Precisions = ("fp32",)
    """A precision, or a list of them; the first of the first backend is the reference."""
    builds: Annotated[Integer, Field(ge=1, le=100)] = 1
    """Times each model is exported, built and loaded; from 2 on, the spread of the builds' logits
    is reported."""

    @classmethod
    def completed(cls, given: Any) -> Any:
        """Return the mapping; its precision is by default the first that the backend offers."""
        given = {"name": given} if isinstance(given, str) else given
        # some backends have no fp32
        if isinstance(given, dict) and given.get("name") in BACKENDS:
            first = BACKENDS[given["name"]].load().precisions[0]
            given = {"precision": first, **given}
        return given

    def build(self) -> Backend:
        """Build the backend."""
        backend: Backend = self.plugin()
        return backend

    def title(self, without: Collection[str] = ()) -> str:
        """Return name and options, so that two backends of one name differ."""
        given = sorted((self.model_extra or {}).items())
        return " ".join([self.name, *(f"{k}={v}" for k, v in given if k not in without)])


def _repeated(title: str, other: str, precision: Precision) -> str:
    if title == other:
        return f"{title} stands there twice in {precision}; drop one"
    return f"{title} is {other} in {precision}: an option at its default changes nothing; drop one"


class Evaluate(BaseModel):
    """``evaluate:``: the backends that every model runs in.

    The first backend's first precision is the reference of every row.
    """

    model_config = STRICT_MODEL
    backends: Annotated[tuple[BackendOption, ...], Field(min_length=1)] = Field(
        default_factory=lambda: (BackendOption(name="torch"),)
    )
    """Runtimes by name, with their options; the first one is the reference of every row. By default
    torch, or onnxruntime for models that are ONNX files alone."""
    batch_size: Annotated[Integer, Field(ge=1, le=65_536)] = 128
    """Images in a batch; the logits of some runtimes depend on it in their last bits."""
    resamples: Annotated[Integer, Field(ge=200, le=100_000)] = 2000
    """Bootstrap resamples behind each interval."""

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        """Refuse a column that another makes: its cells would be compared with themselves."""
        seen: dict[Precision, list[tuple[Backend, str]]] = {}
        lines = []
        for index, option in enumerate(self.backends):
            # built, so that an option left out equals one spelled out at its default
            backend, title = option.build(), option.title()
            for precision in option.precision:
                known = seen.setdefault(precision, [])
                other = next((name for each, name in known if each == backend), None)
                if other is not None:
                    message = _repeated(title, other, precision)
                    lines.append(wrong("repeated", message, "backends", index))
                known.append((backend, title))
        refuse("Evaluate", lines)
        return self

    @property
    def calibrates(self) -> bool:
        """Whether an engine takes its scales from training images."""
        built = [(each.build(), each.precision) for each in self.backends]
        return any(
            isinstance(backend, Builder) and any(map(backend.calibration, precisions))
            for backend, precisions in built
        )

    def titles(self) -> list[str]:
        """Return a title for each backend; an endpoint's address only where two would be equal."""
        # addresses differ between machines, and would give the same cell two names
        unnamed = [getattr(each.build(), "unnamed", ()) for each in self.backends]
        pairs = zip(self.backends, unnamed, strict=True)
        brief = [each.title(without) for each, without in pairs]
        full = [each.title() for each in self.backends]
        return [
            short if brief.count(short) == 1 else long
            for short, long in zip(brief, full, strict=True)
        ]
