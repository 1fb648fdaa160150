"""`UserModel`: a trained model that the user brings, its `Checkpoint`, and checks of ONNX files.

Exporters may keep the weights of an ONNX graph in files beside it. Backends take the bytes of one
file, so such a graph is joined with its weights once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from alignkit.errors import BackendError, ConfigError, DataError
from alignkit.models.checkpoint import Checkpoint, CheckpointFormat
from alignkit.stored_file import file_sha256, irregular
from alignkit.workspace import Workspace, content_key

_LARGEST = 2**31
"""Bytes of weights in one file: protobuf's limit for a message."""


@dataclass(frozen=True)
class UserModel:
    """Entry of ``models:``."""

    name: str
    format: CheckpointFormat
    file: Path
    model: str = ""
    """Name of the module to rebuild around a ``state_dict``; other files hold their own graph."""
    classes: tuple[str, ...] = ()
    """Class names in the order of the outputs; empty if the data has these classes in this order.
    They may be more than the data's."""

    @cached_property  # a plan asks often, and hashing a large file takes seconds
    def parts(self) -> dict[str, Any]:
        """Return all that the outputs depend on, without the location on this machine.

        Raise `ConfigError` if there is no such file or it is not regular, `DataError` if an ONNX
        file lacks the weights beside it.
        """
        from alignkit.models.architectures import model_version
        from alignkit.models.torch_model_files import own_source

        if not self.file.is_file():
            if self.file.exists():
                kind = irregular(self.file.stat())
                raise ConfigError(f"model {self.name}: {self.file} is {kind}; name another file")
            raise ConfigError(
                f"model {self.name}: no file {self.file}; paths are relative to where alignkit is "
                "started"
            )
        parts: dict[str, Any] = {
            "file": file_sha256(self.file),
            "format": self.format,
            "model": self.model,
            "classes": list(self.classes),
        }
        if self.model:  # the library's code, not the file, decides how the weights are used
            parts["library"] = model_version(self.model)
        if self.runs_own_code:
            parts["source"] = own_source(self.model)
        if self.format == "onnx" and (beside := weights_beside(self.file)):
            parts["weights beside it"] = beside
        return parts

    @property
    def runs_own_code(self) -> bool:
        """Whether a function of the user's own builds the module."""
        return ":" in self.model and not self.model.startswith("timm:")

    def parts_for(self, size: tuple[int, int]) -> dict[str, Any]:
        """Return ``parts`` with the (height, width) of the inputs."""
        return {**self.parts, "size": list(size)}

    def unsuitable(self, backend: str, *, needs_onnx: bool) -> str:
        """Explain why a backend cannot run this kind of file; empty if it can."""
        if self.format == "onnx" and not needs_onnx:
            return (
                f"{backend} runs torch modules, and {self.name} is an ONNX file; evaluate it in "
                "onnxruntime or openvino"
            )
        return ""

    def checkpoint(self, classes: Sequence[str], size: tuple[int, int]) -> Checkpoint:
        """Build the checkpoint for these classes and inputs of (height, width).

        Raise as `require_fit` does.
        """
        self.require_fit(classes, size)
        height, width = size
        named = self.classes or tuple(classes)
        known = {*classes}
        outside = tuple(name for name in named if name not in known)
        order = tuple(map(named.index, (*classes, *outside)))
        return Checkpoint(
            model=self.model or self.name,
            classes=len(named),
            height=height,
            width=width,
            weights=self.file,
            key=content_key(self.parts_for(size)),
            format=self.format,
            order=() if order == tuple(range(len(order))) else order,
            outside=outside,
        )

    def require_fit(self, classes: Sequence[str], size: tuple[int, int]) -> None:
        """Raise `DataError` if 'classes' does not name each of the data's classes.

        Of an ONNX file, also raise `DataError` if it has another number of outputs, `BackendError`
        if its input has another shape.
        """
        unknown = sorted({*classes} - {*self.classes})
        if self.classes and unknown:
            some = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" * (len(unknown) > 3))
            raise DataError(
                f"'classes' names {len(self.classes)} outputs ({', '.join(self.classes[:3])}, …), "
                f"and none of them is {some}, of the data's {len(classes)} classes; name the "
                "outputs as the folders are named"
            )
        if self.format == "onnx":
            height, width = size
            outputs = outputs_of(self.file, height=height, width=width)
            if outputs and (reason := self.misnamed(outputs, len(classes))):
                raise DataError(reason)

    def misnamed(self, outputs: int, classes: int) -> str:
        """Explain why this number of outputs fits neither 'classes' nor the data; else empty."""
        has = f"{self.file} has {outputs} outputs"
        if self.classes:
            if outputs == len(self.classes):
                return ""
            return f"{has}, and 'classes' names {len(self.classes)}; name every output, in order"
        if outputs > classes:
            return (
                f"{has}, and the data has {classes} classes; name the {outputs} outputs in order "
                "as the model's 'classes', a list or a file with one name a line"
            )
        if outputs < classes:
            return f"{has}, and the data has {classes} classes; remove those that it does not know"
        return ""


