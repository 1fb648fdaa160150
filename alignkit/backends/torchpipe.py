"""torchpipe's own engine behind its own decoder, in one pipe. **Not yet run on hardware.**

The first scheme of torchpipe's documentation: ``DecodeTensor``, ``ResizeTensor`` and
``TensorrtTensor``, which normalises inside the engine. (The second, its preprocessing before a
model in torch, is the preset ``torchpipe-gpu`` with any backend that receives batches.)

torchpipe 0.2.25 builds its engine with TensorRT 10. It tells nothing of what the engine computes
in, whose fp32 is TF32 by default, so the precision is called ``served`` and ``engine`` is only what
was asked for. The engine is built each time: its own cache loads any file of the name it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from alignkit.backends import BACKENDS
from alignkit.errors import BackendError, MissingDependency
from alignkit.torch_settings import missing_device

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Precision
    from alignkit.backends.torchpipe_session import PipeSession
    from alignkit.models.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class TorchpipeBackend:
    """A pipe of two nodes: preprocessing and engine."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("served",)
    live: ClassVar[bool] = False
    on_cpu: ClassVar[bool] = False
    own_path: ClassVar[str] = "torchpipe-gpu"
    engine: Literal["fp16", "fp32"] = "fp16"
    """What torchpipe is asked to build; nothing verifies what it did."""

    def impossible(self, precision: Precision) -> str:
        """Why the precision cannot be had here; empty if it can be tried."""
        if precision not in self.precisions:
            return f"{precision} cannot be verified in torchpipe's engine; set 'engine' instead"
        return missing_device("cuda")

    def open(self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision) -> PipeSession:
        """A session whose pipe is built when the first images tell how to normalise."""
        if reason := BACKENDS["torchpipe"].missing() or self.impossible(precision):
            raise MissingDependency(f"torchpipe {precision}: {reason}")
        if onnx is None:
            raise BackendError("torchpipe needs the exported ONNX file")
        from alignkit.backends.torchpipe_session import PipeSession

        return PipeSession(onnx, (checkpoint.height, checkpoint.width), self.engine)

    def version(self) -> str:
        """``torchpipe 0.2.25, omniback 0.2.24, CUDA 13.0``."""
        from alignkit.decoders.torchpipe_cuda import TorchpipeCudaDecoder

        return TorchpipeCudaDecoder().version()
