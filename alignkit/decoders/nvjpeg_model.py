"""nvJPEG's arithmetic on a CPU: the rules that give the stored output of its releases, bit for bit.

| rule | options | where |
|---|---|---|
| nvJPEG 13, CUDA cores | ``dct: float-up, colour: even`` | 13.0.1 and 13.3.2 on an H100 |
| nvJPEG 13, JPEG engine | the same and ``engine: true`` | the same, files that it takes |
| nvJPEG up to 12.8, cores | the defaults | CUDA 10.1, ~12 and 12.8, on other GPUs |
| libjpeg-turbo | ``dct: islow, colour: round`` | with ``upsampling: interpolate`` its default |

``preprocess/calibration/nvjpeg-model.json`` has the figures: which kinds of files, how many samples
differ. ``upsampling: interpolate`` is nvJPEG 13's flag ``UPSAMPLING_WITH_INTERPOLATION``, libjpeg's
triangle filter; of older releases it is a hypothesis. Not compared: chroma planes of two columns
with that flag, and engines of other GPUs.

- JPEG only; anything that does not begin as one is ``unsupported``, so that 16 bits and alpha do
  not arise. EXIF: ignored; the image is not turned. ICC profile: ignored.
- grey: three equal channels; CMYK, YCCK, RGB without a luma plane, arithmetic, lossless and
  hierarchical coding, 12 bits, and sampling factors that are no whole ratio: ``unsupported``.
  nvJPEG itself reads RGB as YCbCr, and quantisers of 16 bits wrongly.
- progressive JPEG: without ``engine`` the same pixels as a baseline file of the same coefficients.
- ``corrupt``: every file libjpeg-turbo warns of, truncated files among them; the missing part is
  grey. jpeglib prints libjpeg's warnings and hides them from its caller, so simplejpeg's
  libjpeg-turbo reads each file first, at an eighth of its size. Only of a chroma subsampling that
  simplejpeg does not know (4:1:0, and components of three sizes) damage stays unknown, except a
  missing end. nvJPEG decodes many damaged files without a word, and fills them in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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
from alignkit.decoders.jpeg_colour import ColourRounding, interpolated, repeated, rgb
from alignkit.plugins import option_added_later

if TYPE_CHECKING:
    from alignkit.arrays import Image

_MODES = ("YCbCr", "Gray")
_END_OF_IMAGE = b"\xff\xd9"
_ENGINE_FACTORS = {(1, 1), (2, 1), (2, 2), (1, 2)}
"""Luma samples for each chroma sample, (across, down), of the files that an H100's engine takes."""


@dataclass(frozen=True, slots=True)
class NvjpegModelDecoder(Decoder):
    """nvJPEG's rule; each option has nvJPEG's form as its default, and libjpeg's."""

    surrogate_of: ClassVar[str] = "nvJPEG"

    upsampling: Literal["repeat", "interpolate"] = "repeat"
    """How subsampled chroma is brought to full size: repeated, or by libjpeg's triangle filter."""
    dct: Literal["float", "float-up", "islow"] = "float"
    """The inverse cosine transform: float32 with halves to even (nvJPEG up to 12.8) or up (13), or
    libjpeg's accurate integer one."""
    colour: Literal["truncate", "round", "even"] = "truncate"
    """How RGB levels become whole: cut off (nvJPEG up to 12.8), rounded as by libjpeg, or rounded
    with halves to even (13)."""
    engine: bool = option_added_later(default=False)
    """Whether a JPEG engine decodes the files that it takes (baseline; grey, 4:4:4, 4:2:2, 4:2:0,
    4:4:0) by libjpeg's transform and, unless chroma is interpolated, libjpeg's colours; ``dct``
    and ``colour`` are those of the other files."""

    @classmethod
    def rules(cls) -> tuple[NvjpegModelDecoder, ...]:
        """List the rules that some decoder follows; attribution alone mixes their options."""
        forms: tuple[tuple[Any, Any, bool], ...] = (
            ("float", "truncate", False), ("float-up", "even", False), ("float-up", "even", True),
            ("islow", "round", False),
        )  # fmt: skip
        ways: tuple[Literal["repeat", "interpolate"], ...] = ("repeat", "interpolate")
        return tuple(cls(each, *form) for form in forms for each in ways)

    @property
    def rule(self) -> str:
        """Name the options: ``repeat, float-up, even, engine``."""
        options = (self.upsampling, self.dct, self.colour)
        return ", ".join((*options, "engine") if self.engine else options)

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
        dct, colour = self._for(coefficients)
        halves: Literal["up", "even"] = "up" if dct == "float-up" else "even"
        in_float = partial(samples_in_float, halves=halves)
        transform = samples_as_libjpeg if dct == "islow" else in_float
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
            # libjpeg alone repeats chroma of one or two columns, (dct, colour) are its own then
            as_libjpeg = (self.dct, self.colour) == ("islow", "round")
            smooth = partial(interpolated, narrow=not as_libjpeg)
            upsample = smooth if self.upsampling == "interpolate" else repeated
            planes = [
                upsample(samples, *each)[:height, :width]
                for samples, each in zip(planes, factors, strict=True)
            ]
            factors[1] = (1, 1)
        luma, blue, red = planes
        return rgb(luma, blue, red, factors[1], colour)

    def _for(self, coefficients: Coefficients) -> tuple[str, ColourRounding]:
        """Return the transform and the rounding of colours for a file of this kind."""
        luma, *chroma = ((each.across, each.down) for each in coefficients.planes)
        taken = luma == (1, 1) and chroma[:1] == chroma[1:] and set(chroma) <= _ENGINE_FACTORS
        if not (self.engine and taken and coefficients.coding in ("baseline", "extended")):
            return self.dct, self.colour
        # interpolation, where there is any, and the colours after it are the cores' work
        smooth = self.upsampling == "interpolate" and chroma[:1] not in ([], [(1, 1)])
        return "islow", self.colour if smooth else "round"


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
