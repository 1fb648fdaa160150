"""torchpipe's own engine behind its own decoder, in one pipe. **Not yet run on hardware.**

The first scheme of torchpipe's documentation: ``DecodeTensor``, ``ResizeTensor`` and
``TensorrtTensor``, which normalises inside the engine. (The second, its preprocessing before a
model in torch, is the preset ``torchpipe-gpu`` with any backend that receives batches.)

torchpipe 0.2.25 builds its engine with TensorRT 10. It does not report the types that the engine
computes in, and TensorRT's fp32 is TF32 by default, so the precision is called ``served`` and
``engine`` is only a request. The engine is built each time, because torchpipe's own cache loads any
file of the given name.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from alignkit.backends import BACKENDS, Backend
from alignkit.errors import BackendError, MissingDependency
from alignkit.plugins import UNPROVEN
from alignkit.torch_settings import TORCH_EXTENSIONS, missing_device, quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Logits
    from alignkit.backends import EncodedFiles, Precision
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.preprocess.normalise import Normalise
    from alignkit.tasks import Outputs


@dataclass(frozen=True, slots=True)
class TorchpipeBackend(Backend):
    """A pipe of two nodes: preprocessing and engine."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("served",)
    on_cpu: ClassVar[bool] = False
    own_path: ClassVar[str] = "torchpipe-gpu"
    engine: Literal["fp16", "fp32"] = "fp16"
    """Precision that torchpipe is asked to build; nothing verifies the result."""

    def impossible(self, precision: Precision) -> str:
        if precision not in self.precisions:
            return f"{precision} cannot be verified in torchpipe's engine; set 'engine' instead"
        return missing_device("cuda")

    def open(self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision) -> PipeSession:
        """Return a session that builds its pipe once the first images bring the normalisation."""
        if reason := BACKENDS["torchpipe"].missing() or self.impossible(precision):
            raise MissingDependency(f"torchpipe {precision}: {reason}")
        if onnx is None:
            raise BackendError("torchpipe needs the exported ONNX file")
        return PipeSession(onnx, (checkpoint.height, checkpoint.width), self.engine)

    def version(self) -> str:
        """Name the versions, as in ``torchpipe 0.2.25, omniback 0.2.24, CUDA 13.0``."""
        from alignkit.decoders.torchpipe import TorchpipeCudaDecoder

        return TorchpipeCudaDecoder().version()


def pipe_options(
    onnx: Path, size: tuple[int, int], engine: str, normalise: Normalise
) -> dict[str, dict[str, str]]:
    """Return the nodes of a pipe that takes one image at a time.

    Every call makes new names, because torchpipe remembers names for the life of the process.
    Raises `BackendError` for means or deviations that torchpipe does not merge into the engine: on
    its scale of 0 to 255 each must be above 1.
    """
    mean = [255 * value for value in normalise.mean]
    std = [255 * value for value in normalise.std]
    if min(*mean, *std) <= 1:
        raise BackendError(
            "torchpipe merges only means and deviations above 1 of 255 into an engine, not "
            f"{normalise.mean} and {normalise.std}"
        )
    name = uuid.uuid4().hex
    return {
        f"preprocess-{name}": {
            "backend": "S[DecodeTensor,ResizeTensor,SyncTensor]",
            "color": "rgb",
            "resize_h": str(size[0]),
            "resize_w": str(size[1]),
            "next": f"engine-{name}",
        },
        f"engine-{name}": {
            "backend": "SyncTensor[TensorrtTensor]",
            "model": str(onnx),
            "precision": engine,
            "max": "1",
            "mean": ",".join(f"{each:.6f}" for each in mean),
            "std": ",".join(f"{each:.6f}" for each in std),
        },
    }


@dataclass(slots=True, eq=False)
class PipeSession:
    """A pipe that receives encoded files."""

    onnx: Path
    size: tuple[int, int]
    engine: str
    pipe: Any = None
    normalise: Normalise | None = None

    def predict(self, images: EncodedFiles) -> Outputs:
        """Return the model's only output for encoded JPEG files, one file at a time.

        Raises `BackendError` if the pipe cannot be built or gives no result for a file.
        """
        import numpy as np

        if self.normalise != images.normalise:
            self._build(images.normalise)
        return (np.concatenate([self._ask(file) for file in images.files]),)

    def effective(self) -> dict[str, str]:
        """Return the requested precision; nothing of it is verified."""
        return {"precision": "served", "engine asked for": self.engine, "adapter": UNPROVEN}

    def close(self) -> None:
        """Free the pipe."""
        self.pipe = None

    def _build(self, normalise: Normalise) -> None:
        with quiet(TORCH_EXTENSIONS):
            import torchpipe

        options = pipe_options(self.onnx, self.size, self.engine, normalise)
        try:
            self.pipe = torchpipe.pipe(options)
        except RuntimeError as error:
            raise BackendError(f"torchpipe cannot build the pipe: {error}") from error
        self.normalise = normalise

    def _ask(self, encoded: bytes) -> Logits:
        import numpy as np
        from torch.utils.dlpack import from_dlpack

        request: dict[str, Any] = {"data": encoded}
        try:
            self.pipe(request)
        except RuntimeError as error:
            raise BackendError(f"torchpipe: {error}") from error
        if "result" not in request:
            raise BackendError("torchpipe gave no result for a file; its reason is on stdout")
        logits: Logits = from_dlpack(request["result"]).float().cpu().numpy()
        return np.atleast_2d(logits)
