"""Engines and sessions of TensorRT, on tensors of torch. **Not yet run on hardware.**

A session's precision is verified by the types in the JSON of TensorRT's engine inspector. A
tensor's type is in ``Format/Datatype`` in TensorRT 10, e.g. ``Half`` or ``Channel major FP16 format
where channel % 8 == 0``, and in ``DataType``, e.g. ``Half``, in TensorRT 11.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from alignkit.errors import BackendError
from alignkit.plugins import UNPROVEN
from alignkit.torch_settings import named_arithmetic, require_device

if TYPE_CHECKING:
    import tensorrt

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision
_TYPES = {
    "float": "float32", "fp32": "float32", "half": "float16", "fp16": "float16",
    "bfloat16": "bfloat16", "bf16": "bfloat16", "int8": "int8", "fp8": "float8",
    "int32": "", "int64": "", "bool": "", "uint8": "",
}  # fmt: skip
"""The inspector's word → its type; empty for types that no network computes in."""
_TYPE_OF_PRECISION = {"fp32": "float32", "tf32": "float32", "fp16": "float16"}
_MOVES = frozenset(
    {"Reformat", "NoOp", "Constant", "Shuffle", "ShapeHostToDevice", "Signal", "Wait"}
)
"""Layers that copy or convert, so their types say nothing of the arithmetic."""


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
    image = network.get_input(0)
    if image.shape[0] == -1:  # the graph leaves the batch size open
        shapes = [(samples, 3, *options.size) for samples in options.batch]
        profile = builder.create_optimization_profile()
        profile.set_shape(image.name, *shapes)
        if config.add_optimization_profile(profile) < 0:
            raise BackendError(f"TensorRT refuses the profile {shapes} for input {image.name!r}")
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise BackendError(f"TensorRT cannot build the engine: {'; '.join(logger.errors)}")
    return bytes(engine), bytes(cache.serialize())


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


