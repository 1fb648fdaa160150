"""Sizes of image files as a viewer shows them, from their headers: turned by EXIF."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from alignkit.decoders.exif import exif_orientation
from alignkit.errors import DataError
from alignkit.limits import IMAGE_BYTES
from alignkit.preprocess.image_header import LOOKED_AT, declared_size, image_format
from alignkit.stored_file import open_regular, stamp_of


class ShownSize(NamedTuple):
    """Sides of the oriented image, in pixels, and the orientation that the file asks for."""

    width: int
    height: int
    orientation: int = 1
    """EXIF's, 1..8."""


def shown_size(path: Path) -> ShownSize | None:
    """Read the size of an image; ``None`` if its header does not tell, or it cannot be read."""
    try:
        return _shown_size(os.fspath(path), stamp_of(path.stat()))
    except OSError:  # the image's reader says why
        return None


@lru_cache(maxsize=1 << 17)
def _shown_size(path: str, stamp: tuple[int, int, int]) -> ShownSize | None:
    del stamp  # of the cache's key alone
    with open_regular(Path(path), IMAGE_BYTES) as file:
        encoded = file.read(LOOKED_AT)
        # other formats may keep the orientation behind the pixels
        if image_format(encoded) != "JPEG" or declared_size(encoded) is None:
            encoded += file.read()
    size = declared_size(encoded)
    if not size or not all(size):
        return None
    orientation = exif_orientation(encoded)
    height, width = size if orientation < 5 else size[::-1]
    return ShownSize(width, height, orientation)


def required_size(path: Path, reason: str) -> ShownSize:
    """Read the size of an image; raise `DataError` if it cannot be known, with ``reason``."""
    size = shown_size(path)
    if size is None:
        raise DataError(
            f"{path}: its header does not tell its size, and {reason}; save it as JPEG or PNG, or "
            "remove it"
        )
    return size
