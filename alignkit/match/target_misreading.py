"""Decoders that read YCbCr by a wrong matrix, as some stacks do, and so shift every colour.

JPEG files hold YCbCr after BT.601 in full range (ITU-T T.871, 7). A video path that takes them for
BT.709 (ITU-R BT.709-6, 3) gives greens and reds that are off by up to some twenty levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.decoders import Decoded, Decoder

BT601 = (0.299, 0.587, 0.114)
"""Weights of R, G and B in luma; the rest of a matrix follows from them."""
BT709 = (0.2126, 0.7152, 0.0722)


@dataclass(frozen=True, slots=True)
class Misreading:
    """YCbCr written by one matrix and read by another."""

    name: str
    written: tuple[float, float, float]
    read: tuple[float, float, float]


MISREADINGS = (
    Misreading("BT.709 in place of the BT.601 that JPEG files are written with", BT601, BT709),
    Misreading("BT.601 for colours that were written by BT.709", BT709, BT601),
)


@dataclass(frozen=True, slots=True)
class MisreadingDecoder:
    """A decoder whose colours are converted by a wrong matrix; no experiment file can name it."""

    orients: ClassVar[bool] = False
    decoder: Decoder
    misreading: Misreading

    def decode(self, encoded: bytes) -> Decoded:
        """Decode with the inner decoder, then misread the colours."""
        decoded = self.decoder.decode(encoded)
        if decoded.image is None:
            return decoded
        # a writer's matrix after the inverse of a reader's: (3, 3), for columns of R, G, B
        written, read = self.misreading.written, self.misreading.read
        matrix = (np.linalg.inv(_to_ycbcr(read)) @ _to_ycbcr(written)).astype(np.float32)
        colours = np.rint(decoded.image.astype(np.float32) @ matrix.T)
        return Decoded(decoded.outcome, np.clip(colours, 0, 255).astype(np.uint8), decoded.reason)

    def version(self) -> str:
        """Return the inner decoder's version."""
        return self.decoder.version()


def misread(decoder: Any, misreading: Misreading | None) -> Any:
    """Add a misreading to the decoder; without one return the decoder itself."""
    return MisreadingDecoder(decoder, misreading) if misreading else decoder


def _to_ycbcr(weights: tuple[float, float, float]) -> FloatArray:
    """Compute the (3, 3) matrix RGB → YCbCr in full range, with chroma centred at 0."""
    red, _, blue = weights
    luma = np.asarray(weights)
    chroma_blue = (np.array([0, 0, 1]) - luma) / (2 * (1 - blue))
    chroma_red = (np.array([1, 0, 0]) - luma) / (2 * (1 - red))
    return np.stack([luma, chroma_blue, chroma_red])
