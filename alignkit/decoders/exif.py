"""Orientation of an encoded image, and the turn it asks for.

`exif_orientation` is what a file says in the EXIF block of a JPEG, PNG or WebP. Libraries read more
and less than that: Pillow also XMP and raw profiles, OpenCV no block that begins as in a JPEG. So a
decoder that follows ``orient: exif`` is asked for its own reading, by `turn_of`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from alignkit.decoders import START_OF_IMAGE

if TYPE_CHECKING:
    from alignkit.arrays import Image
    from alignkit.decoders import Decoder

ORIENTATION_TAG = 0x0112
SHORT, LONG = 3, 4
"""Types of a TIFF entry's value: 16 bits and 32 bits."""
EXIF_IDENTIFIER = b"Exif\0\0"
START_OF_SCAN, END_OF_IMAGE, APP1 = 0xDA, 0xD9, 0xE1
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers of a JPEG file without a segment."""


def exif_orientation(encoded: bytes) -> int:
    """Read the orientation, 1..8 as in the EXIF standard; 1 if absent, invalid or unreadable."""
    try:
        value = value_in_tiff(_exif_block(encoded), ORIENTATION_TAG)
    except struct.error:
        return 1  # the block is shorter than it declares
    return value if 1 <= value <= 8 else 1


def turn_of(decoder: Decoder, encoded: bytes) -> int:
    """Return the orientation, 1..8, by which a decoder's library turns a file."""
    # a decoder of a third party may be older than the method
    own = getattr(decoder, "orientation", exif_orientation)
    return int(own(encoded))


def measured_orientation(encoded: bytes, image: Callable[[bool], Image | None]) -> int:
    """Return the orientation by which a library turns a file; ``image`` decodes it, turned or not.

    Of a JPEG it is EXIF's; in which other files libraries see one, they alone know. Raise
    `ValueError` if none of the eight turns makes the one image of the other.
    """
    import numpy as np

    if encoded.startswith(START_OF_IMAGE):
        return exif_orientation(encoded)
    try:
        noted = value_in_tiff(encoded, ORIENTATION_TAG) > 1
    except struct.error:
        noted = False
    # most files hold none, and are not decoded again
    if not noted and not any(mark in encoded for mark in (b"Exif", b"EXIF", b"eXIf")):
        return 1
    still, turned = image(False), image(True)
    if still is None or turned is None:
        return 1
    for orientation in range(1, 9):
        if np.array_equal(turn(still, orientation), turned):
            return orientation
    raise ValueError("what the library makes of the orientation is none of EXIF's eight turns")


def unturn(image: Image, orientation: int) -> Image:
    """Undo `turn`: quarter turns undo each other, every other orientation undoes itself."""
    return turn(image, {6: 8, 8: 6}.get(orientation, orientation))


def turn(image: Image, orientation: int) -> Image:
    """Turn (h, w, 3) pixels so that orientation 1 results; C-contiguous."""
    import numpy as np

    transposed, flip_rows, flip_columns = turn_parts(orientation)
    if transposed:
        image = image.transpose(1, 0, 2)
    return np.ascontiguousarray(image[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1])


def turn_parts(orientation: int) -> tuple[bool, bool, bool]:
    """Return whether the turn to orientation 1 transposes, then flips rows, then flips columns."""
    # the standard's eight orientations: a transposition, then flips of either axis
    return orientation in (5, 6, 7, 8), orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)


def _exif_block(encoded: bytes) -> bytes:
    """Return the TIFF structure inside the file's EXIF block; empty if there is none."""
    if encoded.startswith(START_OF_IMAGE):
        blocks = (segment for marker, segment in jpeg_segments(encoded) if marker == APP1)
        exif = (block for block in blocks if block.startswith(EXIF_IDENTIFIER))
        return next(exif, b"").removeprefix(EXIF_IDENTIFIER)
    if encoded.startswith(b"\x89PNG\r\n\x1a\n"):
        return _exif_of_chunks(encoded, start=8, kind=b"eXIf", layout=">I4s", trailer=4)
    if encoded.startswith(b"RIFF") and encoded[8:12] == b"WEBP":
        return _exif_of_chunks(encoded, start=12, kind=b"EXIF", layout="<4sI", trailer=0)
    return b""


def jpeg_segments(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (marker, content) of each segment before the first scan; the last may be cut off.

    Segments are found as libjpeg finds them: bytes between them are skipped.
    """
    position = 2
    while (position := encoded.find(b"\xff", position)) >= 0 and position + 1 < len(encoded):
        marker = encoded[position + 1]
        position += 1
        if marker in (0x00, 0xFF) or marker in _ALONE:
            continue
        if marker in (START_OF_SCAN, END_OF_IMAGE):
            return
        length = int.from_bytes(encoded[position + 1 : position + 3])
        if length < 2:  # a length counts its own two bytes
            return
        yield marker, encoded[position + 3 : position + 1 + length]
        position += 1 + length


def _exif_of_chunks(encoded: bytes, *, start: int, kind: bytes, layout: str, trailer: int) -> bytes:
    """Find the EXIF chunk of a PNG or WebP file.

    A PNG chunk is length, kind, data, checksum; a WebP chunk is kind, length, data padded to an
    even length.
    """
    position = start
    while position + 8 <= len(encoded):
        first, second = struct.unpack_from(layout, encoded, position)
        name, length = (first, second) if isinstance(first, bytes) else (second, first)
        if name == kind:
            # some writers put JPEG's identifier in front here too
            return encoded[position + 8 : position + 8 + length].removeprefix(EXIF_IDENTIFIER)
        position += 8 + length + (trailer or length % 2)
    return b""


def value_in_tiff(tiff: bytes, wanted: int) -> int:
    """Read a tag's value in the first directory; 0 if it is absent."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return 0
    (directory,) = struct.unpack_from(order + "I", tiff, 4)
    (entries,) = struct.unpack_from(order + "H", tiff, directory)
    for index in range(entries):
        entry = directory + 2 + 12 * index
        tag, kind = struct.unpack_from(order + "HH", tiff, entry)
        # the standard says SHORT; a LONG is read too, as libraries do
        if tag == wanted and kind in (SHORT, LONG):
            width = "H" if kind == SHORT else "I"
            return int(struct.unpack_from(order + width, tiff, entry + 8)[0])
    return 0
