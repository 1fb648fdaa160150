"""Images on which real stages are compared with their surrogates: JPEG files of every kind.

Encoded here from two photographs of scikit-learn, at odd sizes, so that chroma samples are cut at
the edges. Equal encoders give equal bytes on every machine; the fingerprint shows it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from alignkit.isolation.worker import Encoded
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stress import SUBSAMPLINGS, Stress

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

PHOTOS = ("china.jpg", "flower.jpg")
SIZES = ((427, 640), (191, 253))
"""(height, width) of the crops from the photographs' middle."""
_QUALITIES = (50, 75, 90, 95)
PROGRESSIVE = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}
"""Pillow's number of each chroma subsampling it can write."""


def probe_images() -> tuple[Encoded, ...]:
    """Encode baseline files of every subsampling, progressive ones of the usual, and grey ones."""
    return tuple(Encoded(name, data) for name, data in _files())


def kind_of(image: Encoded) -> str:
    """Return subsampling and coding, which decoders treat differently: ``4:2:0 progressive``."""
    header = read_jpeg_header(image.data)
    return f"{header.subsampling} {header.coding}" if header else "not a readable JPEG"


def fingerprint(images: Sequence[Encoded]) -> str:
    """Compute SHA-256 hex over names and contents."""
    digest = hashlib.sha256()
    for image in images:
        digest.update(image.id.encode() + b"\0" + hashlib.sha256(image.data).digest())
    return digest.hexdigest()


def _files() -> Iterator[tuple[str, bytes]]:
    from PIL import Image
    from sklearn.datasets import load_sample_image

    for photo, (height, width) in product(PHOTOS, SIZES):
        whole = load_sample_image(photo)
        top, left = (whole.shape[0] - height) // 2, (whole.shape[1] - width) // 2
        pixels = whole[top : top + height, left : left + width].copy()
        name = f"{photo.removesuffix('.jpg')}-{width}x{height}"
        for subsampling, quality in product(SUBSAMPLINGS, _QUALITIES):
            stress = Stress(subsampling, quality)
            yield f"{name} {stress.name}", stress.encode(pixels)
        image = Image.fromarray(pixels)
        for (subsampling, code), quality in product(PROGRESSIVE.items(), _QUALITIES):
            options = {"quality": quality, "subsampling": code, "progressive": True}
            yield f"{name} {subsampling} q{quality} progressive", _jpeg(image, **options)
        yield f"{name} grey q90", _jpeg(image.convert("L"), quality=90)


def _jpeg(image: PillowImage, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()
