"""The EXIF orientation of an encoded image, and what it asks for."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignkit.arrays import Image

ORIENTATION_TAG = 0x0112


def exif_orientation(encoded: bytes) -> int:
    """1..8 as in the EXIF standard; 1 where there is none, or it is out of range or unreadable."""
    if b"Exif" not in encoded[:65_536] and b"eXIf" not in encoded[:65_536]:
        return 1  # no such segment near the start: saves opening the file
    from PIL import Image as PillowImage

    try:
        with PillowImage.open(io.BytesIO(encoded)) as opened:
            value = opened.getexif().get(ORIENTATION_TAG, 1)
    except (OSError, ValueError, SyntaxError, KeyError, PillowImage.DecompressionBombError):
        return 1  # a file whose header cannot be read has no orientation to obey
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def turn(image: Image, orientation: int) -> Image:
    """Turn (h, w, 3) pixels so that orientation 1 results; C-contiguous."""
    import numpy as np

    if orientation in (5, 6, 7, 8):
        image = image.transpose(1, 0, 2)
    flip_rows = orientation in (3, 4, 7, 8)
    flip_columns = orientation in (2, 3, 6, 7)
    return np.ascontiguousarray(
        image[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1]
    )
