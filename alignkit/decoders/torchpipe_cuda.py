"""torchpipe's ``DecodeTensor``: nvJPEG, created with flags 0.

**Not yet run on hardware**; the following is taken from torchpipe 0.2.25,
csrc/nvjpeg_torch/DecodeTensor.cpp. torchpipe compiles this backend when it is first imported on a
machine with CUDA's headers.

- JPEG of three components only; grey, CMYK and every other format, and so 16 bits and alpha, give
  no result: ``failed``. ICC profile: ignored. nvJPEG decides whether progressive and truncated
  files decode.
- chroma samples are repeated, with no switch for it; EXIF is ignored.
- never ``corrupt`` or ``unsupported``: the reason goes to torchpipe's log on stdout.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

from alignkit.decoders import Decoded
from alignkit.errors import MissingDependency

_of_this_thread = threading.local()


@dataclass(frozen=True, slots=True)
class TorchpipeCudaDecoder:
    """Decoder on the current CUDA device; pixels are copied back."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG. Raise `MissingDependency` if torchpipe has no nvJPEG backend."""
        import numpy as np
        from torch.utils.dlpack import from_dlpack

        request: dict[str, Any] = {"data": encoded}
        decode = _backend()
        try:
            decode(request)
        except RuntimeError as error:
            return Decoded("failed", reason=str(error).strip())
        if "result" not in request:
            return Decoded("failed", reason="DecodeTensor gave no result; its reason is on stdout")
        return Decoded("ok", np.ascontiguousarray(from_dlpack(request["result"]).cpu().numpy()))

    def version(self) -> str:
        """Return ``torchpipe 0.2.25, omniback 0.2.24, CUDA 13.0``."""
        from importlib import metadata

        import torch

        names = [f"{name} {metadata.version(name)}" for name in ("torchpipe", "omniback")]
        return ", ".join([*names, f"CUDA {torch.version.cuda}"])


def _backend() -> Any:
    """Return this thread's backend: it holds the state of one nvJPEG decoder."""
    from alignkit.decoders.torchpipe import backend

    if "decode" not in vars(_of_this_thread):
        try:
            # not through the cache, whose backends are shared between threads
            decode = backend.__wrapped__("DecodeTensor", color="rgb", data_format="hwc")
        except RuntimeError as error:
            raise MissingDependency(
                f"torchpipe-cuda: torchpipe has no nvJPEG backend here ({error}); install CUDA's "
                "headers and libnvjpeg and import torchpipe once, which compiles it"
            ) from error
        _of_this_thread.decode = decode
    return _of_this_thread.decode
