"""`UserModel`: a trained model that the user brings, and its `Checkpoint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from alignkit.errors import ConfigError, DataError
from alignkit.models.checkpoint import Checkpoint, CheckpointFormat
from alignkit.workspace import content_key, file_sha256


@dataclass(frozen=True)
class UserModel:
    """Entry of ``models:``."""

    name: str
    format: CheckpointFormat
    file: Path
    model: str = ""
    """Name of the module to rebuild around a ``state_dict``; other files hold their own graph."""
    classes: tuple[str, ...] = ()
    """Class names in the order of the outputs; empty if that is the data's order."""

    @cached_property
    def parts(self) -> dict[str, Any]:
        """Return all that the outputs depend on, without the location on this machine.

        Raise `ConfigError` if there is no such file, `DataError` if an ONNX file lacks the weights
        beside it.
        """
        from alignkit.models.architectures import model_version

        if not self.file.is_file():
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
        if self.format == "onnx" and (beside := self._weights_beside()):
            parts["weights beside it"] = beside
        return parts

    def parts_for(self, size: tuple[int, int]) -> dict[str, Any]:
        """Return ``parts`` with the (height, width) of the inputs."""
        return {**self.parts, "size": list(size)}

    def _weights_beside(self) -> dict[str, str]:
        from alignkit.models.onnx_file import weights_beside

        return weights_beside(self.file)

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

        Raise `DataError` if its classes are not the data's, `BackendError` if an ONNX file's input
        or output has another shape.
        """
        height, width = size
        if self.format == "onnx":
            from alignkit.models.onnx_file import require_shapes

            require_shapes(self.file, classes=len(classes), height=height, width=width)
        return Checkpoint(
            model=self.model or self.name,
            classes=len(classes),
            height=height,
            width=width,
            weights=self.file,
            key=content_key(self.parts_for(size)),
            format=self.format,
            order=self._order(classes),
        )

    def _order(self, classes: Sequence[str]) -> tuple[int, ...]:
        if not self.classes or self.classes == tuple(classes):
            return ()
        unknown = sorted({*classes} - {*self.classes})
        surplus = sorted({*self.classes} - {*classes})
        if unknown or surplus:
            faults = [f"the data's {', '.join(unknown[:5])} are none of it"] if unknown else []
            faults += [f"its {', '.join(surplus[:5])} are not in the data"] if surplus else []
            raise DataError(
                f"the model {self.name} has {len(self.classes)} classes, the data {len(classes)}: "
                f"{'; '.join(faults)}; name the folders as the model's 'classes'"
            )
        return tuple(self.classes.index(name) for name in classes)
