"""TensorRT 10 or 11, by its own Python API. **Not yet run on hardware.**

Networks are strongly typed (11 has no other kind): each layer computes in the type that the ONNX
graph declares, so fp16 is the graph converted to float16, with float32 inputs and outputs. fp32 and
tf32 are the same graph with TF32 off or on, which a graph of exact products verifies. The engine
inspector reports the types of the layers; an engine with any other type is refused.

An engine is tied to the library's version and to the GPU with its driver, which are part of its
hash. TensorRT chooses kernels by timing them, so two builds may differ: ``builds: k`` shows by how
much, and ``timing_cache`` fixes the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from alignkit.backends import BACKENDS, Backend, CalibrationSet
from alignkit.errors import BackendError, ConfigError, MissingDependency
from alignkit.torch_settings import missing_device

if TYPE_CHECKING:
    from alignkit.backends import Precision
    from alignkit.backends.tensorrt_session import TensorRTSession
    from alignkit.models.checkpoint import Checkpoint, EngineSource


@dataclass(frozen=True, slots=True)
class TensorRTBackend(Backend):
    """TensorRT on the current CUDA device, with one engine for each precision."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "tf32", "fp16")
    own_path: ClassVar[str] = ""
    on_cpu: ClassVar[bool] = False
    batch: tuple[int, int, int] = (1, 250, 250)
    """Smallest, usual and greatest batch of the optimisation profile; the kernels are chosen for
    the usual one. ``evaluate.batch_size`` must lie within."""

    timing_cache: Path | None = None
    """File of earlier timings, ``timing.cache`` of a stored engine, to choose the kernels by."""

    def __post_init__(self) -> None:
        smallest, usual, greatest = self.batch
        if not 1 <= smallest <= usual <= greatest:
            raise ConfigError("tensorrt: batch is [smallest, usual, greatest], from 1 upwards")
        if self.timing_cache and not self.timing_cache.is_file():
            raise ConfigError(f"tensorrt: there is no file {self.timing_cache}")

    def impossible(self, precision: Precision) -> str:
        if precision not in self.precisions:
            return (
                f"{precision} is none of this backend's precisions; {', '.join(self.precisions)} "
                "are (a strongly typed network takes the graph's types)"
            )
        return missing_device("cuda")

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:  # noqa: ARG002 - every precision is built
        """Return the library, the GPU with its driver, and the timings."""
        from alignkit.stored_file import file_sha256

        timings = file_sha256(self.timing_cache) if self.timing_cache else ""
        return {
            "library": BACKENDS["tensorrt"].version(),
            "device": _device(),
            "timing cache": timings,
        }

    def calibration(self, precision: Precision) -> CalibrationSet | None:  # noqa: ARG002 - none has int8
        """Return None: no precision takes its scales from images."""
        return None

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:
        """Write ``model.engine``, ``products.engine`` and ``timing.cache``.

        Raises `BackendError` with TensorRT's message if it cannot parse or build the graph.
        """
        from alignkit.backends.onnx_graph import graph_of, products
        from alignkit.backends.tensorrt_session import EngineOptions, build_engine

        self._require(precision)
        size = (source.checkpoint.height, source.checkpoint.width)
        timings = self.timing_cache.read_bytes() if self.timing_cache else b""
        options = EngineOptions(self.batch, size, precision == "tf32", timings)
        graph = graph_of(source.onnx, precision)
        engine, timed = build_engine(graph, options)
        (folder / "model.engine").write_bytes(engine)
        (folder / "timing.cache").write_bytes(timed)
        (folder / "products.engine").write_bytes(build_engine(products(), options)[0])

    def open(
        self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision
    ) -> TensorRTSession:
        """Load the engine and verify its types.

        Raises `MissingDependency` where there is no GPU, `BackendError` if the engine cannot be
        loaded or computes in another precision.
        """
        self._require(precision)
        if onnx is None or not onnx.is_dir():
            raise BackendError(f"tensorrt {precision} needs the folder of a built engine")
        from alignkit.backends.tensorrt_session import open_engine

        return open_engine(onnx, precision, self.batch, checkpoint.classes)

    def version(self) -> str:
        """Name both versions: ``tensorrt 11.4.0.106, NVIDIA H100 80GB HBM3, driver 580.65.06``."""
        return f"{BACKENDS['tensorrt'].version()}, {_device()}"

    def _require(self, precision: Precision) -> None:
        if reason := BACKENDS["tensorrt"].missing() or self.impossible(precision):
            raise MissingDependency(f"tensorrt {precision}: {reason}")


@cache
def _device() -> str:
    from alignkit.machine import gpu_name

    return gpu_name()
