"""Decoding with a limit: a file whose header declares too many pixels is not decoded.

A file of some kilobytes can declare gigapixels. Every command decodes through here, so the limit
holds in all of them; each `Preprocess` has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.decoders import Decoded
from alignkit.preprocess.image_size import declared_size

if TYPE_CHECKING:
    from alignkit.decoders import Decoder

MAX_PIXELS = 180_000_000
"""Twice the number at which Pillow warns, and about the number that it refuses."""


def decode(decoder: Decoder, encoded: bytes, max_pixels: int = MAX_PIXELS) -> Decoded:
    """Decode one image; ``failed`` if its header declares more than ``max_pixels``.

    A size that cannot be read from the header is left to the decoder.
    """
    size = declared_size(encoded)
    if size is not None and size[0] * size[1] > max_pixels:
        return Decoded("failed", reason=_too_large(*size, max_pixels))
    return decoder.decode(encoded)


def _too_large(height: int, width: int, max_pixels: int) -> str:
    return (
        f"too large: {width}x{height} by its header, {height * width / 1e6:,.0f} MP; "
        f"the limit is {max_pixels / 1e6:g} MP"
    )
