"""nvImageCodec, restricted to its CPU backends.

- JPEG, JPEG 2000, TIFF, PNG, BMP, PNM and WebP.
- EXIF: ignored; the image is not turned.
- grey: three equal channels; CMYK and YCCK: RGB, equal to Pillow's; 16 bits: the high byte; alpha:
  dropped; palette: looked up; ICC profile: ignored.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``.
- ``corrupt`` and ``unsupported`` never: nvImageCodec gives no image, and logs the reason to the
  process's stderr.

With ``fancy_upsampling`` off it equals simplejpeg with ``chroma: nearest``, bit for bit. Whether
either equals nvJPEG has not been measured.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

from alignkit.decoders import Decoded

_of_this_thread = threading.local()


@dataclass(frozen=True, slots=True)
class NvImageCodecDecoder:
    """``nvimgcodec.Decoder`` without a device; ``apply_exif_orientation`` switched off."""

    orients: ClassVar[bool] = False

    fancy_upsampling: bool = True
    """Smooth chroma, or repeated samples."""
    fast_idct: bool = False
    """libjpeg-turbo's fast integer inverse cosine transform."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image on the CPU."""
        import numpy as np
        from nvidia import nvimgcodec

        parameters = nvimgcodec.DecodeParams(apply_exif_orientation=False)
        try:
            image = self._decoder().decode(nvimgcodec.CodeStream(encoded), params=parameters)
        except RuntimeError as error:
            return Decoded("failed", reason=str(error).strip())
        if image is None:
            return Decoded("failed", reason="nvImageCodec gave no image; its reason is on stderr")
        return Decoded("ok", np.array(image))

    def version(self) -> str:
        """``nvimgcodec 0.9.0``."""
        from nvidia import nvimgcodec

        return f"nvimgcodec {nvimgcodec.__version__}"

    def _decoder(self) -> Any:
        """One a thread: a decoder that two threads call at once loses images."""
        from nvidia import nvimgcodec

        built: dict[Any, Any] = vars(_of_this_thread).setdefault("decoders", {})
        if self not in built:
            built[self] = nvimgcodec.Decoder(
                device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
                max_num_cpu_threads=1,
                # without this it looks for a GPU, and gives nothing where there is none
                backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
                options=f":fancy_upsampling={self.fancy_upsampling:d} "
                f":fast_idct={self.fast_idct:d}",
            )
        return built[self]
