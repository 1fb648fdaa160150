"""A model that a command is given, in fp32 and in one runtime: ``--model`` → `Session`.

ONNX files run in ONNX Runtime, all others in torch, on the CPU. No labels are needed, and no names
of classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, is_zipfile

from pydantic import ValidationError

from alignkit.backends import BACKENDS
from alignkit.errors import BackendError, ConfigError, DataError, MissingDependency
from alignkit.experiment import problems_of
from alignkit.experiment.model_option import ModelOption
from alignkit.experiment.yaml_source import parse
from alignkit.models.checkpoint import Checkpoint
from alignkit.models.user_model import UserModel, in_one_file, input_size_of, outputs_of
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.backends import Session

MODEL_FORMS = (
    "FILE.onnx, FILE.pt2 (torch.export), FILE.pt (TorchScript), timm:NAME (published weights), or "
    "an entry of 'models:' such as '{weights: FILE.pt, model: timm:resnet18}'"
)
_SUFFIXES = {".onnx": "onnx", ".pt2": "exported"}


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that is ready to predict."""

    name: str
    sha256: str
    """Of its file; empty for published weights by name."""
    session: Session
    runtime: str
    """Library and version with the precision."""
    outputs: tuple[str, ...]
    """The name of each: its class, or ``output 7``."""


def given_model(text: str) -> UserModel:
    """Read the argument; raise `ConfigError` for one of no known form, or if there is no file."""
    if text.startswith("timm:"):
        return UserModel(text, "weights", Path(), model=text)
    model = _option(text).build()
    if not model.file.is_file():
        raise ConfigError(f"--model: there is no file {model.file}; give {MODEL_FORMS}")
    return model


def _option(text: str) -> ModelOption:
    source = parse(text, "--model") if text.lstrip().startswith("{") else None
    given = dict(source.value) if source and not source.problems else _of_file(text, source)
    file = next((str(given[key]) for key in given if key not in ("model", "classes", "name")), "")
    entry = {"name": Path(file).stem or "model", "preprocess": "reference", **given}
    try:
        # the name is only shown, and a file's may hold any character
        return ModelOption.model_validate({**entry, "name": "model"}).model_copy(
            update={"name": entry["name"]}
        )
    except ValidationError as error:
        source = source or parse(json.dumps(given), "--model")
        problems = problems_of(error, source, ModelOption)
        raise ConfigError("\n".join(map(str, sorted(set(problems))))) from None


def _of_file(text: str, source: Any) -> dict[str, str]:
    """Return the entry that a file's name is short for."""
    if source is not None:
        raise ConfigError("\n".join(map(str, source.problems)))
    file = Path(text).expanduser()
    if key := _SUFFIXES.get(file.suffix.lower()):
        return {key: text}
    if not file.is_file():
        raise ConfigError(f"--model {text}: no such file; give {MODEL_FORMS}")
    if not _is_torchscript(file):
        raise ConfigError(
            f"--model {text}: a file of weights needs its architecture: "
            f"--model '{{weights: {text}, model: timm:resnet18}}', with a torchvision name, "
            "timm:NAME or module:function; or export it as ONNX"
        )
    return {"torchscript": text}


def _is_torchscript(file: Path) -> bool:
    # archives of torch.jit.save hold their code, those of torch.save do not
    if not is_zipfile(file):
        return False
    with ZipFile(file) as archive:
        return any("/code/" in name for name in archive.namelist())


def own_size(model: UserModel) -> tuple[int, int] | None:
    """Return (height, width) of the model's input if the file or the published weights say it."""
    if model.format == "onnx":
        return input_size_of(model.file)
    if _is_published(model):
        height, width = _published_cfg(model.model).input_size[1:]
        return int(height), int(width)
    return None


def _is_published(model: UserModel) -> bool:
    return model.file == Path()


def _published_cfg(name: str) -> Any:
    from alignkit.models.torch_model_files import import_timm

    import_timm()
    import timm

    cfg = timm.get_pretrained_cfg(name.removeprefix("timm:"), allow_unregistered=False)
    if cfg is None:
        raise ConfigError(f"--model {name}: timm has no published weights of that name")
    return cfg


