"""Whether a model can run on the data and its input size: known before anything is prepared.

Names of torchvision's models need no torch for it (`alignkit.models.architectures.unfit_size`). The
others are built on torch's device ``meta``, without memory for their weights, except the few whose
code computes with values, which meta tensors lack. Code of the user's own, a function or a
TorchScript file, is run for it only where a run begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError, ConfigError, DataError
from alignkit.limits import MODEL_OUTPUTS
from alignkit.models.architectures import (
    build_model,
    import_timm,
    load_graph,
    load_model,
    misfit,
    unfit_size,
)
from alignkit.models.checkpoint import Checkpoint, CheckpointFormat
from alignkit.models.entry_faults import Fault, entry_faults, miscounted, misnamed, unread
from alignkit.models.file_headers import mistaken, read_weights_header, wrapper
from alignkit.models.graph_bounds import bounded_run, unbearable
from alignkit.models.joined_graph import of_planes
from alignkit.models.onnx_header import read_onnx_header
from alignkit.models.pretrained import published_outputs
from alignkit.models.user_model import LONE_OUTPUT, UserModel
from alignkit.tasks import OutputShape

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn


def require_input(model: str, height: int, width: int) -> None:
    """Raise `ConfigError` if a named model does not take inputs of this size."""
    unfit = _unfit_timm if model.startswith("timm:") else unfit_size
    if reason := unfit(model, height, width):
        raise ConfigError(reason)


def faults_of(given: UserModel, classes: Sequence[str], size: tuple[int, int]) -> list[Fault]:
    """Find every reason why a user's model cannot run on data of these classes.

    ``classes`` is empty if they are not known; ``size`` is (height, width). Only headers are read,
    and torch is imported only to compare weights that look right with the names of their model.
    Raise `MissingDependency` if the model is timm's and timm is not installed.
    """
    found = entry_faults(given, classes, size)
    if given.pretrained:
        found += _published_faults(given, len(classes)) + _input_faults(given, size)
    elif given.format == "weights":
        found += _weights_faults(given, len(classes), size)
    elif given.format != "onnx" and (reason := mistaken(given.file, given.format)):
        found.append(Fault(given.format, f"{given.file} cannot be loaded: {reason}"))
    named = given.named or classes
    if not found and not named and given.graph and not given.is_code:
        outputs = _outputs(given, size)
        reason = _unequal(given, outputs)
        if fault := MODEL_OUTPUTS.fault(outputs or 0):
            reason = f"{given.graph} has {fault}"
        found += [Fault("onnx", reason)] if reason else []
    return found


def _unequal(given: UserModel, outputs: int | None) -> str:
    """Say that a model's ONNX file has other outputs than its weights; else empty.

    It is asked where no name says how many there should be.
    """
    exported = _counted(given, read_onnx_header(given.beside).declared) if given.beside else None
    if None in (outputs, exported) or outputs == exported:
        return ""
    own = f"{given.model} {given.pretrained}" if given.pretrained else given.file
    return f"{given.beside} has {exported} outputs, and {own} has {outputs}; export it again"


def given_checkpoint(given: UserModel, classes: Sequence[str], size: tuple[int, int]) -> Checkpoint:
    """Build a user's model for data of these classes, empty if the images have no labels.

    A module of the user's own is run on one black image, for the names of its outputs. Raise as
    `UserModel.checkpoint`, `output_names` and `require_own_code` do.
    """
    named = classes or output_names(given, size)
    checkpoint = given.checkpoint(named, size)
    if given.is_code:
        checkpoint = replace(checkpoint, outputs=_names_of_code(given, checkpoint))
    # without labels there is no class that an output could belong to
    return checkpoint if classes else replace(checkpoint, outside=tuple(named))


def outputs_of(given: UserModel, checkpoint: Checkpoint) -> Sequence[OutputShape]:
    """Describe a model's outputs; code, or a graph that leaves them open, is run for it."""
    declared = given.declared() or _of_code(given, checkpoint)
    scores = given.task.facts().class_scores
    if given.format == "onnx" and scores and _counted(given, declared) is None:
        return _of_onnx(given.file, (checkpoint.height, checkpoint.width), given.parts["file"])
    return declared


def output_names(given: UserModel, size: tuple[int, int]) -> tuple[str, ...]:
    """Return the names of a model's outputs, by default ``output 0``, ``output 1``, ….

    Raise `DataError` if the number of outputs is not known, `ConfigError` as the model's code does.
    """
    if given.named:
        return given.named
    outputs = _outputs(given, size)
    MODEL_OUTPUTS.require(outputs or 0, f"{given.graph or given.file} has")
    if outputs is None:
        raise DataError(
            f"{given.file} does not say how many outputs it has; name them as the model's "
            "'classes', a list or a file with one name a line"
        )
    if reason := _unequal(given, outputs):
        raise DataError(reason)
    return tuple(f"output {index}" for index in range(outputs))