def weights_beside(file: Path) -> dict[str, str]:
    """Map each file in which the graph keeps weights to its SHA-256; empty if it holds its own.

    Raise `DataError` if one of them is not there. The result is also empty for a file that is no
    ONNX file: `outputs_of` refuses it.
    """
    hashes: dict[str, str] = {}
    try:
        graph = _read(file).graph
    except DataError:
        return hashes
    for tensor in graph.initializer:
        location = next((fact.value for fact in tensor.external_data if fact.key == "location"), "")
        if not location or location in hashes:
            continue
        beside = file.parent / location
        if not beside.is_file():
            raise DataError(
                f"{file} keeps its weights in {location}, which is not beside it; move both "
                "together"
            )
        hashes[location] = file_sha256(beside)
    return hashes


def in_one_file(file: Path, workspace: Workspace) -> Path:
    """Return the file, or, if its weights lie beside it, a stored file with all of them.

    Raise `DataError` if one file cannot hold the weights, or they cannot be read.
    """
    import onnx

    beside = weights_beside(file)
    if not beside:
        return file
    size = sum((file.parent / each).stat().st_size for each in beside)
    if size > _LARGEST:
        raise DataError(
            f"{file} has {size / 2**30:.1f} GiB of weights; backends take graphs of one file, "
            f"which holds at most {_LARGEST / 2**30:g} GiB"
        )

    def put_together(folder: Path) -> None:
        try:
            onnx.save(onnx.load(file), graph_in(folder))
        except Exception as error:
            raise DataError(f"{file}: its weights cannot be read ({error})") from error

    parts = {"graph": file_sha256(file), "weights": beside}
    label = f"put {file.name} together"
    return workspace.keep("exports", parts, label, put_together, graph_in)


def graph_in(folder: Path) -> Path:
    """Return the file of a stored graph."""
    return folder / "model.onnx"


def input_size_of(file: Path) -> tuple[int, int] | None:
    """Return (height, width) of a graph's input; ``None`` if the file leaves either open.

    Raise `DataError` if it is no ONNX file.
    """
    graph = _read(file).graph
    weights = {each.name for each in graph.initializer}
    shapes = [_shape(each) for each in graph.input if each.name not in weights]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][1] not in (None, 3):
        return None  # no image classifier's: `outputs_of` says so
    height, width = shapes[0][2:]
    return (height, width) if height and width else None


def outputs_of(file: Path, *, height: int, width: int) -> int | None:
    """Return the number of outputs of a graph, if it takes (samples, 3, height, width) float32.

    ``None`` if the file leaves it open, as it may leave other dimensions. Raise `DataError` if it
    is no ONNX file, `BackendError` if its shapes are not a classifier's. Weights are not read.
    """
    import onnx

    graph = _read(file).graph
    # older exporters list the weights among the inputs
    weights = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in weights]
    if len(inputs) != 1 or not graph.output:
        raise BackendError(
            f"{file} has {len(inputs)} inputs and {len(graph.output)} outputs; an image classifier "
            "with one input is needed"
        )
    if inputs[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise BackendError(f"{file} takes no float32; export it with a float32 input")
    _require_input(file, _shape(inputs[0]), (height, width))
    _require_float32(file, graph.output[0].type.tensor_type.elem_type)
    output = _shape(graph.output[0])
    if output and len(output) != 2:
        raise BackendError(
            f"{file} gives outputs of {_text(output)}; a classifier gives a row of logits an image"
        )
    return output[1] if output else None


def _require_float32(file: Path, output: int) -> None:
    import onnx

    if output not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.FLOAT):
        name = onnx.TensorProto.DataType.Name(output).lower().replace("double", "float64")
        raise BackendError(
            f"{file} gives {name} outputs, and logits are float32; export it in float32, and "
            "without a final argmax or conversion"
        )


def _read(file: Path) -> Any:
    """Read the graph without the weights beside it."""
    import onnx

    if not file.stat().st_size:
        raise DataError(f"{file} is empty: a download or copy was cut; fetch it again")
    try:
        return onnx.load(file, load_external_data=False)
    except Exception as error:
        raise DataError(f"{file} is no ONNX file ({error})") from error


def _require_input(file: Path, taken: list[int | None], size: tuple[int, int]) -> None:
    wanted = (3, *size)
    if len(taken) == 4 and taken[3] == 3 and taken[1] != 3:
        raise BackendError(
            f"{file} takes {_text(taken)}: channels last; export it with channels first"
        )
    fits = len(taken) == 4 and all(
        has in (None, want) for has, want in zip(taken[1:], wanted, strict=True)
    )
    if not fits:
        raise BackendError(
            f"{file} takes inputs of {_text(taken)}, and the path gives "
            f"{_text([None, *wanted])}; change the path's size, or export the model again"
        )
    if taken[0] is not None:
        raise BackendError(
            f"{file} takes batches of exactly {taken[0]}; export it with a free first dimension "
            "(torch.onnx.export: dynamic_shapes, or dynamic_axes)"
        )


def _shape(value: Any) -> list[int | None]:
    dimensions = value.type.tensor_type.shape.dim
    return [each.dim_value if each.HasField("dim_value") else None for each in dimensions]


def _text(shape: list[int | None]) -> str:
    return "x".join("?" if each is None else str(each) for each in shape)
