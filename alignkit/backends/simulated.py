"""Simulated precisions: the ONNX graph with other roundings, run in ONNX Runtime in float32.

fp16 and bf16 round weights and every tensor that leaves a kernel, and sum in float32. The kernels
are those of a TensorRT-RTX engine that is built here, without a GPU: the nodes that one kernel
fuses share one rounding. tf32 rounds the operands of convolutions and matrix products. int8 is the
quantised graph executed unfused, which defines it: a runtime's own int8 is compared with it. The
session optimises no graph, because fused nodes would skip a rounding, and verifies that each
rounding ran.

No number of it is a measurement of the hardware: `SimulatedBackend.simulation` is the label that
every surface shows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from alignkit.backends import BACKENDS, NOT_COMPARED, Backend, CalibrationSet, Choice
from alignkit.errors import BackendError, MissingDependency

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import ModelProto

    from alignkit.backends import Precision
    from alignkit.backends.onnxruntime.onnxruntime_session import ONNXRuntimeSession
    from alignkit.models.checkpoint import Checkpoint, EngineSource

_LABELS = {
    "engine": "simulated from the engine built here",
    "nodes": "simulated with a rounding behind every node",
    "tf32": "simulated with the operands of every product rounded to TF32",
}
_UNKNOWN = f"summation order of the kernels unknown; {NOT_COMPARED}"
_UNFUSED = (
    "simulated by the graph quantised for {}, executed unfused in float32, which defines it; "
    f"integer kernels round otherwise; {NOT_COMPARED}"
)
_NARROW = ("fp16", "bf16")
"""Precisions that are simulated from an engine."""
_MODEL, _FACTS = "model.onnx", "facts.json"


@dataclass(frozen=True, slots=True)
class SimulatedBackend(Backend):
    """Simulation of a precision that this machine has no hardware for."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp16", "bf16", "tf32", "int8")
    own_path: ClassVar[str] = ""
    on_cpu: ClassVar[bool] = True
    boundaries: Literal["engine", "nodes"] = "engine"
    """Where fp16 and bf16 round: at the kernels of the engine, or behind every node of a graph with
    batch normalisation apart, as an eager runtime does."""

    quantised_for: Literal["onnxruntime", "tensorrt"] = "onnxruntime"
    """Whose int8 graph is executed."""

    calibration_images: Annotated[int, Field(ge=1, le=100_000)] = 300
    """Training images that give int8 its scales."""
    calibration_choice: Choice = "balanced"
    """Which images: ``balanced`` over the classes, ``random``, or the ``first``."""

    @property
    def folds_batch_norm(self) -> bool:
        # an H100's fp16 and bf16 showed that eager torch rounds behind batch normalisation, too
        return self.boundaries == "engine"

    def simulation(self, precision: Precision) -> str:
        if precision == "int8":
            return _UNFUSED.format(self.quantised_for)
        return f"{_LABELS['tf32' if precision == 'tf32' else self.boundaries]}; {_UNKNOWN}"

    def impossible(self, precision: Precision) -> str:
        if precision not in self.precisions:
            return (
                f"{precision} is not simulated; {', '.join(self.precisions)} are, and "
                "onnxruntime computes in fp32"
            )
        if precision != "int8" and self.quantised_for != "onnxruntime":
            return f"quantised_for is of int8, and {precision} quantises nothing: leave it out"
        if self._needs_engine(precision) and (missing := BACKENDS["tensorrt-rtx"].missing()):
            return f"the kernels that fuse layers are read from an engine, and {missing}"
        return ""

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """Return the converting or quantising library, and the library that builds the engine."""
        if precision == "tf32":  # its graph is rewritten when it is opened
            return None
        parts = {"converter": BACKENDS["onnxruntime"].version()}
        if self._needs_engine(precision):
            parts["boundaries"] = BACKENDS["tensorrt-rtx"].version()
        return parts

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        chosen = CalibrationSet(self.calibration_images, self.calibration_choice)
        return chosen if precision == "int8" else None

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:
        """Write ``model.onnx``, the graph to run, and ``facts.json``.

        Raises `MissingDependency` if an engine is needed and its library is not installed,
        `BackendError` if the graph cannot be quantised, rewritten or built as an engine.
        """
        self._require(precision)
        if precision == "int8":
            facts = self._quantise(source, folder)
        else:
            facts = self._round(source, "bf16" if precision == "bf16" else "fp16", folder)
        (folder / _FACTS).write_text(json.dumps(facts))

    def open(
        self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision
    ) -> ONNXRuntimeSession:
        """Load the graph that rounds, and verify on one image that each rounding runs.

        Raises `MissingDependency` as `build` does, `BackendError` if a rounding is left out.
        """
        from onnx import load

        from alignkit.backends.onnx_quantisation import quantisation_facts
        from alignkit.backends.rounded_graph import rounded_operands

        self._require(precision)
        if onnx is None:
            raise BackendError("simulated needs the exported ONNX file")
        if precision == "tf32":
            graph, facts = rounded_operands(load(onnx))
        else:
            graph, facts = load(onnx / _MODEL), json.loads((onnx / _FACTS).read_text())
        if precision == "int8":
            facts |= quantisation_facts(onnx)
        session = _session(graph, checkpoint)
        label = self.simulation(precision)
        session.observed.update({"precision": precision, "simulation": label, **facts})
        return session

    def version(self) -> str:
        """Name the executing library, as in ``onnxruntime 1.31.1, unoptimised``."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}, unoptimised"

    def _needs_engine(self, precision: Precision) -> bool:
        return precision in _NARROW and self.boundaries == "engine"

    def _require(self, precision: Precision) -> None:
        if reason := self.impossible(precision):
            raise MissingDependency(f"simulated {precision}: {reason}")

    def _quantise(self, source: EngineSource, folder: Path) -> dict[str, str]:
        from alignkit.backends.onnx_quantisation import quantise_for_cpu, quantise_for_tensorrt

        assert source.calibration is not None
        quantise = quantise_for_tensorrt if self.quantised_for == "tensorrt" else quantise_for_cpu
        quantise(source.onnx, source.calibration.images(), folder / _MODEL)
        return {"quantised for": self.quantised_for}

    def _round(
        self, source: EngineSource, precision: Literal["fp16", "bf16"], folder: Path
    ) -> dict[str, str]:
        from onnx import load, load_from_string

        from alignkit.backends.onnx_graph import half_precision
        from alignkit.backends.rounded_graph import bfloat16_graph, named_nodes, rounded_at_kernels

        half, original = load_from_string(half_precision(source.onnx)), load(source.onnx)
        half = named_nodes(half)
        typed = bfloat16_graph(half, original) if precision == "bf16" else half
        kernels, facts = None, dict[str, str]()
        if self._needs_engine(precision):
            kernels, facts = _engine_kernels(typed, source)
        graph, rounded = rounded_at_kernels(typed, half, precision, kernels, original)
        (folder / _MODEL).write_bytes(graph.SerializeToString())
        return {**facts, **rounded}


def _engine_kernels(
    typed: ModelProto, source: EngineSource
) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    """Build an engine; return the nodes of each of its kernels, and which layers it has."""
    from alignkit.backends.tensorrt import TensorRTRTXBackend
    from alignkit.backends.tensorrt.tensorrt_build import EngineOptions, build_engine
    from alignkit.backends.tensorrt.tensorrt_layers import fingerprint

    size = (source.checkpoint.height, source.checkpoint.width)
    # the options by which the backend of that name builds: it is the same engine
    options = EngineOptions("tensorrt-rtx", TensorRTRTXBackend().batch, size, tf32=False)
    built = build_engine(typed.SerializeToString(), options)
    # a kernel that only copies lists the node whose input it copies
    layers = sorted(built.layers, key=lambda layer: not layer.moves)
    library, key = BACKENDS["tensorrt-rtx"].version(), fingerprint(built.layers)
    facts = {"boundaries": f"{len(layers)} layers, fingerprint {key[:12]}, {library}"}
    return [layer.nodes for layer in layers], facts


def _session(graph: ModelProto, checkpoint: Checkpoint) -> ONNXRuntimeSession:
    """Load a checkpoint's graph unoptimised, and verify that it rounds as it says."""
    from alignkit.backends.onnxruntime import OPTIMISATION_LEVELS, PROVIDERS
    from alignkit.backends.onnxruntime.onnxruntime_session import (
        COMPUTED,
        ONNXRuntimeSession,
        Start,
        outputs_of,
    )
    from alignkit.backends.rounded_graph import ROUNDING
    from alignkit.torch_settings import available_threads

    threads = available_threads()
    start = Start(PROVIDERS["cpu"], {}, OPTIMISATION_LEVELS["disabled"], threads)
    if (arithmetic := start.arithmetic()) != "ieee":
        raise BackendError(f"simulated: float32 products are computed in {arithmetic}")
    size = (checkpoint.height, checkpoint.width)
    session, nodes = start.profiled_nodes(graph.SerializeToString(), size)
    ran = {node["name"].removesuffix(COMPUTED) for node in nodes}
    left_out = {node.name for node in graph.graph.node if node.name.startswith(ROUNDING)} - ran
    if left_out:
        raise BackendError(f"ONNX Runtime left out {len(left_out)} roundings of the graph")
    facts = {
        "provider": start.provider,
        "optimisation": "disabled",
        "float32 products": f"{arithmetic}, verified",
        "threads": str(threads),
    }
    return ONNXRuntimeSession(session, outputs_of(session, checkpoint), facts)
