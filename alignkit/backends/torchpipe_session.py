"""A torchpipe pipe that is sent encoded files. **Not yet run on hardware.**"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignkit.arrays import Logits
    from alignkit.preprocess import Normalise


def pipe_options(
    onnx: Path, size: tuple[int, int], engine: str, normalise: Normalise
) -> dict[str, dict[str, str]]:
    """The nodes of the pipe, one image at a time.

    Names are new each time: torchpipe keeps those it has seen for the life of the process. Raises
    `BackendError` for means or deviations that torchpipe does not merge: on its scale of 0 to 255
    each must be above 1.
    """
    mean = [255 * each for each in normalise.mean]
    std = [255 * each for each in normalise.std]
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

    def predict_files(self, files: Sequence[bytes], normalise: Normalise) -> Logits:
        """Encoded JPEG files → (images, classes) float32, one at a time.

        Raises `BackendError` if the pipe cannot be built or gives no result for a file.
        """
        import numpy as np

        if self.normalise != normalise:
            self._build(normalise)
        return np.concatenate([self._ask(each) for each in files])

    def effective(self) -> dict[str, str]:
        """What was asked for; nothing of it is verified."""
        from alignkit.plugins import UNPROVEN

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
