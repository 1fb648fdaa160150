"""OpenVINO on the CPU.

A precision is a hint there, and a CPU without it computes in another one in silence (fp16 becomes
bf16 on a processor with AMX or AVX512-BF16). What a compiled model says of itself, and the types
its executed layers computed in, are read after compiling; a model in another precision than was
asked for is refused. int8 is NNCF's post-training quantisation of the graph; the layers that it
leaves in float32 are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from alignkit.backends import CalibrationSet, Choice
from alignkit.backends.openvino.precision import HINTS, NEEDS
from alignkit.backends.openvino.session import NNCF, OpenVINOSession, compiled_session, quantise
from alignkit.errors import BackendError, MissingDependency
from alignkit.machine import processor_flags

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Precision
    from alignkit.models.checkpoint import Checkpoint, EngineSource


@dataclass(frozen=True, slots=True)
class OpenVINOBackend:
    """The CPU plugin; no other device is ever tried."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "bf16", "fp16", "int8")
    live: ClassVar[bool] = False
    on_cpu: ClassVar[bool] = True
    own_path: ClassVar[str] = ""
    calibration_images: Annotated[int, Field(ge=1, le=100_000)] = 300
    calibration_choice: Choice = "balanced"

    def impossible(self, precision: Precision) -> str:
        """Why the precision cannot run here; empty if it can be tried."""
        if precision not in HINTS:
            names = ", ".join(self.precisions)
            return f"{precision} is not a precision of OpenVINO's CPU plugin; {names} are"
        if precision == "int8" and (missing := NNCF.missing()):
            return missing
        if (flags := processor_flags()) and precision in NEEDS and not flags & NEEDS[precision]:
            needed = " or ".join(sorted(NEEDS[precision]))
            return (
                f"OpenVINO computes {precision} on processors with {needed}; on this one it would "
                "compute in another precision"
            )
        return ""

    def open(
        self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision
    ) -> OpenVINOSession:
        """Compile the graph and verify what its layers compute in.

        Raises `BackendError` if the plugin cannot compile it, or chose another precision.
        """
        from alignkit.models.checkpoint import read_calibration

        if reason := self.impossible(precision):
            raise MissingDependency(f"openvino {precision}: {reason}")
        if onnx is None:
            raise BackendError("openvino needs the exported ONNX file")
        size = (checkpoint.height, checkpoint.width)
        if precision != "int8":
            return compiled_session(onnx, size, precision)
        session = compiled_session(onnx / "model.xml", size, precision)
        session.observed["calibration"] = read_calibration(onnx)
        return session

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """The library that quantises; float graphs are opened as they are."""
        return {"quantiser": NNCF.version()} if precision == "int8" else None

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        """int8 takes its scales from images."""
        chosen = CalibrationSet(self.calibration_images, self.calibration_choice)
        return chosen if precision == "int8" else None

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:  # noqa: ARG002 - int8 alone is built
        """Quantise the graph; raises `BackendError` if it cannot be."""
        assert source.calibration is not None
        quantise(source.onnx, source.calibration.images(), folder)

    def version(self) -> str:
        """``openvino 2026.4.1-…, CPU``."""
        import openvino

        return f"openvino {openvino.__version__}, CPU"
