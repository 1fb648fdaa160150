"""ONNX Runtime, on the CPU, the CUDA or the TensorRT provider.

A provider that cannot start, or that leaves a node to another, is refused: the library itself would
compute on the CPU and mention it only in its log.

fp32 runs the exported graph with TF32 off; tf32 is a precision of its own, on a GPU. fp16 converts
every weight and edge of the graph to float16 and keeps float32 inputs and outputs. The CPU provider
has few float16 kernels: it casts back and computes in float32, so that fp16 there is mostly rounded
weights. ``effective`` names the kernels that ran, their types and each node's provider, read from
the runtime's own profile of one image. int8 is its static quantisation, on the CPU.

The TensorRT provider computes in TF32 unless the environment sets ``NVIDIA_TF32_OVERRIDE=0``; it
has no option for it. It refuses fp16, because nothing reports the types its engines compute in.
**Neither the CUDA nor the TensorRT provider has run on hardware yet.**
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from alignkit.backends import BACKENDS, Backend, CalibrationSet, Choice
from alignkit.errors import BackendError, MissingDependency
from alignkit.plugins import NO_GPU, gpu_present

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Precision
    from alignkit.backends.onnxruntime.onnxruntime_session import ONNXRuntimeSession
    from alignkit.models.checkpoint import Checkpoint, EngineSource

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
OPTIMISATION_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disabled": "ORT_DISABLE_ALL",
}


@dataclass(frozen=True, slots=True)
class ONNXRuntimeBackend(Backend):
    """One execution provider; a model of which it refuses a node is refused."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "tf32", "fp16", "int8")
    own_path: ClassVar[str] = ""
    any_size: ClassVar[bool] = True
    provider: Literal["cpu", "cuda", "tensorrt"] = "cpu"
    """Execution provider: ``cpu``, ``cuda`` or ``tensorrt``."""
    optimisation: Literal["all", "extended", "basic", "disabled"] = "all"
    """Graph optimisation: ``extended`` also fuses, ``all`` also changes layouts."""

    calibration_images: Annotated[int, Field(ge=1, le=100_000)] = 300
    """Training images that give int8 its scales."""
    calibration_choice: Choice = "balanced"
    """Which images: ``balanced`` over the classes, ``random``, or the ``first``."""

    @property
    def on_cpu(self) -> bool:
        return self.provider == "cpu"

    def impossible(self, precision: Precision) -> str:
        if precision not in self.precisions:
            return (
                f"{precision} is not a precision of ONNX Runtime; {', '.join(self.precisions)} are"
            )
        return why_impossible(precision, self.provider, self.optimisation)

    def open(
        self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision
    ) -> ONNXRuntimeSession:
        """Load the graph, and verify its provider and its types.

        Raises `MissingDependency` if the provider does not start, `BackendError` if the runtime
        cannot run the model in this precision.
        """
        from alignkit.backends.onnx_graph import graph_of
        from alignkit.backends.onnx_quantisation import quantisation_facts
        from alignkit.backends.onnxruntime.onnxruntime_int8 import fusion_facts
        from alignkit.backends.onnxruntime.onnxruntime_session import (
            Start,
            require_no_crash,
            verified_session,
        )
        from alignkit.torch_settings import available_threads

        if reason := self.impossible(precision):
            raise MissingDependency(f"onnxruntime {precision}: {reason}")
        if onnx is None:
            raise BackendError("onnxruntime needs the exported ONNX file")
        level = OPTIMISATION_LEVELS[self.optimisation]
        facts: dict[str, str] = {"optimisation": self.optimisation}
        engine = onnx
        if precision == "int8":
            facts |= quantisation_facts(engine)
            onnx = engine / "model.onnx"
        graph = graph_of(onnx, precision, checkpoint.outputs)
        if precision == "fp16" and self.provider == "cpu":
            require_no_crash(graph, level)
        options = provider_options(self.provider, precision)
        start = Start(PROVIDERS[self.provider], options, level, available_threads())
        session = verified_session(start, graph, checkpoint, precision)
        if precision == "int8":
            facts |= fusion_facts(session, start, engine)
        session.observed.update(facts)
        return session

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """Return the quantising library for int8; float graphs are opened as they are."""
        return {"quantiser": BACKENDS["onnxruntime"].version()} if precision == "int8" else None

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        chosen = CalibrationSet(self.calibration_images, self.calibration_choice)
        return chosen if precision == "int8" else None

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:  # noqa: ARG002 - int8 alone is built
        """Quantise the graph; raise `BackendError` if the runtime refuses it."""
        from alignkit.backends.onnxruntime.onnxruntime_int8 import quantise

        assert source.calibration is not None
        quantise(source.onnx, source.calibration.images(), folder)

    def version(self) -> str:
        """Name the version and the provider, as in ``onnxruntime 1.31.1, CPUExecutionProvider``."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}, {PROVIDERS[self.provider]}"


def why_impossible(precision: Precision, provider: str, optimisation: str) -> str:
    """Return why the provider cannot run a precision here; empty if it can be tried."""
    if precision == "int8" and provider != "cpu":
        return "int8 kernels are those of the CPU provider"
    if precision == "int8" and optimisation != "all":
        return (
            "int8 kernels are made by fusing, at 'optimisation: all'; below it every layer "
            "computes in float32"
        )
    if precision == "tf32" and provider == "cpu":
        return "tf32 is the arithmetic of NVIDIA GPUs; a CPU has none"
    if precision == "fp16" and provider == "tensorrt":
        return (
            "ONNX Runtime does not tell what its TensorRT engines compute in, so fp16 cannot be "
            "verified; the backend tensorrt inspects its own"
        )
    if provider != "cpu" and not gpu_present():
        return f"{PROVIDERS[provider]} {NO_GPU}"
    return ""


def provider_options(provider: str, precision: Precision) -> dict[str, str]:
    """Return the options of a provider for a precision."""
    if provider != "cuda":
        return {}
    # CUDA's defaults are TF32, and kernels that are chosen by timing them
    return {
        "use_tf32": "1" if precision == "tf32" else "0",
        "cudnn_conv_algo_search": "HEURISTIC",
    }
