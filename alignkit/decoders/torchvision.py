"""torchvision's two decoders, with ``ImageReadMode.RGB``.

On the CPU (``torchvision``): ``torchvision.io.decode_image``.

- JPEG, PNG, GIF and WebP; any other format is ``unsupported``.
- EXIF: ignored; the image is not turned. ``apply_exif_orientation=True`` turns JPEG and PNG files.
- grey: three equal channels; CMYK and YCCK: RGB, equal to Pillow's; alpha: dropped; palette: looked
  up; ICC profile: ignored; an animated WebP or PNG: the first frame.
- an animated GIF: ``unsupported``. torchvision returns all its frames, which are no one image.
- 16-bit PNG: ``unsupported``. torchvision returns ``uint16``, which no later stage takes.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``.
- never ``corrupt``: libjpeg's warnings go to the process's stderr and not to the caller.

On the GPU (``torchvision-cuda``): ``torchvision.io.decode_jpeg(device="cuda")``, which is nvJPEG
with its default flags; torchvision 0.26 on an H100 (docs/gpu.md).

- JPEG only; anything that does not begin as one is ``unsupported``, so that 16 bits and alpha do
  not arise. ICC profile: ignored.
- chroma samples are repeated (``NVJPEG_FLAGS_DEFAULT``), with no switch for it; EXIF is ignored. A
  GPU's JPEG engine, where it has one, decodes baseline files: `alignkit.decoders.nvjpeg_model`
  with ``engine`` gives the same pixels.
- grey: three equal channels; progressive: decoded; CMYK and arithmetic coding: ``failed``. Never
  ``corrupt``: damaged and truncated files decode without a word, and some twice to other pixels.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.decoders import START_OF_IMAGE, Decoded, Decoder, embedded_version
from alignkit.decoders.exif import measured_orientation

if TYPE_CHECKING:
    import torch

_of_this_thread = threading.local()


@dataclass(frozen=True, slots=True)
class TorchvisionDecoder(Decoder):
    """torchvision to RGB; ``apply_exif_orientation`` stays ``False``."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG, PNG, GIF or WebP image."""
        import numpy as np
        import torch

        if not encoded:
            return Decoded("failed", reason="the file is empty")
        try:
            decoded = self._decoded(encoded, turned=False)
        except RuntimeError as error:
            unknown = "Unsupported image file" in str(error)
            return Decoded("unsupported" if unknown else "failed", reason=str(error).strip())
        if decoded.dtype != torch.uint8:
            return Decoded(
                "unsupported", reason=f"torchvision decodes this file to {decoded.dtype}"
            )
        if decoded.ndim != 3:
            reason = f"torchvision decodes this file to its {len(decoded)} frames"
            return Decoded("unsupported", reason=reason)
        return Decoded("ok", np.ascontiguousarray(decoded.permute(1, 2, 0).numpy()))

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation by which ``apply_exif_orientation`` turns the file."""
        return measured_orientation(
            encoded, lambda turned: self._decoded(encoded, turned).permute(1, 2, 0).numpy()
        )

    def _decoded(self, encoded: bytes, turned: bool) -> Any:
        import torch
        from torchvision.io import ImageReadMode, decode_image

        # the copy is writable; torch warns of a buffer that is not
        data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        return decode_image(data, mode=ImageReadMode.RGB, apply_exif_orientation=turned)

    def version(self) -> str:
        """Return ``torchvision 0.27.1+cu130, libjpeg-turbo 3.1.3``; the codec if bundled."""
        import torchvision

        bundled = Path(torchvision.__file__).parent.with_name("torchvision.libs").glob("libjpeg*")
        for library in bundled:
            codec = embedded_version(str(library), r"libjpeg-turbo version ([\d.]+)")
            return f"torchvision {torchvision.__version__}, libjpeg-turbo {codec}"
        return f"torchvision {torchvision.__version__}"


@dataclass(frozen=True, slots=True)
class TorchvisionCudaDecoder(Decoder):
    """Decoder on the current CUDA device; pixels are copied back."""

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
            with torch.cuda.stream(_own_stream()):
                decoded = decode_jpeg(data, mode=ImageReadMode.RGB, device="cuda").cpu()
        except RuntimeError as error:  # whose further lines are the stack of C++
            return Decoded("failed", reason=str(error).partition("\n")[0].strip())
        return Decoded("ok", np.ascontiguousarray(decoded.permute(1, 2, 0).numpy()))

    def version(self) -> str:
        """Return ``torchvision 0.27.1+cu130, CUDA 13.0``."""
        import torch
        import torchvision

        return f"torchvision {torchvision.__version__}, CUDA {torch.version.cuda}"


def _own_stream() -> torch.cuda.Stream:
    """Return this thread's CUDA stream, in which nothing but decoding happens.

    torchvision takes the pixels' memory from the allocator of the current stream and writes them
    in a stream of its own, without waiting for the current one. In a stream where a model runs,
    that memory may be a tensor that the model has freed and its kernels have yet to read.
    """
    import torch

    streams = vars(_of_this_thread).setdefault("streams", {})
    device = torch.cuda.current_device()
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream: torch.cuda.Stream = streams[device]
    return stream