@contextmanager
def open_given(model: UserModel, size: tuple[int, int]) -> Iterator[Opened]:
    """Open the model for inputs of (height, width); free it when the block ends.

    Raise `ConfigError` if its input has another size or its output for one image is not a row,
    `DataError` for a damaged file, `MissingDependency` without the runtime.
    """
    runtime = "onnxruntime" if model.format == "onnx" else "torch"
    if reason := BACKENDS[runtime].missing():
        raise MissingDependency(f"--model {model.name}: {reason}")
    own = own_size(model) if model.format == "onnx" else None
    if own and own != size:
        sides = "x".join(map(str, own))
        raise ConfigError(
            f"--model {model.file} takes inputs of {sides}, and the paths prepare "
            f"{size[0]}x{size[1]}; give the paths its size (--size {own[0]} for presets), or "
            "export the model again"
        )
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="alignkit-")))
        sha256 = "" if _is_published(model) else str(model.parts["file"])
        whole = _with_weights(model, folder)
        checkpoint = Checkpoint(
            model=whole.model or whole.name,
            classes=_outputs(whole, size),
            height=size[0],
            width=size[1],
            weights=whole.file,
            key=sha256,
            format=whole.format,
        )
        backend = BACKENDS[runtime].load()()
        file = in_one_file(whole.file, Workspace(folder)) if runtime == "onnxruntime" else None
        session = held.enter_context(closing(backend.open(checkpoint, file, "fp32")))
        outputs = _checked_outputs(session, model, size)
        yield Opened(model.name, sha256, session, f"{backend.version()}, fp32", outputs)


def _with_weights(model: UserModel, folder: Path) -> UserModel:
    """Return the model with a file; published weights are downloaded by timm."""
    if not _is_published(model):
        return model
    import torch

    from alignkit.models.pretrained import read_pretrained

    cfg = _published_cfg(model.model)
    name, _, tag = model.model.partition(".")
    weights, _ = read_pretrained(tag or str(cfg.tag), name)
    file = folder / "weights.pt"
    torch.save(dict(weights), file)
    return replace(model, file=file, model=name)


def _outputs(model: UserModel, size: tuple[int, int]) -> int:
    """Return the number of outputs that a module is built with; 0 where the file holds a graph."""
    if model.format == "onnx":
        return outputs_of(model.file, height=size[0], width=size[1]) or 0
    if model.format != "weights":
        return 0
    from alignkit.models.torch_model_files import read_weights

    weights = read_weights(model.file, model.model)
    if not isinstance(weights, dict) or not weights:
        raise DataError(f"{model.file} holds no weights of {model.model}; save its state_dict")
    # the head comes last; `load_model` refuses weights of another module
    shapes = [tuple(getattr(each, "shape", ())) for each in weights.values()]
    return int(next((shape[0] for shape in reversed(shapes) if shape), 0))


def _checked_outputs(session: Session, model: UserModel, size: tuple[int, int]) -> tuple[str, ...]:
    import numpy as np

    try:
        shape = session.predict(np.zeros((1, 3, *size), np.float32)).shape
    except BackendError:
        raise
    except Exception as error:  # a graph of the user's own raises what it likes
        reason = str(error).strip().rpartition("\n")[2]
        raise DataError(
            f"{model.file} does not run on inputs of {size[0]}x{size[1]} ({reason})"
        ) from error
    if len(shape) != 2 or shape[0] != 1 or not shape[1]:
        raise ConfigError(
            f"{model.file}: its output for one image has the shape {tuple(shape)}, expected "
            "(1, classes); export the model with one value for each class"
        )
    if model.classes and len(model.classes) != shape[1]:
        raise DataError(
            f"{model.file} has {shape[1]} outputs, and 'classes' names {len(model.classes)}; name "
            "every output, in order"
        )
    return model.classes or tuple(f"output {number}" for number in range(shape[1]))