def _outputs(given: UserModel, size: tuple[int, int]) -> int | None:
    """Count a model's classes by its file; run a graph or code on one black image for it."""
    if given.pretrained:
        return published_outputs(given.pretrained, given.model)
    if given.format == "onnx":
        counted = _counted(given, read_onnx_header(given.file).declared)
        if counted is not None:
            return counted
        return _counted(given, _of_onnx(given.file, size, given.parts["file"]))
    if given.format != "weights":
        return _counted(given, _of_graph(given.file, given.format, size, given.parts["file"]))
    weights = read_weights_header(given.file).tensors
    own = _on_meta(lambda: build_model(given.model, 2, *size)).state_dict()
    outputs = _outputs_in(weights, own, 2)
    if outputs != 2 or not given.runs_own_code:
        return outputs
    import torch

    # a function that takes no number of classes has as many as it likes
    with torch.random.fork_rng(devices=[]):
        module = build_model(given.model, 2, *size)
    return _counted(given, _declared(given.file, module.eval(), size))


def _counted(given: UserModel, declared: Sequence[OutputShape]) -> int | None:
    try:
        return given.task.counted(given.chosen(declared))
    except ConfigError as error:
        raise DataError(f"{given.graph or given.file}: {error}") from error


@cache
def _of_graph(
    file: Path,
    kind: CheckpointFormat,
    size: tuple[int, int],
    sha256: str,  # noqa: ARG001 - it keys the cache
) -> tuple[OutputShape, ...]:
    """Load a graph of torch's once, and describe its outputs; another file has another SHA-256."""
    # weights in float16 are computed in float32, as the session does
    return _declared(file, load_graph(file, kind).float(), size)


@cache
def _of_onnx(
    file: Path,
    size: tuple[int, int],
    sha256: str,  # noqa: ARG001 - it keys the cache
) -> tuple[OutputShape, ...]:
    """Run a graph that leaves its outputs open on one black image, and describe them.

    The class itself, as its greatest score makes it, is described by these scores.
    """
    import numpy as np
    import onnx
    import onnxruntime

    header = read_onnx_header(file)
    try:
        model = of_planes(file)
        shown = [each.chosen_from or each.name for each in header.outputs]
        new = dict.fromkeys(each for each in shown if each not in {e.name for e in header.outputs})
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(each) for each in new)
        graph = model.SerializeToString()
        _require_bearable(file, graph, size)
        session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        black = {session.get_inputs()[0].name: np.zeros((1, 3, *size), np.float32)}
        found = bounded_run(session, shown, black)
    except DataError:
        raise
    except Exception as error:  # a graph of the user's own raises what it likes
        reason = str(error).strip().rpartition("\n")[2]
        text = f"{file} does not run on inputs of {size[0]}x{size[1]} ({reason})"
        raise DataError(text) from error
    return tuple(
        replace(each, shape=(None, *array.shape[1:]), whole=each.whole and not value.chosen_from)
        for each, value, array in zip(header.declared, header.outputs, found, strict=True)
    )


def _require_bearable(file: Path, graph: bytes, size: tuple[int, int]) -> None:
    if reason := unbearable(file, graph, size):
        raise DataError(reason)


@cache
def _of_function(checkpoint: Checkpoint) -> tuple[OutputShape, ...]:
    """Build a function's module once, and describe its outputs; other weights have another key."""
    size = (checkpoint.height, checkpoint.width)
    return _declared(checkpoint.weights, load_model(checkpoint), size)


def _declared(file: Path, module: nn.Module, size: tuple[int, int]) -> tuple[OutputShape, ...]:
    """Describe the outputs for one black image.

    Raise `DataError` if the module does not run, or returns anything but tensors.
    """
    from alignkit.models.module_outputs import declared_outputs

    try:
        return declared_outputs(module, size)
    except BackendError as error:
        raise DataError(f"{file}: {error}") from error
    except Exception as error:  # code of the user's own raises what it likes
        reason = str(error).strip().rpartition("\n")[2]
        raise DataError(
            f"{file} does not run on inputs of {size[0]}x{size[1]} ({reason}); if it takes one "
            "channel, bytes, float16 or channels last, give its ONNX export, which is read so"
        ) from error


def require_own_code(given: UserModel, classes: Sequence[str], size: tuple[int, int]) -> None:
    """Run a TorchScript file, an exported program or a function's module on one black image.

    Raise `DataError` if it does not run, if the task cannot read its outputs for so many classes,
    or if they are not those of the ONNX file beside it.
    """
    if not given.is_code:
        return
    checkpoint = given.checkpoint(classes, size)
    _names_of_code(given, checkpoint)
    if fault := unread(given, _of_code(given, checkpoint), len(classes), given.file):
        raise DataError(fault.message)


