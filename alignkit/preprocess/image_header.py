"""Format and size in an image file's header, read before any decoder sees the file, and its limit.

They are read here and not by a library, so that no header can crash or mislead one. A file of some
kilobytes can declare gigapixels. Every command decodes through `decode`, so the limit holds in all
of them; each `Preprocess` has its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from alignkit.decoders import Decoded
from alignkit.decoders.exif import ORIENTATION_TAG, SHORT, value_in_tiff
from alignkit.preprocess.jpeg_header import jpeg_size

if TYPE_CHECKING:
    from alignkit.decoders import Decoder

MAX_PIXELS = 180_000_000
"""Twice the number at which Pillow warns, and about the number that it refuses."""

ImageFormat = Literal["JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF", "JPEG 2000", "HEIF", "other"]
ImageSize: TypeAlias = tuple[int, int]
"""(height, width) in pixels."""

BEGINNINGS: tuple[tuple[ImageFormat, int, bytes], ...] = (
    ("JPEG", 0, b"\xff\xd8"),
    ("PNG", 0, b"\x89PNG\r\n\x1a\n"),
    ("GIF", 0, b"GIF87a"),
    ("GIF", 0, b"GIF89a"),
    ("BMP", 0, b"BM"),
    ("WebP", 8, b"WEBP"),
    ("TIFF", 0, b"II*\0"),
    ("TIFF", 0, b"MM\0*"),
    ("JPEG 2000", 4, b"jP  "),
    ("HEIF", 4, b"ftyp"),
)
"""Format, offset of its mark, and the mark."""
TIFF_WIDTH, TIFF_HEIGHT = 256, 257
LOOKED_AT = 1 << 16  # headers come first; a whole file of megabytes would take too long
"""Bytes searched for the boxes of a format that nests them."""


def decode(decoder: Decoder, encoded: bytes, max_pixels: int = MAX_PIXELS) -> Decoded:
    """Decode one image; ``failed`` if its header declares more than ``max_pixels``.

    A size that cannot be read from the header is left to the decoder.
    """
    height, width = declared_size(encoded) or (0, 0)
    if height * width > max_pixels:
        reason = (
            f"too large: {width}x{height} by its header, {height * width / 1e6:,.0f} MP; "
            f"the limit is {max_pixels / 1e6:g} MP"
        )
        return Decoded("failed", reason=reason)
    return decoder.decode(encoded)


def image_format(encoded: bytes) -> ImageFormat:
    """Tell the format by the file's first bytes, as decoders do; the file name does not count.

    >>> image_format(b"GIF89a")
    'GIF'
    """
    for kind, start, mark in BEGINNINGS:
        if encoded.startswith(mark, start):
            return kind
    return "other"


def is_deep_grey(encoded: bytes) -> bool:
    """Tell whether the header of a PNG, PNM or TIFF says grey of 16 bits.

    >>> is_deep_grey(b"P5 640 480 65535 ")
    True
    """
    if image_format(encoded) == "PNG":
        return encoded[24:26] == b"\x10\0"  # bits, and the colour type of grey
    if grey := re.match(rb"P[25]\s+(?:#.*\s+)*\d+\s+\d+\s+(\d+)", encoded[:LOOKED_AT]):
        return int(grey[1]) > 255
    try:
        bits, samples = (value_in_tiff(encoded, tag) for tag in (258, 277))
    except struct.error:
        return False
    return bits == 16 and samples <= 1


def declared_size(encoded: bytes) -> ImageSize | None:
    """Read the size in the header; ``None`` if the format is unknown or the header is cut off.

    If a file holds several images, the largest counts. Wrong headers are caught by the limit on
    memory.
    """
    reader = READERS.get(image_format(encoded))
    try:
        return reader(encoded) if reader else None
    except (struct.error, IndexError):  # the file ends inside its header
        return None


def _fixed(layout: str, start: int) -> Callable[[bytes], ImageSize]:
    """Make a reader for a header in which width and height lie side by side."""

    def read(encoded: bytes) -> ImageSize:
        width, height = struct.unpack_from(layout, encoded, start)
        return abs(height), abs(width)  # BMP: a negative height means that the top row comes first

    return read


def _bmp(encoded: bytes) -> ImageSize:
    """Read the header that follows the file's: of OS/2 1.x, of 12 bytes, the sides have 16 bits."""
    (length,) = struct.unpack_from("<I", encoded, 14)
    return _fixed("<HH" if length == 12 else "<ii", 18)(encoded)


def _webp(encoded: bytes) -> ImageSize | None:
    """Read the header of the three kinds: lossy, lossless, extended (RFC 9649)."""
    kind = encoded[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", encoded, 26)
        # the upper two bits are a scale
        return height & 0x3FFF, width & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", encoded, 21)
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    if kind == b"VP8X":
        low, high, low_down, high_down = struct.unpack_from("<HBHB", encoded, 24)
        return (high_down << 16 | low_down) + 1, (high << 16 | low) + 1
    return None


def _tiff(encoded: bytes) -> ImageSize | None:
    """Return the largest image of the directories chained from the first."""
    order = "<" if encoded.startswith(b"II") else ">"
    sizes = []
    (directory,) = struct.unpack_from(order + "I", encoded, 4)
    seen: set[int] = set()
    # a damaged chain may lead back to itself
    while directory and directory not in seen:
        seen.add(directory)
        (entries,) = struct.unpack_from(order + "H", encoded, directory)
        sides: dict[int, int] = {}
        for entry in range(directory + 2, directory + 2 + 12 * entries, 12):
            tag, kind = struct.unpack_from(order + "HH", encoded, entry)
            if tag in (TIFF_WIDTH, TIFF_HEIGHT, ORIENTATION_TAG):
                width = "H" if kind == SHORT else "I"
                (sides[tag],) = struct.unpack_from(order + width, encoded, entry + 8)
        if sides.keys() >= {TIFF_WIDTH, TIFF_HEIGHT}:
            size = sides[TIFF_HEIGHT], sides[TIFF_WIDTH]
            # OpenCV and Pillow turn it as they read it
            sizes.append(size[::-1] if sides.get(ORIENTATION_TAG, 1) >= 5 else size)
        (directory,) = struct.unpack_from(order + "I", encoded, directory + 2 + 12 * entries)
    return _largest(sizes)


def _boxed(mark: bytes, skipped: int, *, height_first: bool) -> Callable[[bytes], ImageSize | None]:
    """Make a reader for nested boxes: two 32-bit numbers lie some bytes after the box's name."""

    def read(encoded: bytes) -> ImageSize | None:
        sizes = []
        position = encoded.find(mark, 0, LOOKED_AT)
        while position >= 0:
            first, second = struct.unpack_from(">II", encoded, position + len(mark) + skipped)
            sizes.append((first, second) if height_first else (second, first))
            position = encoded.find(mark, position + 1, LOOKED_AT)
        return _largest(sizes)

    return read


def _largest(sizes: list[ImageSize]) -> ImageSize | None:
    return max(sizes, key=lambda size: size[0] * size[1], default=None)


READERS: dict[ImageFormat, Callable[[bytes], ImageSize | None]] = {
    "JPEG": jpeg_size,
    "PNG": _fixed(">II", 16),
    "GIF": _fixed("<HH", 6),
    "BMP": _bmp,
    "WebP": _webp,
    "TIFF": _tiff,
    "JPEG 2000": _boxed(b"ihdr", 0, height_first=True),
    "HEIF": _boxed(b"ispe", 4, height_first=False),
}
