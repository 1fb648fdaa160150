"""nvImageCodec: restricted to its CPU backends, or to those of a GPU.

On the CPU (``nvimgcodec``):

- JPEG, JPEG 2000, TIFF, PNG, BMP, PNM and WebP.
- EXIF: ignored; the image is not turned. ``apply_exif_orientation`` turns JPEG, PNG, WebP and TIFF
  files.
- grey: three equal channels; CMYK and YCCK: RGB, equal to Pillow's; 16 bits: the high byte; alpha:
  dropped; palette: looked up; ICC profile: ignored.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``.
- never ``corrupt`` or ``unsupported``: nvImageCodec returns no image, and logs the reason to the
  process's stderr.

With ``fancy_upsampling`` off it equals simplejpeg with ``chroma: nearest``, bit for bit.

On the GPU (``nvimgcodec-gpu``): nvJPEG for JPEG files, on CUDA's cores or the JPEG engine that some
GPUs have, with smooth chroma by default, unlike DALI and torchvision. The CPU's backends are not
allowed, so an image the GPU cannot decode is ``failed``. EXIF: ignored; ICC profile: ignored. On
an H100 (nvImageCodec 0.9.0) ``cuda`` leaves the engine out: `alignkit.decoders.nvjpeg_model`.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from alignkit.decoders import Decoded, Decoder
from alignkit.decoders.exif import measured_orientation

_of_this_thread = threading.local()
_ENGINES = {"cuda": ("GPU_ONLY", "HYBRID_CPU_GPU"), "hardware": ("HW_GPU_ONLY",)}
"""``nvimgcodec.BackendKind`` by name; hybrid: Huffman codes on the CPU, the rest on the GPU."""


class _NvImageCodec(Decoder):
    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image."""
        return self._decoded(encoded, turned=False)

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation by which ``apply_exif_orientation`` turns the file."""
        return measured_orientation(encoded, lambda turned: self._decoded(encoded, turned).image)

    def _decoded(self, encoded: bytes, turned: bool) -> Decoded:
        import numpy as np
        from nvidia import nvimgcodec

        # one for each thread: a decoder that two threads call at once loses images
        built: dict[Any, Any] = vars(_of_this_thread).setdefault("decoders", {})
        if self not in built:
            built[self] = self.build()
        parameters = nvimgcodec.DecodeParams(apply_exif_orientation=turned)
        try:
            image = built[self].decode(nvimgcodec.CodeStream(encoded), params=parameters)
        except RuntimeError as error:
            return Decoded("failed", reason=str(error).strip())
        if image is None:
            return Decoded("failed", reason="nvImageCodec gave no image; its reason is on stderr")
        return Decoded("ok", np.array(image.cpu()))

    def version(self) -> str:
        """Return ``nvimgcodec 0.9.0``."""
        from nvidia import nvimgcodec

        return f"nvimgcodec {nvimgcodec.__version__}"

    @abstractmethod
    def build(self) -> Any:
        """Build the library's decoder."""


@dataclass(frozen=True, slots=True)
class NvImageCodecDecoder(_NvImageCodec):
    """CPU decoder: ``nvimgcodec.Decoder`` without a device; ``apply_exif_orientation`` off."""

    fancy_upsampling: bool = True
    """Smooth chroma upsampling instead of repeated samples."""
    fast_idct: bool = False
    """libjpeg-turbo's fast integer inverse cosine transform."""

    def build(self) -> Any:
        from nvidia import nvimgcodec

        return nvimgcodec.Decoder(
            device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            # without this it looks for a GPU, and returns nothing where there is none
            backends=_backends("CPU_ONLY"),
            options=f":fancy_upsampling={self.fancy_upsampling:d} :fast_idct={self.fast_idct:d}",
        )


@dataclass(frozen=True, slots=True)
class NvImageCodecGPUDecoder(_NvImageCodec):
    """GPU decoder: ``nvimgcodec.Decoder``, pixels copied back."""

    fancy_upsampling: bool = True
    """Smooth chroma upsampling instead of repeated samples."""
    engine: Literal["cuda", "hardware"] = "cuda"
    """``cuda`` decodes on the cores, ``hardware`` on the JPEG engine of some GPUs."""

    def build(self) -> Any:
        from nvidia import nvimgcodec

        return nvimgcodec.Decoder(
            max_num_cpu_threads=1,
            backends=_backends(*_ENGINES[self.engine]),
            options=f":fancy_upsampling={self.fancy_upsampling:d}",
        )


def _backends(*kinds: str) -> list[Any]:
    from nvidia import nvimgcodec

    return [nvimgcodec.Backend(getattr(nvimgcodec.BackendKind, kind)) for kind in kinds]
