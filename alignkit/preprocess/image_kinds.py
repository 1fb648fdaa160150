"""Kinds of image files that decoders treat differently: subsampling, format, coding and so on."""

from __future__ import annotations

from typing import NamedTuple

from alignkit.preprocess.exif import exif_orientation
from alignkit.preprocess.image_size import ImageSize, image_format
from alignkit.preprocess.jpeg_header import JpegHeader
from alignkit.preprocess.jpeg_quality import Quality


class ImageKinds(NamedTuple):
    """Kinds of one image, one in each dimension; a tuple, as thousands are sent to processes."""

    subsampling: str
    format: str
    coding: str
    mode: str
    quality: str
    size: str
    orientation: str
    icc: str


DIMENSIONS = ImageKinds._fields
_UNKNOWN = "unknown"
"""Kind of a file that ends, or is damaged, before the place of the answer."""
_NO_JPEG = "not JPEG"
_QUALITIES = (70, 80, 90, 95)
"""Lower ends of the quality classes above the lowest."""
_MEGAPIXELS = (0.1, 0.5, 2, 10)
"""Lower ends of the size classes above the lowest."""


def kinds_of(encoded: bytes, header: JpegHeader | None, size: ImageSize | None) -> ImageKinds:
    """Classify one image by its bytes, its JPEG header and the size it declares.

    >>> kinds_of(b"GIF89a", None, (2, 3)).size
    'below 0.1 MP'
    """
    kind = image_format(encoded)
    size_class = _size_class(size) if size else _UNKNOWN
    if header is None:
        none = _UNKNOWN if kind == "JPEG" else _NO_JPEG
        turned = _orientation(exif_orientation(encoded))
        return ImageKinds(none, kind, none, none, none, size_class, turned, none)
    return ImageKinds(
        subsampling=header.subsampling,
        format=kind,
        coding=header.coding if header.precision == 8 else f"{header.coding}, not 8 bits",
        mode=header.mode,
        quality=_quality_class(header.quality),
        size=size_class,
        orientation=_orientation(header.orientation),
        icc="with ICC profile" if header.icc else "without",
    )


def _quality_class(quality: Quality | None) -> str:
    if quality is None:
        return _UNKNOWN
    first, *_, last = _QUALITIES
    if quality.value < first:
        return f"below {first}"
    if quality.value >= last:
        return f"{last} to 100"
    low = max(each for each in _QUALITIES if each <= quality.value)
    return f"{low} to {_QUALITIES[_QUALITIES.index(low) + 1] - 1}"


def _size_class(size: ImageSize) -> str:
    megapixels = size[0] * size[1] / 1e6
    first, *_, last = _MEGAPIXELS
    if megapixels < first:
        return f"below {first} MP"
    if megapixels >= last:
        return f"{last} MP and more"
    low = max(each for each in _MEGAPIXELS if each <= megapixels)
    return f"{low} to {_MEGAPIXELS[_MEGAPIXELS.index(low) + 1]} MP"


def _orientation(value: int) -> str:
    return "upright" if value == 1 else f"EXIF {value}"
