"""Kinds of image files that decoders treat differently: subsampling, format, coding and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from alignkit.decoders.exif import exif_orientation
from alignkit.preprocess.image_header import ImageSize, declared_size, image_format, is_deep_grey
from alignkit.preprocess.jpeg_header import JpegHeader, read_jpeg_header


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
DEEP_GREY = "16-bit grey"
"""A mode of which decoders make pictures that have little in common."""
_QUALITIES = (
    (0, "below 70"), (70, "70 to 79"), (80, "80 to 89"), (90, "90 to 94"), (95, "95 to 100"),
)  # fmt: skip
"""Lower end of each class of JPEG qualities, and its name."""
_MEGAPIXELS = (
    (0, "below 0.1 MP"),
    (0.1, "0.1 to 0.5 MP"),
    (0.5, "0.5 to 2 MP"),
    (2, "2 to 10 MP"),
    (10, "10 MP and more"),
)
"""Lower end of each class of sizes, and its name."""
_NATURAL = {name: at for at, (_, name) in enumerate((*_QUALITIES, *_MEGAPIXELS))}


def kinds_order(kind: str, images: int) -> tuple[int, int, str]:
    """Return a key that sorts kinds of one dimension: classes by size, others by their images.

    >>> sorted(["95 to 100", "below 70"], key=lambda kind: kinds_order(kind, 9))
    ['below 70', '95 to 100']
    """
    return _NATURAL.get(kind, len(_NATURAL)), -images, kind


def kinds_of_file(encoded: bytes) -> ImageKinds:
    """Classify one image by its bytes alone."""
    return kinds_of(encoded, read_jpeg_header(encoded), declared_size(encoded))


def kinds_of(encoded: bytes, header: JpegHeader | None, size: ImageSize | None) -> ImageKinds:
    """Classify one image by its bytes, its JPEG header and the size it declares.

    >>> kinds_of(b"GIF89a", None, (2, 3)).size
    'below 0.1 MP'
    """
    kind = image_format(encoded)
    size_class = _class_of(size[0] * size[1] / 1e6, _MEGAPIXELS) if size else _UNKNOWN
    if header is None:
        none = _UNKNOWN if kind == "JPEG" else _NO_JPEG
        turned = _orientation(exif_orientation(encoded))
        mode = DEEP_GREY if is_deep_grey(encoded) else none
        return ImageKinds(none, kind, none, mode, none, size_class, turned, none)
    return ImageKinds(
        subsampling=header.subsampling,
        format=kind,
        coding=header.coding if header.precision == 8 else f"{header.coding}, not 8 bits",
        mode=header.mode,
        quality=_class_of(header.quality.value, _QUALITIES) if header.quality else _UNKNOWN,
        size=size_class,
        orientation=_orientation(header.orientation),
        icc="with ICC profile" if header.icc else "without",
    )


def _class_of(value: float, classes: Sequence[tuple[float, str]]) -> str:
    return [name for start, name in classes if start <= value][-1]


def _orientation(value: int) -> str:
    return "upright" if value == 1 else f"EXIF {value}"
