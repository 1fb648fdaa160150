"""`UserModel`: a trained model that the user brings, its `Checkpoint`, and the faults of its entry.

Exporters may keep the weights of an ONNX graph in files beside it. Backends take the bytes of one
file, so such a graph is joined with its weights once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from alignkit.errors import ConfigError, DataError
from alignkit.models.checkpoint import Checkpoint, CheckpointFormat
from alignkit.models.onnx_header import OnnxHeader, in_text, onnx_faults, read_onnx_header
from alignkit.models.pretrained import identity, published_file, published_outputs
from alignkit.models.weights_header import read_weights_header
from alignkit.stored_file import file_sha256, irregular
from alignkit.workspace import Workspace, content_key

_LARGEST = 2**31
"""Bytes of weights in one file: protobuf's limit for a message."""


class Fault(NamedTuple):
    """A reason why a model cannot run, with the next step."""

    key: str
    """The key of its entry of ``models:`` that it is about."""
    message: str


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
    pretrained: str = ""
    """Name of published weights of ``model``; ``file`` is theirs once `fetched` stored them."""
    onnx: Path | None = None
    """The same model as an ONNX file, beside a file of torch's; the ONNX runtimes run it."""

    @property
    def graph(self) -> Path | None:
        """The ONNX file, if there is one."""
        return self.file if self.format == "onnx" else self.onnx

    @cached_property  # a plan asks often, and hashing a large file takes seconds
    def parts(self) -> dict[str, Any]:
        """Return all that the outputs depend on, without the location on this machine.

        Raise `ConfigError` if there is no such file or it is not regular, `DataError` if an ONNX
        file lacks the weights beside it.
        """
        from alignkit.models.architectures import model_version
        from alignkit.models.torch_model_files import own_source

        if self.onnx:
            self._require_file(self.onnx)
        parts: dict[str, Any] = {
            **self._weights,
            "format": self.format,
            "model": self.model,
            "classes": list(self.classes),
        }
        if self.model:  # the library's code, not the file, decides how the weights are used
            parts["library"] = model_version(self.model)
        if self.runs_own_code:
            parts["source"] = own_source(self.model)
        if self.onnx:
            parts["onnx"] = file_sha256(self.onnx)
        if self.graph and (beside := weights_beside(self.graph)):
            parts["weights beside it"] = beside
        return parts

    def _require_file(self, file: Path) -> None:
        if file.is_file():
            return
        if file.exists():
            kind = irregular(file.stat())
            raise ConfigError(f"model {self.name}: {file} is {kind}; name another file")
        raise ConfigError(
            f"model {self.name}: no file {file}; paths are relative to where alignkit is started"
        )

    @property
    def _weights(self) -> dict[str, str]:
        """Identify the weights; published ones need not be here."""
        if self.pretrained:
            return {"pretrained": identity(self.pretrained, self.model)}
        self._require_file(self.file)
        return {"file": file_sha256(self.file)}

    @property
    def is_known(self) -> bool:
        """Whether its weights are published or in a file of this machine, as is an ONNX file."""
        beside = self.onnx is None or self.onnx.is_file()
        return beside and (bool(self.pretrained) or self.file.is_file())

    def fetched(self, workspace: Workspace) -> UserModel:
        """Return the model with its published weights in a stored file, downloaded if need be.

        Raise as `alignkit.models.pretrained.read_pretrained` does.
        """
        if not self.pretrained:
            return self
        return replace(self, file=published_file(self.pretrained, self.model, workspace))

    @property
    def runs_own_code(self) -> bool:
        """Whether a function of the user's own builds the module."""
        return ":" in self.model and not self.model.startswith("timm:")

    def parts_for(self, size: tuple[int, int]) -> dict[str, Any]:
        """Return ``parts`` with the (height, width) of the inputs."""
        return {**self.parts, "size": list(size)}

    def described(self) -> str:
        """Describe the weights in words by their header, and the ONNX file beside them.

        Raise `DataError` if they have no header.
        """
        beside = f"; the ONNX runtimes run {self.onnx} as it is" if self.onnx else ""
        return self._described() + beside

    def _described(self) -> str:
        if self.pretrained:
            published = published_outputs(self.pretrained, self.model)
            return f"{self.model} {self.pretrained}, published, gives {published} outputs"
        if self.format == "onnx":
            header = read_onnx_header(self.file)
            taken = in_text(header.inputs[0].shape or ()) if header.inputs else "nothing"
            outputs = "?" if header.classes is None else header.classes
            return f"{self.file}, takes {taken}, gives {outputs} outputs"
        if self.format == "weights":
            weights = read_weights_header(self.file)
            under = f" under its key {weights.key!r}" if weights.key else ""
            return f"{self.file}, {len(weights.tensors)} tensors{under}, for {self.model}"
        return f"{self.file}, {self.format}"

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

        Raise `DataError` for the first of its `faults`.
        """
        for fault in self.faults(classes, size):
            raise DataError(fault.message)
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
            onnx=self.onnx,
        )

    def faults(self, classes: Sequence[str], size: tuple[int, int]) -> list[Fault]:
        """Find names of the data's classes that 'classes' lacks and, of an ONNX file, other shapes.

        ``classes`` is empty if they are not known; ``size`` is (height, width). Only headers are
        read.
        """
        found = [Fault("classes", reason)] if (reason := self._unnamed(classes)) else []
        if self.graph is None:
            return found
        try:
            header = read_onnx_header(self.graph)
        except DataError as error:
            return [*found, Fault("onnx", str(error))]
        found += [Fault("onnx", reason) for reason in onnx_faults(self.graph, header, size)]
        found += [Fault("onnx", reason) for reason in missing_weights(self.graph, header)]
        counted = header.classes or 0
        if counted and (reason := self.misnamed(counted, len(classes), self.graph)):
            found.append(Fault("onnx", reason) if self.onnx else self.miscounted(reason))
        return found

    def miscounted(self, reason: str) -> Fault:
        """Return a fault of the number of outputs, at the key that names them if there is one."""
        key = "pretrained" if self.pretrained else self.format
        return Fault("classes" if self.classes else key, reason)

    def _unnamed(self, classes: Sequence[str]) -> str:
        unknown = sorted({*classes} - {*self.classes})
        if not self.classes or not unknown:
            return ""
        some = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" * (len(unknown) > 3))
        named = ", ".join(self.classes[:3]) + (", …" if len(self.classes) > 3 else "")
        return (
            f"'classes' names {len(self.classes)} outputs ({named}), and the model has no output "
            f"for {len(unknown)} of the data's {len(classes)} classes: {some}; name the outputs as "
            "the folders are named"
        )

    def misnamed(self, outputs: int, classes: int, file: Path | None = None) -> str:
        """Explain why this number of outputs fits neither 'classes' nor the data; else empty.

        ``classes`` is 0 if the data's are not known; ``file`` is the one that has the outputs.
        """
        weights = f"{self.model} {self.pretrained}" if self.pretrained else self.file
        has = f"{file or weights} has {outputs} outputs"
        if self.classes:
            if outputs == len(self.classes):
                return ""
            return f"{has}, and 'classes' names {len(self.classes)}; name every output, in order"
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
            return f"{has}, and the data has {classes} classes; remove those that it does not know"
        return ""


def missing_weights(file: Path, header: OnnxHeader) -> list[str]:
    """Name each file in which the graph keeps weights, and which is not there."""
    return [
        f"{file} keeps its weights in {location}, which is not beside it; move both together"
        for location in header.beside
        if not (file.parent / location).is_file()
    ]


def weights_beside(file: Path) -> dict[str, str]:
    """Map each file in which the graph keeps weights to its SHA-256; empty if it holds its own.

    Raise `DataError` if one of them is not there, or the file is no ONNX file.
    """
    header = read_onnx_header(file)
    for reason in missing_weights(file, header):
        raise DataError(reason)
    return {location: file_sha256(file.parent / location) for location in header.beside}


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
