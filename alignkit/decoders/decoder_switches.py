"""Switches of decoders: chroma upsampling, inverse DCT and rounding of colours.

OpenCV, Pillow, torchvision and torchpipe contain libjpeg-turbo and offer no switch, simplejpeg
contains it too and offers two, and nvjpeg-model has all three. So several decoders are a known
setting of another one, which `alignkit.attribute.attribute_decode` verifies image by image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from alignkit.decoders import Decoder
from alignkit.decoders.jpeg_colour import ColourRounding
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.outcome import Skipped

Switches: TypeAlias = SimpleJPEGDecoder | NvjpegModelDecoder
# names of classes, so that no plugin's module is imported
_LIBJPEG_TURBO = ("OpenCVDecoder", "PillowDecoder", "TorchvisionDecoder", "TorchpipeDecoder")


def as_libjpeg(decoder: Decoder) -> SimpleJPEGDecoder | None:
    """Return libjpeg-turbo's switches of a decoder; ``None`` if it does not contain it."""
    if isinstance(decoder, SimpleJPEGDecoder):
        return decoder
    return SimpleJPEGDecoder() if type(decoder).__name__ in _LIBJPEG_TURBO else None


def as_model(decoder: Decoder) -> NvjpegModelDecoder | None:
    """Return a decoder's switches as nvjpeg-model's, which has no fast DCT; ``None`` if unknown."""
    if isinstance(decoder, NvjpegModelDecoder):
        # as for the files that an engine takes; other files show in the pixels, which are compared
        own: ColourRounding = "round" if decoder.upsampling == "repeat" else decoder.colour
        engine = replace(decoder, dct="islow", colour=own, engine=False)
        return engine if decoder.engine else decoder
    switches = as_libjpeg(decoder)
    if switches is None or switches.dct == "ifast":
        return None
    return NvjpegModelDecoder(
        "repeat" if switches.chroma == "nearest" else "interpolate", dct="islow", colour="round"
    )


def switches_of(reference: Decoder, candidate: Decoder) -> tuple[Switches, Switches] | Skipped:
    """Return both decoders' switches, as options of one decoder.

    simplejpeg is preferred, because it is faster and has the fast DCT.
    """
    ways: tuple[Callable[[Decoder], Switches | None], ...] = as_libjpeg, as_model
    for way in ways:
        left, right = way(reference), way(candidate)
        if left is not None and right is not None:
            return left, right
    for decoder in (reference, candidate):
        if as_libjpeg(decoder) is None and as_model(decoder) is None:
            name = type(decoder).__name__
            return Skipped(
                f"{name} has no switches and is not known to be libjpeg-turbo or nvJPEG's rule"
            )
    return Skipped("nvjpeg-model has no fast DCT (dct: ifast), so that the two cannot be mixed")
