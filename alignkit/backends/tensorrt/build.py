"""ONNX → a serialised TensorRT engine. **Not yet run on hardware.**"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError

if TYPE_CHECKING:
    import tensorrt


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of a build: batch sizes, image size, TF32 and timings."""

    batch: tuple[int, int, int]
    size: tuple[int, int]
    """(height, width)."""
    tf32: bool
    """Whether float32 products may be computed in TF32, as is TensorRT's default."""
    timings: bytes = b""
    """Serialised timing cache that decides the kernels; empty: the build times them."""


def build_engine(graph: bytes, options: EngineOptions) -> tuple[bytes, bytes]:
    """Build an engine; return it serialised, with the timings that decided its kernels.

    Raises `BackendError` with TensorRT's message if it cannot parse or build the graph.
    """
    import tensorrt

    logger = error_logger()
    builder = tensorrt.Builder(logger)
    typed = 1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)  # 11 ignores it
    network = builder.create_network(typed)
    parser = tensorrt.OnnxParser(network, logger)
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
        raise BackendError(f"TensorRT cannot build the engine: {'; '.join(logger.errors)}")
    return bytes(engine), bytes(cache.serialize())


def _add_profile(
    builder: tensorrt.Builder,
    network: tensorrt.INetworkDefinition,
    config: tensorrt.IBuilderConfig,
    options: EngineOptions,
) -> None:
    """Declare the batch sizes, if the graph leaves them open."""
    image = network.get_input(0)
    if image.shape[0] != -1:
        return
    shapes = [(samples, 3, *options.size) for samples in options.batch]
    profile = builder.create_optimization_profile()
    profile.set_shape(image.name, *shapes)
    if config.add_optimization_profile(profile) < 0:
        raise BackendError(f"TensorRT refuses the profile {shapes} for input {image.name!r}")


def error_logger() -> Any:
    """Make a TensorRT logger that keeps errors in ``errors``, for the message of a failed cell."""
    import tensorrt

    severities = tensorrt.ILogger.Severity

    class ErrorLogger(tensorrt.ILogger):
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: tensorrt.ILogger.Severity, msg: str) -> None:
            if severity in (severities.INTERNAL_ERROR, severities.ERROR):
                self.errors.append(msg)

    return ErrorLogger()
