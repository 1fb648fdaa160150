"""``torchvision.io.decode_jpeg(device="cuda")``: nvJPEG with its default flags.

**Not yet run on hardware**; the following is taken from torchvision's source and documentation.

- JPEG only; anything that does not begin as one is ``unsupported``, so that 16 bits and alpha do
  not arise. ICC profile: ignored.
- chroma samples are repeated (``NVJPEG_FLAGS_DEFAULT``), with no switch for it; EXIF is ignored.
- grey: three equal channels. nvJPEG decides whether CMYK, progressive and truncated files decode;
  a file it refuses is ``failed`` with its message. Never ``corrupt``: it reports no damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from alignkit.decoders import Decoded

START_OF_IMAGE = b"\xff\xd8"


@dataclass(frozen=True, slots=True)
class TorchvisionCudaDecoder:
    """Decoder on the current CUDA device; pixels are copied back."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG."""
        import numpy as np
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        if not encoded.startswith(START_OF_IMAGE):
            return Decoded("unsupported", reason="not a JPEG: it does not begin with FF D8")
        # the copy is writable; torch warns of a buffer that is not
        data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        try:
            decoded = decode_jpeg(data, mode=ImageReadMode.RGB, device="cuda").cpu()
        except RuntimeError as error:
            return Decoded("failed", reason=str(error).strip())
        return Decoded("ok", np.ascontiguousarray(decoded.permute(1, 2, 0).numpy()))

    def version(self) -> str:
        """Return ``torchvision 0.27.1+cu130, CUDA 13.0``."""
        import torch
        import torchvision

        return f"torchvision {torchvision.__version__}, CUDA {torch.version.cuda}"
