"""nvJPEG's arithmetic on a CPU: the rule that gives the stored output of its CUDA path.

Inverse DCT in float32, rounded half to even to 8-bit planes (`alignkit.decoders.inverse_dct`);
chroma samples repeated; colour by JFIF's formula, truncated (`alignkit.decoders.jpeg_colour`).
Baseline files of 4:2:0 and 4:4:4 are *verified against stored nvJPEG output (CUDA 10.1, ~12, 12.8;
CUDA-core path)*: ``preprocess/calibration/nvjpeg-model.json`` has the figures. Every other kind is
decoded by the same rule, with no output to check it against, and the JPEG engine of some GPUs may
round otherwise. With ``interpolate, islow, round`` the pixels are libjpeg-turbo's, bit for bit.

- JPEG only; anything that does not begin as one is ``unsupported``, so that 16 bits and alpha do
  not arise. EXIF: ignored; the image is not turned. ICC profile: ignored.
- grey: three equal channels; CMYK, YCCK, RGB without a luma plane, arithmetic, lossless and
  hierarchical coding, 12 bits, and sampling factors that are no whole ratio: ``unsupported``.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- ``corrupt``: every file libjpeg-turbo warns of, truncated files among them; the missing part is
  grey. jpeglib prints libjpeg's warnings and hides them from its caller, so simplejpeg's
  libjpeg-turbo reads each file first, at an eighth of its size. Only of a chroma subsampling that
  simplejpeg does not know (4:1:0, and components of three sizes) damage stays unknown, except a
  missing end. Of nvJPEG it is not known which damaged files it decodes, and how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from alignkit.decoders import START_OF_IMAGE, Decoded, Decoder
from alignkit.decoders.inverse_dct import (
    planes_of,
    samples_as_libjpeg,
    samples_in_float,
)
from alignkit.decoders.jpeg_coefficients import (
    Coefficients,
    UnreadableJpeg,
    library_version,
    read_coefficients,
    with_one_sampling,
)
from alignkit.decoders.jpeg_colour import interpolated, repeated, rgb

if TYPE_CHECKING:
    from alignkit.arrays import Image

_MODES = ("YCbCr", "Gray")
_END_OF_IMAGE = b"\xff\xd9"


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
        warning = ""
        try:
            _check_mode(encoded)
            warning = _warning(encoded)
            image = self._pixels(read_coefficients(encoded))
        except UnreadableJpeg as error:
            if error.unsupported:
                return Decoded("unsupported", reason=str(error))
            return Decoded("failed", reason=f"{error}: {warning}" if warning else str(error))
        return Decoded("corrupt" if warning else "ok", image, reason=warning)

    def version(self) -> str:
        """Return ``nvjpeg_model of alignkit, jpeglib 1.0.2, libjpeg-turbo 2.1.0``."""
        return f"nvjpeg_model of alignkit, {library_version()}"

    def _pixels(self, coefficients: Coefficients) -> Image:
        import cv2

        height, width = coefficients.height, coefficients.width
        transform = samples_in_float if self.dct == "float" else samples_as_libjpeg
        planes = [
            samples[: -(-height // plane.down), : -(-width // plane.across)]
            for plane, samples in zip(
                coefficients.planes, planes_of(coefficients, transform), strict=True
            )
        ]
        factors = [(plane.across, plane.down) for plane in coefficients.planes]
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


def _check_mode(encoded: bytes) -> None:
    """Raise `UnreadableJpeg` for a file of another mode than grey or YCbCr, or a broken header."""
    import simplejpeg

    try:
        try:
            mode = simplejpeg.decode_jpeg_header(encoded)[2]
        except (ValueError, KeyError) as error:
            if not _has_no_name(error):
                raise
            mode = simplejpeg.decode_jpeg_header(with_one_sampling(encoded))[2]
    except ValueError as error:
        raise _refusal(error) from None
    if mode not in _MODES:
        raise UnreadableJpeg(f"colour mode {mode}", unsupported=True)


def _has_no_name(error: Exception) -> bool:
    """Tell whether simplejpeg stopped at a chroma subsampling that it does not know."""
    return isinstance(error, KeyError) or "subsampling" in str(error)


def _warning(encoded: bytes) -> str:
    """Return libjpeg-turbo's warning of a damaged file; empty if it has none.

    Raises `UnreadableJpeg` for a file that it cannot read.
    """
    import simplejpeg

    smallest = {"colorspace": "GRAY", "min_height": 1, "min_width": 1, "min_factor": 8}
    try:
        simplejpeg.decode_jpeg(encoded, **smallest)
    except ValueError as error:
        warning = str(error)
        if _has_no_name(error):
            return "" if _END_OF_IMAGE in encoded else "no end of image"
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
