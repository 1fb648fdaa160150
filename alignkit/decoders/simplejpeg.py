"""simplejpeg: libjpeg-turbo with its two switches, and its warnings.

- JPEG only; anything that does not begin as one is ``unsupported``, so that 16 bits and alpha do
  not arise. EXIF: ignored; the image is not turned.
- grey: three equal channels; CMYK and YCCK: RGB by libjpeg-turbo's formula, equal to OpenCV's;
  12-bit and other precisions: ``unsupported``; ICC profile: ignored.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- ``corrupt``: every file libjpeg-turbo warns of. A truncated file is ``corrupt`` too, its missing
  part grey; cv2.imread reads it too, and Pillow, torchvision and torchpipe refuse it.
- a warning while the header is read (junk before a marker) is ``failed``: simplejpeg gives up.

The default switches give the pixels of OpenCV, Pillow and torchvision. ``chroma: nearest`` repeats
chroma samples as libjpeg-turbo's ``TJFLAG_FASTUPSAMPLE`` does; ``dct: ifast`` is TensorFlow's
default ``dct_method``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.decoders import START_OF_IMAGE, Decoded, Decoder, embedded_version

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class SimpleJPEGDecoder(Decoder):
    """simplejpeg to RGB; does not turn the image."""

    chroma: Literal["smooth", "nearest"] = "smooth"
    """How subsampled chroma is brought to full size: a triangle filter, or repetition."""
    dct: Literal["islow", "ifast"] = "islow"
    """The inverse cosine transform: accurate integer, or fast integer."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG."""
        if not encoded.startswith(START_OF_IMAGE):
            return Decoded("unsupported", reason="not a JPEG: it does not begin with FF D8")
        try:
            # strict turns libjpeg-turbo's warnings into errors, which tells a damaged file from a
            # good one
            return Decoded("ok", self._pixels(encoded, strict=True))
        except ValueError as error:
            warning = str(error)
        try:
            # again without it, for the pixels of the damaged file
            return Decoded("corrupt", self._pixels(encoded, strict=False), reason=warning)
        except ValueError as error:
            reason = str(error)
        return Decoded(
            "unsupported" if reason.startswith("Unsupported") else "failed", reason=reason
        )

    def _pixels(self, encoded: bytes, *, strict: bool) -> Image:
        import simplejpeg

        image: Image = simplejpeg.decode_jpeg(
            encoded,
            "RGB",
            fastdct=self.dct == "ifast",
            fastupsample=self.chroma == "nearest",
            strict=strict,
        )
        return image

    def version(self) -> str:
        """Return ``simplejpeg 1.9.0, libjpeg-turbo 3.1.2``."""
        import simplejpeg
        from simplejpeg import _jpeg

        codec = embedded_version(_jpeg.__file__, r"libjpeg-turbo version ([\d.]+)")
        return f"simplejpeg {simplejpeg.__version__}, libjpeg-turbo {codec}"
