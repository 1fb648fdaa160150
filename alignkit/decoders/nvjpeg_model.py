"""nvJPEG's arithmetic on a CPU: a model of its CUDA path, checked against stored output of it.

The rule: inverse DCT in float32, rounded half to even to 8-bit planes; chroma samples repeated;
colour in floating point, truncated. Baseline JPEG of 4:2:0 and 4:4:4 is *verified against stored
nvJPEG output (CUDA 10.1, ~12, 12.8; CUDA-core path)*; every other kind is decoded by the same rule,
with no output to check it against. The hardware JPEG engine may round otherwise.

- JPEG only; anything that does not begin as one is ``unsupported``, so that 16 bits and alpha do
  not arise. EXIF: ignored; the image is not turned. ICC profile: ignored.
- grey: three equal channels, no colour arithmetic; CMYK, YCCK, RGB without chroma, arithmetic and
  lossless coding, other than 8 bits, and sampling factors that are no whole ratio: ``unsupported``.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- ``corrupt``: every file libjpeg-turbo warns of, truncated files among them. jpeglib hides
  warnings, so the libjpeg-turbo in simplejpeg reads each file first, at an eighth of its size;
  what nvJPEG makes of a damaged file is not known.

With ``interpolate, islow, round`` the pixels are those of libjpeg-turbo, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from alignkit.decoders import START_OF_IMAGE, Decoded, Decoder
from alignkit.decoders.inverse_dct import float_samples, islow_samples
from alignkit.decoders.jpeg_coefficients import (
    Coefficients,
    UnreadableJpeg,
    library_version,
    read_coefficients,
)
from alignkit.decoders.jpeg_colour import interpolated, repeated, rgb

if TYPE_CHECKING:
    from alignkit.arrays import Image

_MODES = ("YCbCr", "Gray")


@dataclass(frozen=True, slots=True)
class NvjpegModelDecoder(Decoder):
    """nvJPEG's rule; each option has nvJPEG's form as its default, and libjpeg's."""

    surrogate_of: ClassVar[str] = "nvJPEG"

    upsampling: Literal["repeat", "interpolate"] = "repeat"
    """How subsampled chroma is brought to full size. As nvJPEG's flag
    ``UPSAMPLING_WITH_INTERPOLATION``, ``interpolate`` (libjpeg's triangle filter) is a
    hypothesis."""
    dct: Literal["float", "islow"] = "float"
    """The inverse cosine transform: float32, or libjpeg's accurate integer one."""
    colour: Literal["truncate", "round"] = "truncate"
    """How RGB levels become whole: cut off, or rounded as by libjpeg."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG."""
        if not encoded.startswith(START_OF_IMAGE):
            return Decoded("unsupported", reason="not a JPEG: it does not begin with FF D8")
        try:
            warning = _warning(encoded)
            image = self._pixels(read_coefficients(encoded))
        except UnreadableJpeg as error:
            return Decoded("unsupported" if error.unsupported else "failed", reason=str(error))
        return Decoded("corrupt" if warning else "ok", image, reason=warning)

    def version(self) -> str:
        """Return ``nvjpeg_model of alignkit, jpeglib 1.0.2, libjpeg-turbo 2.1.0``."""
        return f"nvjpeg_model of alignkit, {library_version()}"

    def _pixels(self, coefficients: Coefficients) -> Image:
        import cv2

        height, width = coefficients.height, coefficients.width
        inverse = float_samples if self.dct == "float" else islow_samples
        planes, factors = [], []
        for plane in coefficients.planes:
            size = -(-height // plane.down), -(-width // plane.across)
            planes.append(inverse(plane)[: size[0], : size[1]])
            factors.append((plane.across, plane.down))
        if len(planes) == 1:
            return cv2.cvtColor(planes[0], cv2.COLOR_GRAY2RGB)  # type: ignore[return-value]
        if self.upsampling == "interpolate" or factors[0] != (1, 1) or factors[1] != factors[2]:
            upsample = interpolated if self.upsampling == "interpolate" else repeated
            planes = [
                upsample(samples, *each)[:height, :width]
                for samples, each in zip(planes, factors, strict=True)
            ]
            factors[1] = (1, 1)
        luma, blue, red = planes
        return rgb(luma, blue, red, factors[1], truncated=self.colour == "truncate")


def _warning(encoded: bytes) -> str:
    """Return libjpeg-turbo's warning of a damaged file; empty if it has none.

    Raises `UnreadableJpeg` for a file that it cannot read, or of a mode without a rule.
    """
    import simplejpeg

    try:
        _, _, mode, _ = simplejpeg.decode_jpeg_header(encoded)
    except ValueError as error:
        raise _refusal(error) from None
    if mode not in _MODES:
        raise UnreadableJpeg(f"colour mode {mode}", unsupported=True)
    smallest = {"colorspace": "GRAY", "min_height": 1, "min_width": 1, "min_factor": 8}
    try:
        simplejpeg.decode_jpeg(encoded, **smallest)
    except ValueError as error:
        warning = str(error)
    else:
        return ""
    try:
        simplejpeg.decode_jpeg(encoded, **smallest, strict=False)
    except ValueError as error:
        raise _refusal(error) from None
    return warning


def _refusal(error: ValueError) -> UnreadableJpeg:
    reason = str(error)
    return UnreadableJpeg(reason, unsupported=reason.startswith("Unsupported"))