@dataclass(slots=True, eq=False)
class Engine:
    """A deserialised engine with its context and stream; float32 at both ends."""

    engine: tensorrt.ICudaEngine
    context: tensorrt.IExecutionContext
    runtime: tensorrt.Runtime
    """The runtime that read the engine; the engine must not outlive it."""
    stream: torch.cuda.Stream

    @classmethod
    def read(cls, file: Path) -> Engine:
        """Load an engine's file; raise `BackendError` with TensorRT's message if it refuses it."""
        import tensorrt

        device = require_device("cuda")
        logger = error_logger()
        runtime = tensorrt.Runtime(logger)
        engine = runtime.deserialize_cuda_engine(file.read_bytes())
        context = engine.create_execution_context() if engine else None
        if engine is None or context is None:
            raise BackendError(f"TensorRT cannot load {file.name}: {'; '.join(logger.errors)}")
        return cls(engine, context, runtime, torch.cuda.Stream(device))  # type: ignore[no-untyped-call]

    def names(self, mode: tensorrt.TensorIOMode) -> list[str]:
        """List the inputs or the outputs; raise `BackendError` if one is not float32."""
        import tensorrt

        every = [self.engine.get_tensor_name(n) for n in range(self.engine.num_io_tensors)]
        names = [name for name in every if self.engine.get_tensor_mode(name) == mode]
        for name in names:
            if self.engine.get_tensor_dtype(name) != tensorrt.DataType.FLOAT:
                raise BackendError(f"the engine's tensor {name!r} is not float32")
        return names

    def run(self, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs in the engine's order, float32 on the GPU as the contiguous inputs."""
        import tensorrt

        for name, tensor in inputs.items():
            shaped = self.context.set_input_shape(name, tuple(tensor.shape))
            if not (shaped and self.context.set_tensor_address(name, tensor.data_ptr())):
                raise BackendError(f"TensorRT refuses {tuple(tensor.shape)} for input {name!r}")
        outputs = []
        for name in self.names(tensorrt.TensorIOMode.OUTPUT):
            shape = tuple(self.context.get_tensor_shape(name))
            outputs.append(torch.empty(shape, dtype=torch.float32, device="cuda"))
            self.context.set_tensor_address(name, outputs[-1].data_ptr())
        self.stream.wait_stream(torch.cuda.current_stream())  # the inputs are copied on that one
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise BackendError("TensorRT could not run the engine")
        self.stream.synchronize()
        return outputs


def open_engine(
    folder: Path, precision: Precision, batch: tuple[int, int, int], classes: int
) -> TensorRTSession:
    """Load ``model.engine`` and verify it with the inspector and ``products.engine``."""
    import tensorrt

    engine = Engine.read(folder / "model.engine")
    inspector = engine.engine.create_engine_inspector()
    inspector.execution_context = engine.context
    layers = layers_by_type(inspector.get_engine_information(tensorrt.LayerInformationFormat.JSON))
    require(precision, layers)
    arithmetic = _arithmetic(Engine.read(folder / "products.engine"))
    if precision != "fp16" and arithmetic != ("tf32" if precision == "tf32" else "ieee"):
        raise BackendError(f"tensorrt {precision}: products are computed in {arithmetic}")
    observed = {
        "precision": precision,
        "adapter": UNPROVEN,
        "tensorrt": tensorrt.__version__,
        "float32 products": f"{arithmetic}, verified",
        **facts_of(layers),
        "batch profile": " to ".join(str(batch[index]) for index in (0, 2)),
    }
    return TensorRTSession(engine, batch, classes, observed)


@dataclass(slots=True, eq=False)
class TensorRTSession:
    """An engine with a verified precision."""

    engine: Engine | None
    batch: tuple[int, int, int]
    classes: int
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Logits:
        """Return (samples, classes) float32 for (samples, 3, height, width) float32.

        Raises `BackendError` for a batch outside the engine's profile.
        """
        import tensorrt

        assert self.engine is not None, "the session is closed"
        smallest, _, greatest = self.batch
        if not smallest <= len(batch) <= greatest:
            raise BackendError(
                f"the engine takes {smallest} to {greatest} images at once, not {len(batch)}; set "
                f"this backend's batch, or evaluate.batch_size to at most {greatest}"
            )
        (name,) = self.engine.names(tensorrt.TensorIOMode.INPUT)
        logits: Logits = self.engine.run({name: torch.from_numpy(batch).cuda()})[0].cpu().numpy()
        return logits

    def effective(self) -> dict[str, str]:
        """Return the verified facts of the run."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the engine's memory."""
        self.engine = None


def _arithmetic(engine: Engine) -> str:
    """Measure the arithmetic of the engine of `alignkit.backends.onnx_graph.products`."""

    def survives(value: float) -> bool:
        image = torch.full((1, 64, 32, 32), value, device="cuda")
        matrix = image[0].reshape(64, 1024).T.contiguous()
        outputs = engine.run({"image": image, "matrix": matrix})
        return all(bool((output == value).all()) for output in outputs)

    return named_arithmetic(survives)


def layers_by_type(information: str) -> dict[str, Counter[str]]:
    """Count the kinds of layers that read each type; ``information`` is an engine's JSON.

    Raises `BackendError` if the engine was built without details or a type is unknown, because the
    precision is then not verified.
    """
    layers: dict[str, Counter[str]] = {}
    for layer in json.loads(information)["Layers"]:
        if not isinstance(layer, dict):
            raise BackendError("TensorRT's inspector gives names alone; nothing says the precision")
        if layer["LayerType"] in _MOVES:
            continue
        for kind in {_type_of(tensor) for tensor in layer["Inputs"]} - {""}:
            layers.setdefault(kind, Counter())[layer["LayerType"]] += 1
    return layers


def require(precision: Precision, layers: dict[str, Counter[str]]) -> None:
    """Raise `BackendError` unless layers compute in the precision, and none in a narrower one."""
    wanted = _TYPE_OF_PRECISION[precision]
    if wanted not in layers:
        kinds = ", ".join(sorted(layers)) or "nothing"
        raise BackendError(f"tensorrt {precision}: no layer computes in {wanted}, but in {kinds}")
    if others := sorted(layers.keys() - {wanted, "float32"}):
        raise BackendError(f"tensorrt {precision}: layers compute in {', '.join(others)}")


def facts_of(layers: dict[str, Counter[str]]) -> dict[str, str]:
    """Describe for a report the layers that compute in each type."""
    return {
        f"{kind} layers": f"{names.total()}: {', '.join(sorted(names))}"
        for kind, names in sorted(layers.items())
    }


def _type_of(tensor: dict[str, Any]) -> str:
    text = str(tensor.get("DataType") or tensor.get("Format/Datatype", ""))
    for word in re.findall(r"\w+", text.lower()):
        if word in _TYPES:
            return _TYPES[word]
    raise BackendError(f"TensorRT's inspector names the type {text!r}, which alignkit cannot read")
