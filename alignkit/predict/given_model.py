"""A model that a command is given, in fp32 and in one runtime: ``--model`` → `Session`.

ONNX files run in ONNX Runtime, all others in torch, on the CPU. No labels are needed, and no names
of classes; ``--task`` says how the outputs of anything but a classifier are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ValidationError

from alignkit.backends import BACKENDS
from alignkit.errors import ConfigError, MissingDependency
from alignkit.experiment import Mistakes, problems_of
from alignkit.experiment.option import PluginOption
from alignkit.experiment.run_options import GIVEN_MODEL
from alignkit.experiment.yaml_source import parse
from alignkit.models.file_headers import kind_of, mistaken
from alignkit.models.graph_bounds import require_bearable
from alignkit.models.joined_graph import in_one_file
from alignkit.models.model_fit import faults_of, given_checkpoint, outputs_of
from alignkit.models.onnx_header import read_onnx_header
from alignkit.models.pretrained import default_tag, timm_size
from alignkit.models.user_model import UserModel
from alignkit.plan.work import Runtime
from alignkit.predict.decoder import AnswerDecoder
from alignkit.tasks import TASKS, Task
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.backends import Session

MODEL_FORMS = (
    "a file of ONNX, TorchScript or torch.export, timm:NAME for published weights, or an entry of "
    "'models:' such as '{weights: FILE.pt, model: timm:resnet18}'"
)
_GRAPHS = ("onnx", "torchscript", "exported")
"""Kinds of files that hold a graph with its weights."""


class _TaskArgument(BaseModel):
    task: Annotated[Task, PluginOption(TASKS)]


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that is ready to predict."""

    name: str
    sha256: str
    """Of its file; empty for published weights by name."""
    session: Session
    runtime: str
    """Library and version with the precision."""
    parts: Mapping[str, Any]
    """Runtime, options, versions and processor, as JSON: they decide the outputs."""
    outputs: tuple[str, ...]
    """The name of each class: its own, or ``output 7``; empty for a task without classes."""
    size: tuple[int, int] | None
    """(height, width) of its input, if its file fixes them."""
    decoder: AnswerDecoder
    """Of its task; no labels are known."""
    recognised: str
    """Which outputs are decoded, and how, in words; empty for a row of class scores."""


def given_task(text: str) -> Task:
    """Read the argument of ``--task``: a name, or a mapping with its options.

    Raise `ConfigError` for an unknown task or option.
    """
    source = parse(f"{{task: {text}}}", "--task")
    if source.problems:
        raise Mistakes(source.problems)
    try:
        return _TaskArgument.model_validate(source.value).task
    except ValidationError as error:
        raise Mistakes(problems_of(error, source, _TaskArgument)) from None


def given_model(text: str, task: Task | None = None) -> UserModel:
    """Read the argument of ``--model``; ``task`` is the model's, by default classification.

    Raise `ConfigError` for an argument of no known form, or if there is no file.
    """
    model = _entry(text)
    if not model.is_known:
        file = f"that {model.made_by} made" if model.made_by else model.file
        raise ConfigError(f"--model: there is no file {file}; give {MODEL_FORMS}")
    return model if task is None else replace(model, task=task)


def _entry(text: str) -> UserModel:
    mapping = text.lstrip().startswith("{")
    # a file's name must not be read as YAML
    source = parse(text if mapping else json.dumps(_short_for(text)), "--model")
    if source.problems:
        raise Mistakes(source.problems)
    given = dict(source.value)
    sources = ("weights", "torchscript", "exported", "onnx", "model")
    file = next((given[key] for key in sources if key in given), "")
    name = str(given.pop("name", "")) or (text if not mapping else Path(str(file)).stem)
    given.pop("preprocess", None)  # of an entry that is pasted: here the paths are the arguments'
    try:
        # the name is only shown, and may hold any character
        entry: UserModel = GIVEN_MODEL.built({**given, "name": "model", "preprocess": "reference"})
    except ValidationError as error:
        raise Mistakes(problems_of(error, source, _TaskArgument)) from None
    return replace(entry, name=Path(name).name)


def _short_for(text: str) -> dict[str, str]:
    """Return the entry of ``models:`` that a file, by its kind, or ``timm:NAME`` is short for."""
    if text.startswith("timm:"):
        name, _, tag = text.partition(".")
        return {"model": name, "pretrained": tag or default_tag(name)}
    file = Path(text).expanduser()
    if not file.is_file():
        raise ConfigError(f"--model {text}: no such file; give {MODEL_FORMS}")
    kind = kind_of(file)
    if kind in _GRAPHS:
        return {kind: text}
    if kind == "weights":
        raise ConfigError(
            f"--model {text}: a file of weights needs its architecture: "
            f"--model '{{weights: {text}, model: timm:resnet18}}', with a torchvision name, "
            "timm:NAME or module:function; or export it as ONNX"
        )
    raise ConfigError(f"--model {text}: {mistaken(file, 'onnx') or f'give {MODEL_FORMS}'}")


def own_size(model: UserModel) -> tuple[int, int] | None:
    """Return (height, width) of the input if an ONNX file fixes it, or timm states it.

    ``None`` for all others. Raise `DataError` if the file is no ONNX file.
    """
    if model.pretrained and model.model.startswith("timm:"):
        return timm_size(model.pretrained, model.model)
    if model.format != "onnx":
        return None
    inputs = read_onnx_header(model.file).inputs
    shape = inputs[0].image if len(inputs) == 1 else None
    if shape is None or len(shape) != 4 or shape[1] not in (None, 1, 3):
        return None  # no image's: `onnx_faults` says so
    height, width = shape[2:]
    return (height, width) if height and width else None


@contextmanager
def open_given(model: UserModel, size: tuple[int, int]) -> Iterator[Opened]:
    """Open the model for inputs of (height, width); free it when the block ends.

    Raise `ConfigError` if its input has another size or its task cannot read its outputs,
    `DataError` for a damaged file, `MissingDependency` without the runtime.
    """
    model = model.fitted()
    runtime = "onnxruntime" if model.format == "onnx" else "torch"
    if reason := BACKENDS[runtime].missing():
        raise MissingDependency(f"--model {model.name}: {reason}")
    own = own_size(model) if model.format == "onnx" else None  # timm's networks take others too
    if own and own != size:
        sides = "x".join(map(str, own))
        raise ConfigError(
            f"--model {model.file} takes inputs of {sides}, and the paths prepare "
            f"{size[0]}x{size[1]}; give the paths its size (--size {own[0]} for presets), or "
            "export the model again"
        )
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="alignkit-")))
        sha256 = str(model.parts.get("file", ""))
        model = model.fetched(Workspace(folder))
        for fault in faults_of(model, (), size):
            raise ConfigError(f"--model {model.name}: {fault.message}")
        checkpoint = given_checkpoint(model, (), size)
        backend = BACKENDS[runtime].load()()
        file = None
        if runtime == "onnxruntime":
            file = in_one_file(model.file, Workspace(folder))
            require_bearable(file, size)
        session = held.enter_context(closing(backend.open(checkpoint, file, "fp32")))
        decoder = AnswerDecoder.of(model.task, checkpoint, ())
        parts = Runtime(runtime, backend, "fp32", backend.version()).parts
        words = f"{backend.version()}, fp32"
        outputs = checkpoint.outside
        read = model.reads(outputs_of(model, checkpoint), ())
        yield Opened(model.name, sha256, session, words, parts, outputs, own, decoder, read)
