"""TensorRT 10 or 11, and TensorRT-RTX, by their own Python APIs. **Not yet run on hardware.**

Networks are strongly typed (11 and RTX have no other kind): each layer computes in the type that
the ONNX graph declares, so fp16 is the graph converted to float16, with float32 inputs and outputs,
and int8 is the graph that ONNX Runtime quantises. fp32 and tf32 are the same graph with TF32 off or
on, which a graph of exact products verifies on the GPU. The library reports the types of the
layers; an engine with any other type is refused.

A TensorRT engine is tied to the library's version and to the GPU with its driver, which are part of
its hash. It chooses kernels by timing them, so two builds may differ: ``builds: k`` shows by how
much, and ``timing_cache`` fixes the choice. A TensorRT-RTX engine is built without a GPU, is the
same on every machine; a compiler makes its kernels on the GPU, which must be one of `RTX_RUNS_ON`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from alignkit.backends import BACKENDS, Backend, CalibrationSet, Choice
from alignkit.errors import BackendError, ConfigError, MissingDependency
from alignkit.plugins import NO_GPU, gpu_present
from alignkit.torch_settings import missing_device

if TYPE_CHECKING:
    from alignkit.backends import Precision
    from alignkit.backends.tensorrt.tensorrt_build import SerialisedEngine
    from alignkit.backends.tensorrt.tensorrt_layers import EngineLayer
    from alignkit.backends.tensorrt.tensorrt_session import TensorRTSession
    from alignkit.models.checkpoint import Checkpoint, EngineSource
    from alignkit.record import EngineFacts

ENGINE = "model.engine"
"""File of the model's engine in its folder."""
RTX_RUNS_ON = ("7.5", "8.6", "8.9", "12.0", "12.1")
"""Compute capabilities in NVIDIA's support matrix of TensorRT-RTX 1.7; 8.0 (A100) and 9.0 (H100,
H200) are not among them."""
PRODUCTS = "products.engine"
"""File of the engine whose results tell IEEE float32 from TF32."""


@dataclass(frozen=True, slots=True)
class StronglyTyped(Backend):
    """An engine for each precision; TensorRT and TensorRT-RTX build and open them alike."""

    plugin: ClassVar[str]
    """Name in `BACKENDS`, whose library it uses."""
    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "tf32", "fp16", "int8")
    own_path: ClassVar[str] = ""
    on_cpu: ClassVar[bool] = False
    batch: tuple[int, int, int] = (1, 128, 128)
    """Smallest, usual and greatest batch of the optimisation profile; the kernels are chosen for
    the usual one. ``evaluate.batch_size`` must lie within."""

    calibration_images: Annotated[int, Field(ge=1, le=100_000)] = 300
    """Training images that give int8 its scales."""
    calibration_choice: Choice = "balanced"
    """Which images: ``balanced`` over the classes, ``random``, or the ``first``."""

    def __post_init__(self) -> None:
        smallest, usual, greatest = self.batch
        if not 1 <= smallest <= usual <= greatest:
            raise ConfigError(
                f"{self.plugin}: batch is [smallest, usual, greatest], from 1 upwards"
            )

    def cannot_build(self, precision: Precision) -> str:
        """Return why the precision cannot be built here; empty if it can."""
        if precision in self.precisions:
            return ""
        return (
            f"{precision} is none of this backend's precisions; {', '.join(self.precisions)} "
            "are (a strongly typed network takes the graph's types)"
        )

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """Return the library, and the quantiser of int8."""
        parts = {"library": BACKENDS[self.plugin].version()}
        if precision == "int8":
            parts["quantiser"] = BACKENDS["onnxruntime"].version()
        return parts

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        chosen = CalibrationSet(self.calibration_images, self.calibration_choice)
        return chosen if precision == "int8" else None

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:
        """Write both engines and ``layers.json``; for int8 also the quantised ``model.onnx``.

        A library that times its kernels adds ``timing.cache``. Raises `BackendError` with the
        library's message if it cannot parse or build the graph, or if the engine's layers compute
        in another precision.
        """
        from alignkit.backends.onnx_graph import graph_of, products
        from alignkit.backends.tensorrt.tensorrt_build import EngineOptions, build_engine
        from alignkit.backends.tensorrt.tensorrt_layers import require, write_layers

        if reason := BACKENDS[self.plugin].missing() or self.cannot_build(precision):
            raise MissingDependency(f"{self.plugin} {precision}: {reason}")
        onnx = source.onnx
        if precision == "int8":
            onnx = self._quantised(source, folder)
        size = (source.checkpoint.height, source.checkpoint.width)
        tf32 = precision == "tf32"
        options = EngineOptions(self.plugin, self.batch, size, tf32, self._timings())
        graph = graph_of(onnx, precision, source.checkpoint.outputs)
        built = build_engine(graph, options)
        layers = self._layers(built)
        require(precision, layers, self.plugin)
        (folder / ENGINE).write_bytes(built.engine)
        if built.timings is not None:
            (folder / "timing.cache").write_bytes(built.timings)
        (folder / PRODUCTS).write_bytes(build_engine(products(), options).engine)
        write_layers(folder, layers)

    def described(self, engine: Path) -> EngineFacts:
        from alignkit.backends.tensorrt.tensorrt_layers import (
            fingerprint,
            layers_by_type,
            read_layers,
        )
        from alignkit.record import EngineFacts
        from alignkit.stored_file import file_sha256

        layers, file = read_layers(engine), engine / ENGINE
        counted = sorted(layers_by_type(layers).items())
        return EngineFacts(
            library=BACKENDS[self.plugin].version(),
            sha256=file_sha256(file),
            size=file.stat().st_size,
            layers={kind: dict(sorted(names.items())) for kind, names in counted},
            moving=sum(each.moves for each in layers),
            fingerprint=fingerprint(layers),
        )

    def open(
        self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision
    ) -> TensorRTSession:
        """Load the engine and verify its types.

        Raises `MissingDependency` where there is no GPU, `BackendError` if the engine cannot be
        loaded or computes in another precision.
        """
        if reason := BACKENDS[self.plugin].missing() or self.impossible(precision):
            raise MissingDependency(f"{self.plugin} {precision}: {reason}")
        if onnx is None or not onnx.is_dir():
            raise BackendError(f"{self.plugin} {precision} needs the folder of a built engine")
        from alignkit.backends.tensorrt.tensorrt_session import open_engine

        return open_engine(self.plugin, onnx, precision, self.batch, checkpoint.outputs)

    def version(self) -> str:
        """Name both versions: ``tensorrt 11.4.0.106, NVIDIA H100 80GB HBM3, driver 580.65.06``."""
        return f"{BACKENDS[self.plugin].version()}, {_device()}"

    def _timings(self) -> bytes | None:
        """Return the timings to choose kernels by; ``None`` if kernels are not timed."""
        return None

    def _layers(self, built: SerialisedEngine) -> tuple[EngineLayer, ...]:
        """Return the engine's layers."""
        return built.layers

    def _quantised(self, source: EngineSource, folder: Path) -> Path:
        from alignkit.backends.onnx_quantisation import quantise_for_tensorrt

        assert source.calibration is not None
        file = folder / "model.onnx"
        quantise_for_tensorrt(source.onnx, source.calibration.images(), file)
        return file


