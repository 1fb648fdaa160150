"""ONNX → a serialised TensorRT engine. **Not yet run on hardware.**"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    import tensorrt


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an engine is built for."""

    batch: tuple[int, int, int]
    size: tuple[int, int]
    """(height, width)."""
    tf32: bool
    """Whether float32 products may be computed in TF32; TensorRT's default is that they may."""
    timings: bytes = b""
    """A serialised timing cache to choose kernels by; empty: they are timed anew."""


def build_engine(graph: bytes, options: EngineOptions) -> tuple[bytes, bytes]:
    """The serialised engine, and the timings its kernels were chosen by.

    Raises `BackendError` with what TensorRT said if it cannot parse or build the graph.
    """
    import tensorrt

    said = messages()
    builder = tensorrt.Builder(said)
    typed = 1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)  # 11 ignores it
    network = builder.create_network(typed)
    parser = tensorrt.OnnxParser(network, said)
    if not parser.parse(graph):
        reasons = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        raise BackendError(f"TensorRT cannot parse the graph: {'; '.join(reasons)}")
    config = builder.create_builder_config()
    config.profiling_verbosity = tensorrt.ProfilingVerbosity.DETAILED  # for the inspector
    switch = config.set_flag if options.tf32 else config.clear_flag
    switch(tensorrt.BuilderFlag.TF32)
    cache = config.create_timing_cache(options.timings)
    if not config.set_timing_cache(cache, ignore_mismatch=False):
        raise BackendError("TensorRT refuses the timing cache: another GPU or version wrote it")
    _add_profile(builder, network, config, options)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise BackendError(f"TensorRT cannot build the engine: {'; '.join(said.errors)}")
    return bytes(engine), bytes(cache.serialize())


def _add_profile(
    builder: tensorrt.Builder,
    network: tensorrt.INetworkDefinition,
    config: tensorrt.IBuilderConfig,
    options: EngineOptions,
) -> None:
    """The batch sizes, where the graph leaves them open."""
    image = network.get_input(0)
    if image.shape[0] != -1:
        return
    shapes = [(samples, 3, *options.size) for samples in options.batch]
    profile = builder.create_optimization_profile()
    profile.set_shape(image.name, *shapes)
    if config.add_optimization_profile(profile) < 0:
        raise BackendError(f"TensorRT refuses the profile {shapes} for input {image.name!r}")


def messages() -> Any:
    """A TensorRT logger that keeps errors in ``errors``, for the cell that fails."""
    import tensorrt

    severities = tensorrt.ILogger.Severity

    class Messages(tensorrt.ILogger):
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: tensorrt.ILogger.Severity, msg: str) -> None:
            if severity in (severities.INTERNAL_ERROR, severities.ERROR):
                self.errors.append(msg)

    return Messages()
