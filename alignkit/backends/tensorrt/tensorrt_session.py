"""Sessions of TensorRT and TensorRT-RTX, on tensors of torch. **Not yet run on hardware.**

A session's precision is verified by the types that the engine inspector gives its layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from alignkit.backends import BACKENDS
from alignkit.backends.onnx_quantisation import quantisation_facts
from alignkit.backends.session_outputs import as_outputs, wanted_names
from alignkit.backends.tensorrt import ENGINE, PRODUCTS
from alignkit.backends.tensorrt.tensorrt_build import message_logger
from alignkit.backends.tensorrt.tensorrt_layers import (
    EngineLayer,
    facts_of,
    layers_in_inspection,
    require,
)
from alignkit.errors import BackendError
from alignkit.plugins import UNPROVEN
from alignkit.stored_file import file_sha256
from alignkit.torch_settings import named_arithmetic, require_device

if TYPE_CHECKING:
    import tensorrt

    from alignkit.arrays import Batch
    from alignkit.backends import Precision
    from alignkit.tasks import Outputs


@dataclass(slots=True, eq=False)
class Engine:
    """A deserialised engine with its context and stream; float32 at both ends."""

    engine: tensorrt.ICudaEngine
    context: tensorrt.IExecutionContext
    runtime: tensorrt.Runtime
    """The runtime that read the engine; the engine must not outlive it."""
    stream: torch.cuda.Stream
    backend: str
    """Name of the backend, which says whose engine it is."""

    @classmethod
    def read(cls, backend: str, serialised: bytes) -> Engine:
        """Load an engine; raise `BackendError` with the library's message if it refuses it."""
        device = require_device("cuda")
        library = BACKENDS[backend].library()
        logger = message_logger(library)
        runtime: tensorrt.Runtime = library.Runtime(logger)
        engine = runtime.deserialize_cuda_engine(serialised)
        context = engine.create_execution_context() if engine else None
        if engine is None or context is None:
            raise BackendError(f"{backend} cannot load the engine: {'; '.join(logger.errors)}")
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        return cls(engine, context, runtime, stream, backend)

    def layers(self) -> tuple[EngineLayer, ...]:
        """Return what the inspector says of its layers."""
        inspector = self.engine.create_engine_inspector()
        inspector.execution_context = self.context
        json = BACKENDS[self.backend].library().LayerInformationFormat.JSON
        return layers_in_inspection(inspector.get_engine_information(json))

    def names(self, mode: Literal["INPUT", "OUTPUT"]) -> list[str]:
        """List the inputs or the outputs; raise `BackendError` if one is not float32."""
        every = [self.engine.get_tensor_name(n) for n in range(self.engine.num_io_tensors)]
        names = [name for name in every if self.engine.get_tensor_mode(name).name == mode]
        for name in names:
            if self.engine.get_tensor_dtype(name).name != "FLOAT":
                raise BackendError(f"the engine's tensor {name!r} is not float32")
        return names

    def run(self, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs in the engine's order, float32 on the GPU as the contiguous inputs."""
        for name, tensor in inputs.items():
            shaped = self.context.set_input_shape(name, tuple(tensor.shape))
            if not (shaped and self.context.set_tensor_address(name, tensor.data_ptr())):
                raise BackendError(
                    f"{self.backend} refuses {tuple(tensor.shape)} for input {name!r}"
                )
        outputs = []
        for name in self.names("OUTPUT"):
            shape = tuple(self.context.get_tensor_shape(name))
            outputs.append(torch.empty(shape, dtype=torch.float32, device="cuda"))
            self.context.set_tensor_address(name, outputs[-1].data_ptr())
        self.stream.wait_stream(torch.cuda.current_stream())  # the inputs are copied on that one
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise BackendError(f"{self.backend} could not run the engine")
        self.stream.synchronize()
        return outputs


def inspected_layers(backend: str, serialised: bytes) -> tuple[EngineLayer, ...]:
    """Load an engine, and return what the inspector says of its layers."""
    return Engine.read(backend, serialised).layers()


def open_engine(
    backend: str,
    folder: Path,
    precision: Precision,
    batch: tuple[int, int, int],
    outputs: tuple[str, ...] = (),
) -> TensorRTSession:
    """Load ``model.engine`` and verify it with the inspector and ``products.engine``.

    ``outputs`` names those that the session returns; empty for the only one.
    """
    engine = Engine.read(backend, (folder / ENGINE).read_bytes())
    layers = engine.layers()
    require(precision, layers, backend)
    arithmetic = _arithmetic(Engine.read(backend, (folder / PRODUCTS).read_bytes()))
    # in fp16 and int8 the products that decide are not float32's
    wanted = {"fp32": "ieee", "tf32": "tf32"}.get(precision, arithmetic)
    if arithmetic != wanted:
        raise BackendError(f"{backend} {precision}: products are computed in {arithmetic}")
    observed = {
        "precision": precision,
        "adapter": UNPROVEN,
        backend: str(BACKENDS[backend].library().__version__),
        "engine": f"SHA-256 {file_sha256(folder / ENGINE)}",
        "float32 products": f"{arithmetic}, verified",
        **facts_of(layers),
        "batch profile": " to ".join(str(batch[index]) for index in (0, 2)),
    }
    if precision == "int8":
        observed |= quantisation_facts(folder)
    return TensorRTSession(engine, batch, outputs, observed)


@dataclass(slots=True, eq=False)
class TensorRTSession:
    """An engine with a verified precision."""

    engine: Engine | None
    batch: tuple[int, int, int]
    outputs: tuple[str, ...]
    """Names of the wanted outputs; empty for the only one."""
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Outputs:
        """Return the wanted outputs for (samples, 3, height, width) float32.

        Raises `BackendError` for a batch outside the engine's profile, or an unknown output.
        """
        assert self.engine is not None, "the session is closed"
        smallest, _, greatest = self.batch
        if not smallest <= len(batch) <= greatest:
            raise BackendError(
                f"the engine takes {smallest} to {greatest} images at once, not {len(batch)}; set "
                f"this backend's batch, or evaluate.batch_size to at most {greatest}"
            )
        (name,) = self.engine.names("INPUT")
        found = self.engine.run({name: torch.from_numpy(batch).cuda()})
        by_name = dict(zip(self.engine.names("OUTPUT"), found, strict=True))
        names = wanted_names(self.outputs, [*by_name])
        return as_outputs(by_name[each].cpu().numpy() for each in names)

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