@dataclass(frozen=True, slots=True)
class TensorRTBackend(StronglyTyped):
    """TensorRT on the current CUDA device."""

    plugin: ClassVar[str] = "tensorrt"
    timing_cache: Path | None = None
    """File of earlier timings, ``timing.cache`` of a stored engine, to choose the kernels by."""

    def __post_init__(self) -> None:
        StronglyTyped.__post_init__(self)  # super() needs the class as it was before its slots
        if self.timing_cache and not self.timing_cache.is_file():
            raise ConfigError(f"tensorrt: there is no file {self.timing_cache}")

    def cannot_build(self, precision: Precision) -> str:
        return StronglyTyped.cannot_build(self, precision) or missing_device("cuda")

    def impossible(self, precision: Precision) -> str:
        return self.cannot_build(precision)

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """Return the library, the quantiser of int8, the GPU with its driver, and the timings."""
        from alignkit.stored_file import file_sha256

        timings = file_sha256(self.timing_cache) if self.timing_cache else ""
        own = StronglyTyped.build_parts(self, precision) or {}
        return {**own, "device": _device(), "timing cache": timings}

    def _timings(self) -> bytes:
        return self.timing_cache.read_bytes() if self.timing_cache else b""

    def _layers(self, built: SerialisedEngine) -> tuple[EngineLayer, ...]:
        from alignkit.backends.tensorrt.tensorrt_session import inspected_layers

        return inspected_layers(self.plugin, built.engine)


@dataclass(frozen=True, slots=True)
class TensorRTRTXBackend(StronglyTyped):
    """TensorRT-RTX: an engine is built on any machine, and opened on one with an NVIDIA GPU."""

    plugin: ClassVar[str] = "tensorrt-rtx"

    def impossible(self, precision: Precision) -> str:
        if reason := self.cannot_build(precision):
            return reason
        if not gpu_present():
            return f"running an engine {NO_GPU}"
        from alignkit.machine import compute_capabilities

        here = compute_capabilities()
        if not here or {*here} & {*RTX_RUNS_ON}:
            return ""
        return (
            f"TensorRT-RTX does not run on a GPU of compute capability {', '.join(here)} "
            f"({_device()}), only on {', '.join(RTX_RUNS_ON)}: use the backend tensorrt"
        )

    def compiler(self) -> str:
        """Name the GPU with its driver, for which its own compiler makes the kernels."""
        return _device()


@cache
def _device() -> str:
    from alignkit.machine import gpu_name

    return gpu_name()
