"""TensorRT engines with a verified precision, on tensors of torch. **Not yet run on hardware.**"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.backends.tensorrt.build import error_logger
from alignkit.backends.tensorrt.layers import facts_of, layers_by_type, require
from alignkit.errors import BackendError
from alignkit.plugins import UNPROVEN
from alignkit.torch_settings import named_arithmetic, require_device

if TYPE_CHECKING:
    import tensorrt
    import torch

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision


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
        import torch

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
        import torch

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
        import torch

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
    import torch

    def survives(value: float) -> bool:
        image = torch.full((1, 64, 32, 32), value, device="cuda")
        matrix = image[0].reshape(64, 1024).T.contiguous()
        outputs = engine.run({"image": image, "matrix": matrix})
        return all(bool((output == value).all()) for output in outputs)

    return named_arithmetic(survives)
