"""Header of a JPEG file: the segments before the coded image (ITU-T T.81, B).

It is read here and not by a library, so that a file no library opens is described too, and no
header can crash anything.

The quality is that of the Independent JPEG Group's encoder, estimated from a quantisation table.
libjpeg, libjpeg-turbo, OpenCV, Pillow and most others scale the example tables of ITU-T T.81,
Annex K, by a quality of 1 to 100. Cameras and Adobe's programs have tables of their own: for those
the result is the nearest of the hundred, marked as not exact.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from alignkit.decoders import START_OF_IMAGE
from alignkit.decoders.exif import exif_orientation, jpeg_segments
from alignkit.decoders.jpeg_coefficients import CODINGS, Coding

ColourMode = Literal["grey", "YCbCr", "RGB", "CMYK", "YCCK", "other"]

QUANTISATION, APP0, APP2, APP14 = 0xDB, 0xE0, 0xE2, 0xEE
SUBSAMPLING_NAMES = {
    (1, 1): "4:4:4",
    (2, 1): "4:2:2",
    (2, 2): "4:2:0",
    (1, 2): "4:4:0",
    (4, 1): "4:1:1",
    (4, 2): "4:1:0",
    (1, 4): "4:4:1",
}
"""Luminance samples for each chrominance sample, across and down → the usual name."""
QuantisationTable: TypeAlias = tuple[int, ...]
"""64 steps in the zigzag order of the file."""

LUMINANCE: QuantisationTable = (
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40,
    26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60, 57, 51,
    56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87,
    95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
)  # fmt: skip
"""T.81, table K.1."""
_QUALITIES = range(1, 101)


@dataclass(frozen=True, slots=True)
class Quality:
    """A quality setting, 1 to 100."""

    value: int
    exact: bool
    """Whether the table is that setting's own; otherwise the nearest one."""


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """Properties of a JPEG file other than its pixels."""

    height: int
    """In pixels; 0 if the file states it only after its first scan."""
    width: int
    precision: int
    """Bits a sample."""
    coding: Coding
    mode: ColourMode
    """Meaning of the components, as libjpeg decides it."""
    subsampling: str
    """``4:2:0`` and the like; ``grey``; ``other`` if luminance is not the finest component."""
    quality: Quality | None
    """Estimated from the first component's table; ``None`` if there is none."""
    orientation: int
    """EXIF orientation, 1 to 8."""
    icc: bool
    """Whether an ICC profile is embedded."""


@dataclass(frozen=True, slots=True)
class _Component:
    id: int
    across: int
    down: int
    table: int


def read_jpeg_header(encoded: bytes) -> JpegHeader | None:
    """Describe a JPEG file; ``None`` if it is no JPEG, or ends or is damaged before its frame.

    >>> read_jpeg_header(b"GIF89a") is None
    True
    """
    if not encoded.startswith(START_OF_IMAGE):
        return None
    frame: tuple[int, bytes] | None = None
    tables: dict[int, tuple[int, ...]] = {}
    adobe: int | None = None
    jfif = icc = False
    for marker, segment in jpeg_segments(encoded):
        if marker in CODINGS and frame is None:  # a hierarchical file has several
            frame = marker, segment
        elif marker == QUANTISATION:
            tables |= _quantisation_tables(segment)
        elif marker == APP0:
            jfif |= segment.startswith(b"JFIF\0")
        elif marker == APP2:
            icc |= segment.startswith(b"ICC_PROFILE\0")
        elif marker == APP14 and segment.startswith(b"Adobe") and len(segment) >= 12:
            adobe = segment[11]  # the colour transform, its last byte
    if frame is None or (components := _components(frame[1])) is None:
        return None
    precision, height, width = struct.unpack_from(">BHH", frame[1])
    table = tables.get(components[0].table)
    return JpegHeader(
        height=height,
        width=width,
        precision=precision,
        coding=CODINGS[frame[0]],
        mode=_mode(components, adobe=adobe, jfif=jfif),
        subsampling=_subsampling(components),
        quality=quality_of(table) if table else None,
        orientation=exif_orientation(encoded),
        icc=icc,
    )


