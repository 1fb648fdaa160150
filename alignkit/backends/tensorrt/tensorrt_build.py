"""Builds of engines with TensorRT or TensorRT-RTX, whose Python modules have the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.backends import BACKENDS
from alignkit.backends.tensorrt.tensorrt_layers import EngineLayer, layers_in_log
from alignkit.errors import BackendError

if TYPE_CHECKING:
    import tensorrt


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of a build: library, batch sizes, image size, TF32 and timings."""

    backend: str
    """Name of the backend, in messages too: ``tensorrt`` or ``tensorrt-rtx``."""
    batch: tuple[int, int, int]
    size: tuple[int, int]
    """(height, width)."""
    tf32: bool
    """Whether float32 products may be computed in TF32, as is TensorRT's default."""
    timings: bytes | None = None
    """Serialised timing cache that decides the kernels; empty: the build times them; ``None`` for a
    library that times none."""


@dataclass(frozen=True, slots=True)
class SerialisedEngine:
    """A serialised engine, the timings that decided its kernels, and the log of its build."""

    engine: bytes
    timings: bytes | None
    log: tuple[str, ...]
    """Messages of every severity, in order."""

    @property
    def layers(self) -> tuple[EngineLayer, ...]:
        """Layers that the log lists; raise `BackendError` if it lists none."""
        return layers_in_log(self.log)


def build_engine(graph: bytes, options: EngineOptions) -> SerialisedEngine:
    """Build an engine of an ONNX graph, with detailed names of its layers.

    Raises `BackendError` with the library's message if it cannot parse or build the graph.
    """
    library = BACKENDS[options.backend].library()
    logger = message_logger(library)
    builder: tensorrt.Builder = library.Builder(logger)
    typed = 1 << int(library.NetworkDefinitionCreationFlag.STRONGLY_TYPED)  # 11 ignores it
    network = builder.create_network(typed)
    parser: tensorrt.OnnxParser = library.OnnxParser(network, logger)
    if not parser.parse(graph):
        reasons = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        raise BackendError(f"{options.backend} cannot parse the graph: {'; '.join(reasons)}")
    if not network.num_inputs:  # it parses an empty file without an error
        raise BackendError(f"{options.backend} cannot parse the graph: it has no input")
    config = builder.create_builder_config()
    # it names the types of the layers, in the log and for the inspector
    config.profiling_verbosity = library.ProfilingVerbosity.DETAILED
    switch = config.set_flag if options.tf32 else config.clear_flag
    switch(library.BuilderFlag.TF32)
    cache = None
    if options.timings is not None:
        cache = config.create_timing_cache(options.timings)
    if cache and not config.set_timing_cache(cache, ignore_mismatch=False):
        raise BackendError(
            f"{options.backend} refuses the timing cache: another GPU or version wrote it"
        )
    image = network.get_input(0)
    if image.shape[0] == -1:  # the graph leaves the batch size open
        shapes = [(samples, 3, *options.size) for samples in options.batch]
        profile = builder.create_optimization_profile()
        profile.set_shape(image.name, *shapes)
        if config.add_optimization_profile(profile) < 0:
            raise BackendError(
                f"{options.backend} refuses the profile {shapes} for input {image.name!r}"
            )
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        reason = "; ".join(logger.errors)
        raise BackendError(f"{options.backend} cannot build the engine: {reason}")
    timings = bytes(cache.serialize()) if cache else None
    return SerialisedEngine(bytes(engine), timings, tuple(logger.messages))


def message_logger(library: Any) -> Any:
    """Make a logger that keeps ``messages``, and ``errors`` for the message of a failed cell."""
    severities = library.ILogger.Severity

    class MessageLogger(library.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.messages: list[str] = []
            self.errors: list[str] = []

        def log(self, severity: tensorrt.ILogger.Severity, msg: str) -> None:
            self.messages.append(msg)
            if severity in (severities.INTERNAL_ERROR, severities.ERROR):
                self.errors.append(msg)

    return MessageLogger()
