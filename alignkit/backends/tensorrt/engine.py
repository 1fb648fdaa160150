"""A TensorRT engine, run on tensors that torch allocates. **Not yet run on hardware.**"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.backends.tensorrt.build import messages
from alignkit.errors import BackendError
from alignkit.torch_settings import require_device

if TYPE_CHECKING:
    import tensorrt
    import torch


@dataclass(slots=True, eq=False)
class Engine:
    """A deserialised engine with its context and stream; float32 at both ends."""

    engine: tensorrt.ICudaEngine
    context: tensorrt.IExecutionContext
    runtime: tensorrt.Runtime
    """Kept: an engine must not outlive the runtime that read it."""
    stream: torch.cuda.Stream

    @classmethod
    def read(cls, file: Path) -> Engine:
        """Raises `BackendError` with what TensorRT said if it does not take the file."""
        import tensorrt
        import torch

        device = require_device("cuda")
        said = messages()
        runtime = tensorrt.Runtime(said)
        engine = runtime.deserialize_cuda_engine(file.read_bytes())
        context = engine.create_execution_context() if engine else None
        if engine is None or context is None:
            raise BackendError(f"TensorRT cannot load {file.name}: {'; '.join(said.errors)}")
        return cls(engine, context, runtime, torch.cuda.Stream(device))  # type: ignore[no-untyped-call]

    def names(self, mode: tensorrt.TensorIOMode) -> list[str]:
        """Of the inputs or the outputs; raises `BackendError` if one is not float32."""
        import tensorrt

        every = [self.engine.get_tensor_name(n) for n in range(self.engine.num_io_tensors)]
        names = [name for name in every if self.engine.get_tensor_mode(name) == mode]
        for name in names:
            if self.engine.get_tensor_dtype(name) != tensorrt.DataType.FLOAT:
                raise BackendError(f"the engine's tensor {name!r} is not float32")
        return names

    def run(self, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Outputs on the GPU, in the engine's order; inputs are contiguous float32 there."""
        import tensorrt
        import torch

        for name, tensor in given.items():
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