def jpeg_size(encoded: bytes) -> tuple[int, int] | None:
    """Read (height, width) from the frame header, even if the rest of the file is damaged."""
    if encoded.startswith(START_OF_IMAGE):
        for marker, segment in jpeg_segments(encoded):
            if marker in CODINGS and len(segment) >= 5:
                height, width = struct.unpack_from(">HH", segment, 1)
                return height, width
    return None


def _quantisation_tables(segment: bytes) -> dict[int, tuple[int, ...]]:
    """Read the complete tables, by number; each step has 8 or 16 bits."""
    tables = {}
    position = 0
    while position < len(segment):
        # upper half: 16 bits a step or 8; lower half: the table's number
        wide, number = divmod(segment[position], 16)
        layout = ">64H" if wide else ">64B"
        if position + 1 + struct.calcsize(layout) > len(segment):
            break
        tables[number] = struct.unpack_from(layout, segment, position + 1)
        position += 1 + struct.calcsize(layout)
    return tables


def _components(segment: bytes) -> list[_Component] | None:
    """Read the components of a frame header; ``None`` if it is cut off or has a factor of 0."""
    if len(segment) < 6 or len(segment) < 6 + 3 * segment[5] or not segment[5]:
        return None
    listed = [segment[start : start + 3] for start in range(6, 6 + 3 * segment[5], 3)]
    components = [_Component(id_, *divmod(factors, 16), table) for id_, factors, table in listed]
    return components if all(each.across and each.down for each in components) else None


def _mode(components: list[_Component], *, adobe: int | None, jfif: bool) -> ColourMode:
    """Decide the colour mode as libjpeg does (``default_decompress_parms`` of jdapimin.c)."""
    count = len(components)
    if count == 1:
        return "grey"
    if count == 3:
        if not jfif and adobe is None:
            # without a marker libjpeg goes by the components' names
            return "RGB" if bytes(each.id for each in components) == b"RGB" else "YCbCr"
        return "RGB" if not jfif and adobe == 0 else "YCbCr"
    if count == 4:
        # Adobe's transform: 2 is YCCK, 0 none
        return "YCCK" if adobe == 2 else "CMYK"
    return "other"


def _subsampling(components: list[_Component]) -> str:
    if len(components) == 1:
        return "grey"
    if len(components) not in (3, 4):
        return "other"
    first, second, third, *black = components
    if (second.across, second.down) != (third.across, third.down):
        return "other"
    if any((each.across, each.down) != (first.across, first.down) for each in black):
        return "other"
    if first.across % second.across or first.down % second.down:
        return "other"
    ratio = first.across // second.across, first.down // second.down
    return SUBSAMPLING_NAMES.get(ratio, "other")


@lru_cache(maxsize=256)  # the images of a set share few tables
def quality_of(luminance: QuantisationTable) -> Quality:
    """Estimate the setting of a luminance table; the highest if several have that table."""
    known = _scaled_tables()

    def distance(table: QuantisationTable) -> int:
        return sum(abs(a - b) for a, b in zip(luminance, table, strict=True))

    nearest = min(known, key=distance)
    return Quality(known[nearest], exact=nearest == luminance)


def scaled(quality: int) -> QuantisationTable:
    """Compute the luminance table of a setting, as libjpeg's ``jpeg_set_quality``, baseline.

    >>> scaled(50) == LUMINANCE
    True
    """
    # steps are limited to 255, as baseline tables have 8 bits
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return tuple(min(max((step * percent + 50) // 100, 1), 255) for step in LUMINANCE)


@cache
def _scaled_tables() -> dict[QuantisationTable, int]:
    return {scaled(quality): quality for quality in _QUALITIES}
