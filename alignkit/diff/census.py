"""Which kinds of files a set of images consists of: what decoders tell apart, image by image."""

from __future__ import annotations

from typing import Literal

from alignkit.diff.image_size import Size, image_format
from alignkit.diff.jpeg_header import JpegHeader
from alignkit.diff.jpeg_quality import Quality
from alignkit.exif import exif_orientation

Dimension = Literal[
    "subsampling", "format", "coding", "mode", "quality", "size", "orientation", "icc"
]
DIMENSIONS: tuple[Dimension, ...] = (
    "subsampling", "format", "coding", "mode", "quality", "size", "orientation", "icc",
)  # fmt: skip
UNKNOWN = "unknown"
"""The file ends, or is damaged, before it says."""
NO_JPEG = "not JPEG"
QUALITIES = (70, 80, 90, 95)
"""Lower ends of the classes of quality above the lowest."""
MEGAPIXELS = (0.1, 0.5, 2, 10)
"""Lower ends of the classes of size above the lowest."""


def kinds_of(encoded: bytes, header: JpegHeader | None, size: Size | None) -> dict[Dimension, str]:
    """Dimension → the kind of one image, given what its header says and the size it declares.

    >>> kinds_of(b"GIF89a", None, (2, 3))["size"]
    'below 0.1 MP'
    """
    kind = image_format(encoded)
    return {
        "format": kind,
        "size": _size_class(size) if size else UNKNOWN,
        "orientation": _orientation(header.orientation if header else exif_orientation(encoded)),
        **_jpeg_kinds(header, UNKNOWN if kind == "JPEG" else NO_JPEG),
    }


def _jpeg_kinds(header: JpegHeader | None, otherwise: str) -> dict[Dimension, str]:
    if header is None:
        return dict.fromkeys(("subsampling", "coding", "mode", "quality", "icc"), otherwise)
    return {
        "subsampling": header.subsampling,
        "coding": header.coding if header.precision == 8 else f"{header.coding}, not 8 bits",
        "mode": header.mode,
        "quality": _quality_class(header.quality),
        "icc": "with ICC profile" if header.icc else "without",
    }


def _quality_class(quality: Quality | None) -> str:
    if quality is None:
        return UNKNOWN
    first, *_, last = QUALITIES
    if quality.value < first:
        return f"below {first}"
    if quality.value >= last:
        return f"{last} to 100"
    low = max(each for each in QUALITIES if each <= quality.value)
    return f"{low} to {QUALITIES[QUALITIES.index(low) + 1] - 1}"


def _size_class(size: Size) -> str:
    megapixels = size[0] * size[1] / 1e6
    first, *_, last = MEGAPIXELS
    if megapixels < first:
        return f"below {first} MP"
    if megapixels >= last:
        return f"{last} MP and more"
    low = max(each for each in MEGAPIXELS if each <= megapixels)
    return f"{low} to {MEGAPIXELS[MEGAPIXELS.index(low) + 1]} MP"


def _orientation(value: int) -> str:
    return "upright" if value == 1 else f"EXIF {value}"
