"""NVIDIA DALI's ``decoders.image``, in its dynamic mode: one image a call, no pipeline object.

On the CPU (``dali``):

- JPEG, JPEG 2000, TIFF, PNG, BMP, PNM and WebP; any other format is ``unsupported``.
- EXIF: ignored; the image is not turned. ``adjust_orientation`` turns JPEG, PNG, WebP and TIFF
  files; a turned CMYK file is then within a level of the same file not turned.
- grey: three equal channels; CMYK and YCCK: RGB, equal to Pillow's; 16 bits: scaled to 8 and
  rounded, so up to one level above the high byte; alpha: dropped; palette: looked up; ICC profile:
  ignored.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``. Never ``corrupt``: warnings stay inside DALI.

On the GPU (``dali-gpu``, DALI's ``mixed``): nvJPEG, which by DALI's default repeats chroma samples
(`alignkit.decoders.nvjpeg_model`), or a GPU's JPEG engine, where it has one.
DALI silently decodes on the CPU whatever the GPU cannot decode; this is the stack as it is served.
**Not yet run on hardware.**
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignkit.decoders import Decoded, Decoder
from alignkit.decoders.exif import measured_orientation

UNSUPPORTED = "nvImageCodec failure: '#4'"
"""Beginning of DALI's message for ``NVIMGCODEC_STATUS_CODESTREAM_UNSUPPORTED`` of nvimgcodec.h."""


class _DALI(Decoder):
    def version(self) -> str:
        """Return ``dali 2.4.0``."""
        import nvidia.dali

        return f"dali {nvidia.dali.__version__}"


@dataclass(frozen=True, slots=True)
class DALIDecoder(_DALI):
    """CPU decoder: libjpeg-turbo with smooth chroma; ``adjust_orientation`` switched off."""

    use_fast_idct: bool = False
    """libjpeg-turbo's fast integer inverse cosine transform."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image on the CPU."""
        return self._decoded(encoded, turned=False)

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation by which ``adjust_orientation`` turns the file."""
        return measured_orientation(encoded, lambda turned: self._decoded(encoded, turned).image)

    def _decoded(self, encoded: bytes, turned: bool) -> Decoded:
        options = {"adjust_orientation": turned, "use_fast_idct": self.use_fast_idct}
        return _decoded(encoded, device="cpu", **options)


@dataclass(frozen=True, slots=True)
class DALIGPUDecoder(_DALI):
    """GPU decoder: nvJPEG; ``adjust_orientation`` switched off. Not yet run on hardware."""

    fancy_upsampling: bool = False
    """``jpeg_fancy_upsampling``: smooth chroma as libjpeg-turbo's, instead of repeated samples."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image on the GPU and copy it back."""
        options = {"adjust_orientation": False, "jpeg_fancy_upsampling": self.fancy_upsampling}
        return _decoded(encoded, device="mixed", **options)


def _decoded(encoded: bytes, **options: Any) -> Decoded:
    import numpy as np
    import nvidia.dali.experimental.dynamic as dali

    if not encoded:
        return Decoded("failed", reason="the file is empty")
    data = np.frombuffer(encoded, np.uint8)
    try:
        decoded = dali.decoders.image(data, **options)
        # a copy: the contract asks for an array of its own
        return Decoded("ok", np.array(decoded.cpu()))
    except RuntimeError as error:
        reason = str(error).strip()
    return Decoded("unsupported" if reason.startswith(UNSUPPORTED) else "failed", reason=reason)
