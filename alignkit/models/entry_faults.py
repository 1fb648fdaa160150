"""Faults of an entry of ``models:``: names and numbers of outputs, and what a header refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from alignkit.errors import ConfigError, DataError
from alignkit.models.joined_graph import missing_weights
from alignkit.models.named_outputs import doubtful_names, in_other_order, numbered_names, other_task
from alignkit.models.onnx_header import onnx_faults, read_onnx_header

if TYPE_CHECKING:
    from alignkit.models.checkpoint import CheckpointFormat
    from alignkit.models.user_model import UserModel
    from alignkit.tasks import OutputShape


class Fault(NamedTuple):
    """A reason why a model cannot run, with the next step."""

    key: str
    """The key of its entry of ``models:`` that it is about."""
    message: str


def entry_faults(model: UserModel, classes: Sequence[str], size: tuple[int, int]) -> list[Fault]:
    """Find names of the data's classes that 'classes' lacks and, of an ONNX file, other shapes.

    ``classes`` is empty if they are not known; ``size`` is (height, width). Only headers are
    read.
    """
    if model.graph is None:
        found = _misnamed(model, classes)
        outputs = model.declared()
        fault = unread(model, outputs, len(classes)) if outputs else None
        return [*found, fault] if fault else found
    try:
        header = read_onnx_header(model.graph)
    except DataError as error:
        return [Fault("onnx", str(error))]
    found = _misnamed(model, classes)
    fault = unread(model, header.declared, len(classes)) if header.outputs else None
    wanted = () if fault else model.wanted(header.declared)
    reasons = [*onnx_faults(model.graph, header, size, wanted)]
    reasons += missing_weights(model.graph, header)
    return found + [Fault("onnx", each) for each in reasons] + ([fault] if fault else [])


def unread(
    model: UserModel, declared: Sequence[OutputShape], classes: int, file: Path | None = None
) -> Fault | None:
    """Return why the task cannot read outputs; ``classes`` is 0 if the data's are not known.

    ``file`` is the one that has the outputs, by default the ONNX file if there is one.
    """
    key = "outputs" if model.outputs else "onnx" if model.beside else model.format
    named: CheckpointFormat = "onnx" if model.graph else model.format
    file = file or model.graph or model.file
    if file.is_file() and (reason := other_task(file, named, model.task.facts().name)):
        return Fault(key, reason)
    try:
        outputs = model.chosen(declared)
        model.task.recognise(outputs, None)
    except ConfigError as error:
        return Fault(key, f"{file}: {error}")
    if model.task.fitting(outputs) != model.task:
        advice = "write the task '{name: classification, logits: none}', and name its 'classes'"
        return Fault(key, f"{file} gives the class itself, without scores; {advice}")
    numbered = numbered_names(file, named) if file.is_file() and not model.classes else 0
    try:
        for known in dict.fromkeys((len(model.named) or classes, numbered)):
            model.task.recognise(outputs, known or None)
    except ConfigError as error:
        (shape, *_) = (each.shape or () for each in outputs)
        counted = (shape[1] or 0) if len(shape) == 2 else 0
        # of outputs that are no row of scores the task knows the classes, and says so
        reason = (counted and misnamed(model, counted, classes, file)) or f"{file}: {error}"
        return Fault("onnx", reason) if model.beside else miscounted(model, reason)
    return None


def miscounted(model: UserModel, reason: str) -> Fault:
    """Return a fault of the number of outputs, at the key that names them if there is one."""
    key = "pretrained" if model.pretrained else model.format
    return Fault("classes" if model.classes else key, reason)


def _misnamed(model: UserModel, classes: Sequence[str]) -> list[Fault]:
    """Find the data's classes of which no output is named, and names in another order."""
    held = model.in_file
    if model.classes and (moved := in_other_order(model.classes, held)):
        reason = f"{model.graph or model.file} names its outputs in another order: {moved}"
        return [Fault("classes", f"{reason}; remove 'classes', or correct the file's 'names'")]
    file = model.graph or model.file
    key: CheckpointFormat = "onnx" if model.graph else model.format
    if classes and not model.named and file.is_file() and (reason := doubtful_names(file, key)):
        advice = "name every output, in order, as the model's 'classes'"
        return [Fault(key, f"{file} {reason}; {advice}")]
    unknown = sorted({*classes} - {*model.named})
    if not model.named or not unknown:
        return []
    some = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" * (len(unknown) > 3))
    named = ", ".join(model.named[:3]) + (", …" if len(model.named) > 3 else "")
    lacks = (
        f"outputs ({named}), and the model has no output for {len(unknown)} of the data's "
        f"{len(classes)} classes: {some}"
    )
    if model.classes:
        reason = f"'classes' names {len(model.classes)} {lacks}"
        return [Fault("classes", f"{reason}; name the outputs as the folders are named")]
    reason = f"{file} names its {len(held)} {lacks}"
    advice = "if they have other names there, write the model's 'classes': the data's, in order"
    return [Fault(key, f"{reason}; {advice} of the outputs")]


def misnamed(model: UserModel, outputs: int, classes: int, file: Path | None = None) -> str:
    """Explain why this number of outputs fits neither 'classes' nor the data; else empty.

    ``classes`` is 0 if the data's are not known; ``file`` is the one that has the outputs.
    """
    weights = f"{model.model} {model.pretrained}" if model.pretrained else model.file
    has = f"{file or weights} has {outputs} outputs"
    if model.named:
        if outputs == len(model.named):
            return ""
        names = "'classes' names" if model.classes else "the names in it are"
        return f"{has}, and {names} {len(model.named)}; name every output, in order, as 'classes'"
    if not classes:
        return ""
    if outputs > classes:
        return (
            f"{has}, and the data has {classes} classes; name the {outputs} outputs in order "
            "as the model's 'classes', a list or a file with one name a line"
            + "; 'classes: imagenet' names those of ImageNet-1k"
            * (outputs == 1000)
        )
    if outputs < classes:
        return (
            f"{has}, and the data has {classes} classes; name its {outputs} outputs as the "
            "model's 'classes', and leave out images of other classes"
        )
    return ""
