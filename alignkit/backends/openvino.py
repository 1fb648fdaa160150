"""OpenVINO on the CPU.

A precision is a hint there, and a CPU without it computes in another one in silence (fp16 becomes
bf16 on a processor with AMX or AVX512-BF16). What a compiled model says of itself, and the types
its executed layers computed in, are read after compiling; a model in another precision than was
asked for is refused. int8 is NNCF's post-training quantisation of the graph; the layers that it
leaves in float32 are named.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from alignkit.backends import CalibrationSet, Choice
from alignkit.backends.openvino_quantise import NNCF
from alignkit.errors import BackendError, MissingDependency

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision
    from alignkit.build import Source
    from alignkit.checkpoint import Checkpoint

HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""int8 is in the graph; the hint is for what it leaves in floating point."""
INTEGERS = frozenset({"i8", "u8"})
NEEDS = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16"}),
}
"""Precision → the processor's flags, one of which OpenVINO needs for it."""
WEIGHTED = ("Convolution", "FullyConnected", "MatMul", "GroupConvolution")
"""Layers that multiply by weights: what a precision is judged by."""


@dataclass(frozen=True, slots=True)
class OpenVINOBackend:
    """The CPU plugin; no other device is ever tried."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "bf16", "fp16", "int8")
    live: ClassVar[bool] = False
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
        import openvino

        from alignkit.build import read_calibration
        from alignkit.numerics import available_threads

        if reason := self.impossible(precision):
            raise MissingDependency(f"openvino {precision}: {reason}")
        if onnx is None:
            raise BackendError("openvino needs the exported ONNX file")
        threads = available_threads()
        wanted = {
            "INFERENCE_PRECISION_HINT": HINTS[precision],
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        told = {"calibration": read_calibration(onnx)} if precision == "int8" else {}
        try:
            core = openvino.Core()
            graph = core.read_model(onnx / "model.xml" if precision == "int8" else onnx)
            graph.reshape([-1, 3, checkpoint.height, checkpoint.width])
            compiled = core.compile_model(graph, "CPU", wanted)
        except RuntimeError as error:
            raise BackendError(f"OpenVINO cannot compile the graph: {error}") from error
        layers = executed_layers(compiled)
        chosen = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        require(precision, chosen, layers)
        facts = {
            "precision": precision,
            "device": ", ".join(compiled.get_property("EXECUTION_DEVICES")),
            "inference precision": f"{chosen}, verified",
            **{
                f"{kind} layers": ", ".join(f"{n} {name}" for name, n in sorted(names.items()))
                for kind, names in sorted(layers.items())
            },
            "threads": str(threads),
            **told,
        }
        return OpenVINOSession(compiled, facts)

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """The library that quantises; float graphs are opened as they are."""
        return {"quantiser": NNCF.version()} if precision == "int8" else None

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        """int8 takes its scales from images."""
        chosen = CalibrationSet(self.calibration_images, self.calibration_choice)
        return chosen if precision == "int8" else None

    def build(self, source: Source, precision: Precision, folder: Path) -> None:  # noqa: ARG002 - int8 alone is built
        """Quantise the graph; raises `BackendError` if it cannot be."""
        from alignkit.backends.openvino_quantise import quantise

        assert source.calibration is not None
        quantise(source.onnx, source.calibration.images(), folder)

    def version(self) -> str:
        """``openvino 2026.4.1-…, CPU``."""
        import openvino

        return f"openvino {openvino.__version__}, CPU"


def processor_flags() -> frozenset[str]:
    """An x86 processor's features as Linux names them; empty where it does not say."""
    from pathlib import Path

    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def executed_layers(compiled: Any) -> dict[str, Counter[str]]:
    """Type → the layers with weights that compute in it, from the runtime's own graph."""
    found: dict[str, Counter[str]] = {}
    for operator in compiled.get_runtime_model().get_ops():
        facts = operator.get_rt_info()
        if facts["layerType"].value in WEIGHTED:
            kind = facts["runtimePrecision"].value
            found.setdefault(kind, Counter())[facts["layerType"].value] += 1
    return found


def require(precision: Precision, chosen: str, layers: dict[str, Counter[str]]) -> None:
    """Raise `BackendError` unless the plugin and every layer with weights keep the precision."""
    wanted = HINTS[precision]
    if chosen != wanted:
        raise BackendError(
            f"openvino {precision}: this CPU's plugin chose {chosen} in its place; ask for "
            "fp32 or bf16, or run where the CPU has the instructions"
        )
    if precision == "int8":
        if not layers.keys() & INTEGERS:
            raise BackendError("openvino int8: no layer with weights computes in integers")
        layers = {kind: names for kind, names in layers.items() if kind not in INTEGERS}
    if others := sorted(layers.keys() - {wanted}):
        raise BackendError(f"openvino {precision}: layers compute in {', '.join(others)}")


@dataclass(slots=True, eq=False)
class OpenVINOSession:
    """A compiled model."""

    compiled: Any
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Logits:
        """(samples, 3, height, width) float32 → (samples, classes) float32."""
        assert self.compiled is not None, "the session is closed"
        logits: Logits = self.compiled(batch)[0].copy()  # the runtime reuses its buffer
        return logits

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the runtime's memory."""
        self.compiled = None
