"""Conversions of colours that a serving stack may make and that no stage here makes.

JPEG files hold YCbCr after BT.601 in full range (ITU-T T.871, 7). A video path that takes them for
BT.709 (ITU-R BT.709-6, 3), or for the limited range 16..235 of video, shifts every colour. Other
stacks feed a grey image three times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from alignkit.arrays import FloatArray, Image
from alignkit.decoders import Decoded, Decoder
from alignkit.decoders.exif import turn_of

PerChannel: TypeAlias = tuple[float, float, float]
BT601 = (0.299, 0.587, 0.114)
"""Weights of R, G and B in luma; the rest of a matrix follows from them."""
BT709 = (0.2126, 0.7152, 0.0722)


@dataclass(frozen=True, slots=True)
class Recolouring:
    """An affine map of the decoded colours, clipped to whole levels."""

    name: str
    matrix: tuple[PerChannel, PerChannel, PerChannel]
    """Row of each result channel, for columns of R, G, B."""
    offset: PerChannel = (0.0, 0.0, 0.0)
    """In grey levels."""

    def __call__(self, image: Image) -> Image:
        """Convert (h, w, 3) ``uint8`` in R, G, B to whole levels, as every decoder gives them."""
        matrix, offset = np.asarray(self.matrix, np.float32), np.asarray(self.offset, np.float32)
        colours = np.rint(image.astype(np.float32) @ matrix.T + offset)
        whole: Image = np.clip(colours, 0, 255).astype(np.uint8)
        return whole


def _misread(
    name: str, written: PerChannel, read: PerChannel, *, limited: bool = False
) -> Recolouring:
    """Return the effect of full-range YCbCr written by one matrix and read by another.

    ``limited`` reads luma as 16..235 and chroma as 16..240, and stretches them to 0..255.
    """
    luma, chroma = (255 / 219, 255 / 224) if limited else (1.0, 1.0)
    matrix = np.linalg.inv(_to_ycbcr(read)) @ np.diag([luma, chroma, chroma]) @ _to_ycbcr(written)
    red, green, blue = ((float(row[0]), float(row[1]), float(row[2])) for row in matrix)
    # chroma is 0 on average, so that only luma has an offset, and each of R, G, B is luma + chroma
    black = -16 * luma if limited else 0.0
    return Recolouring(name, (red, green, blue), (black, black, black))


def _grey(name: str, weights: PerChannel) -> Recolouring:
    return Recolouring(f"grey in all three channels, by {name}", (weights, weights, weights))


def _to_ycbcr(weights: PerChannel) -> FloatArray:
    """Compute the (3, 3) matrix RGB → YCbCr in full range, with chroma centred at 0."""
    red, _, blue = weights
    luma = np.asarray(weights)
    chroma_blue = (np.array([0, 0, 1]) - luma) / (2 * (1 - blue))
    chroma_red = (np.array([1, 0, 0]) - luma) / (2 * (1 - red))
    return np.stack([luma, chroma_blue, chroma_red])


MISREADINGS = (
    _misread("BT.709 in place of the BT.601 that JPEG files are written with", BT601, BT709),
    _misread("BT.601 for colours that were written by BT.709", BT709, BT601),
    _misread("full range read as limited, by BT.601", BT601, BT601, limited=True),
    _misread("full range read as limited, by BT.709", BT601, BT709, limited=True),
)
GREYS = (
    _grey("the weights of BT.601, 0.299/0.587/0.114", BT601),
    _grey("the weights of BT.601 on swapped channels, 0.114/0.587/0.299", BT601[::-1]),
    _grey("the weights of BT.709, 0.2126/0.7152/0.0722", BT709),
    _grey("the mean of R, G and B", (1 / 3, 1 / 3, 1 / 3)),
)


@dataclass(frozen=True, slots=True)
class RecolouringDecoder:
    """A decoder whose colours are then converted; no experiment file can name it."""

    decoder: Decoder
    recolouring: Recolouring

    @property
    def orients(self) -> bool:
        """Whether the inner decoder turns the image by its EXIF orientation."""
        return self.decoder.orients

    def decode(self, encoded: bytes) -> Decoded:
        """Decode with the inner decoder, then convert the colours."""
        decoded = self.decoder.decode(encoded)
        if decoded.image is None:
            return decoded
        return replace(decoded, image=self.recolouring(decoded.image))

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation by which the inner decoder's library turns the image."""
        return turn_of(self.decoder, encoded)

    def version(self) -> str:
        """Return the inner decoder's version."""
        return self.decoder.version()


def recoloured(decoder: Any, recolouring: Recolouring | None) -> Any:
    """Add a recolouring to the decoder; without one return the decoder itself."""
    return RecolouringDecoder(decoder, recolouring) if recolouring else decoder