def _of_code(given: UserModel, checkpoint: Checkpoint) -> tuple[OutputShape, ...]:
    """Describe the outputs of code; a tensor that is returned alone is named by the user."""
    size = (checkpoint.height, checkpoint.width)
    if given.format == "weights":
        # the names that are looked for do not change the module
        found = _of_function(replace(checkpoint, outputs=(), onnx=None))
    else:
        found = _of_graph(given.file, given.format, size, given.parts["file"])
    named = given.outputs or checkpoint.outputs
    if [each.name for each in found] == [LONE_OUTPUT] and len(named) == 1:
        return (replace(found[0], name=named[0]),)
    return found


def _names_of_code(given: UserModel, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Name the outputs of code that the task decodes; none if there is only one.

    Raise `DataError` if it cannot, or if the ONNX file beside it names others.
    """
    found = _of_code(given, checkpoint)
    if fault := unread(given, found, 0, given.file):
        raise DataError(fault.message)
    names, exported = given.wanted(found), checkpoint.outputs
    if not given.beside or names == exported or (not names and len(exported) == 1):
        return exported if given.beside else names
    there, here = (
        ", ".join(each.name for each in outputs)
        for outputs in (read_onnx_header(given.beside).declared, found)
    )
    raise DataError(
        f"{given.beside} has the outputs {there}, and {given.file} has {here}; the task reads "
        "outputs of the same names in both; name them at the export (output_names)"
    )


def _input_faults(given: UserModel, size: tuple[int, int]) -> list[Fault]:
    try:
        require_input(given.model, *size)
    except ConfigError as error:
        return [Fault("model", str(error))]
    return []


def _published_faults(given: UserModel, classes: int) -> list[Fault]:
    try:
        outputs = published_outputs(given.pretrained, given.model)
    except ConfigError as error:
        return [Fault("pretrained", str(error).removeprefix("pretrained: "))]
    reason = misnamed(given, outputs, classes)
    return [miscounted(given, reason)] if reason else []


def _weights_faults(given: UserModel, classes: int, size: tuple[int, int]) -> list[Fault]:
    found = [] if given.runs_own_code else _input_faults(given, size)
    begin = f"{given.file} holds no weights of {given.model}"
    try:
        weights = read_weights_header(given.file).tensors
    except DataError as error:
        return [*found, Fault("weights", f"{begin}: {error}")]
    if reason := wrapper(weights):
        return [*found, Fault("weights", f"{begin}: {reason}")]
    if found or given.runs_own_code:  # a model that does not take its input cannot be built
        return found
    outputs = len(given.named) or classes or 2
    own = _on_meta(lambda: build_model(given.model, outputs, *size)).state_dict()
    if not (reason := misfit(own, weights)):
        return []
    outputs_found = _outputs_in(weights, own, outputs)
    if outputs_found is None:
        advice = "" if "its names begin" in reason else "; name the model that it was saved from"
        return [Fault("weights", f"{begin}: {reason}{advice}")]
    named = misnamed(given, outputs_found, classes)
    return [miscounted(given, named)] if named else []


def _outputs_in(weights: Any, own: Any, outputs: int) -> int | None:
    """Return the outputs of weights that differ from ``own`` in nothing else; else ``None``."""
    if not hasattr(weights, "keys") or weights.keys() != own.keys():
        return None
    # batch normalisation counts in plain integers in some files
    sides = {name: tuple(getattr(weights[name], "shape", ()) or ()) for name in own}
    pairs = [(tuple(own[name].shape), theirs) for name, theirs in sides.items()]
    different = [(mine, theirs) for mine, theirs in pairs if mine != theirs]
    last = {theirs[:1] for mine, theirs in different}
    alike = all(mine[:1] == (outputs,) and mine[1:] == theirs[1:] for mine, theirs in different)
    if not different:
        return outputs
    return int(next(iter(last))[0]) if alike and len(last) == 1 and () not in last else None


def _on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    """Build a module on ``meta``; torch's generator is unchanged.

    A module whose code computes with values is built in memory, and its weights are dropped.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):
                return build()
        except ConfigError as error:
            # every other reason would be found again, with the memory of the whole model
            if not re.search(r"\bmeta\b", str(error.__cause__), re.IGNORECASE):
                raise
        return build().to("meta")


def _unfit_timm(model: str, height: int, width: int) -> str:
    try:
        _on_meta(lambda: build_model(model, 2, height, width))
    except ConfigError as error:
        config = import_timm().models.get_pretrained_cfg(model.removeprefix("timm:"))
        return f"{error}; timm made it for {config.input_size[1]}x{config.input_size[2]}"
    return ""
