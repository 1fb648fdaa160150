"""``torchvision.io.decode_image`` on the CPU, ``ImageReadMode.RGB``.

- JPEG, PNG, GIF and WebP; any other format is ``unsupported``.
- EXIF: ignored; the image is not turned.
- grey: three equal channels; CMYK and YCCK: RGB, equal to Pillow's; alpha: dropped; palette: looked
  up; ICC profile: ignored; an animated GIF: the first frame.
- 16-bit PNG: ``unsupported``. torchvision returns ``uint16``, which no later stage takes.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``.
- never ``corrupt``: libjpeg's warnings go to the process's stderr and not to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from alignkit.decoders import Decoded, embedded_version


@dataclass(frozen=True, slots=True)
class TorchvisionDecoder:
    """torchvision to RGB; ``apply_exif_orientation`` stays ``False``."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG, PNG, GIF or WebP image."""
        import numpy as np
        import torch
        from torchvision.io import ImageReadMode, decode_image

        if not encoded:
            return Decoded("failed", reason="the file is empty")
        # the copy is writable; torch warns of a buffer that is not
        data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        try:
            decoded = decode_image(data, mode=ImageReadMode.RGB)
        except RuntimeError as error:
            unknown = "Unsupported image file" in str(error)
            return Decoded("unsupported" if unknown else "failed", reason=str(error).strip())
        if decoded.dtype != torch.uint8:
            return Decoded(
                "unsupported", reason=f"torchvision decodes this file to {decoded.dtype}"
            )
        return Decoded("ok", np.ascontiguousarray(decoded.permute(1, 2, 0).numpy()))

    def version(self) -> str:
        """Return ``torchvision 0.27.1+cu130, libjpeg-turbo 3.1.3``; the codec if bundled."""
        import torchvision

        bundled = Path(torchvision.__file__).parent.with_name("torchvision.libs").glob("libjpeg*")
        for library in bundled:
            codec = embedded_version(str(library), r"libjpeg-turbo version ([\d.]+)")
            return f"torchvision {torchvision.__version__}, libjpeg-turbo {codec}"
        return f"torchvision {torchvision.__version__}"
