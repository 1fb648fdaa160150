"""Small encoded images, made from scikit-learn's two bundled photos where it is installed."""

import io
from functools import cache

import numpy as np
from PIL import Image, ImageCms

from alignkit.extras import missing_library

CMYK = ("cmyk",)
"""Kinds whose pixels depend on the library's own formula."""
TURNED = tuple(f"exif-{orientation}" for orientation in range(2, 9))


@cache
def whole_photo(name: str) -> np.ndarray:
    """(427, 640, 3) RGB uint8: ``china`` or ``flower``."""
    if missing_library("sklearn"):
        return scene(ord(name[0]))
    from sklearn.datasets import load_sample_image

    return load_sample_image(f"{name}.jpg")


@cache
def photo(name: str = "china", height: int = 61, width: int = 97) -> np.ndarray:
    """(height, width, 3) RGB uint8: a photo with colour edges, odd-sized by default."""
    return np.asarray(Image.fromarray(whole_photo(name)).resize((width, height)))


@cache
def scene(seed: int, height: int = 427, width: int = 640) -> np.ndarray:
    """Coloured discs of every size on a sloping sky, with noise: edges and textures of a photo."""
    draw = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([rows / height * 90 + columns / width * 70 + each for each in (20, 60, 95)], 2)
    for radius in draw.geometric(0.04, 400) + 2:
        row, column = draw.integers(0, height), draw.integers(0, width)
        image[np.hypot(rows - row, columns - column) < radius] = draw.integers(0, 256, 3)
    return np.clip(image + draw.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def encoded(image: np.ndarray | Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    """The file Pillow writes."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def make_jpegs() -> dict[str, bytes]:
    """One photo in the kinds of JPEG one meets; all valid, all of 61x97 px unless turned."""
    image = photo()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return {
        "420": encoded(image, subsampling="4:2:0", quality=90),
        "422": encoded(image, subsampling="4:2:2", quality=90),
        "444": encoded(image, subsampling="4:4:4", quality=90),
        "low-quality": encoded(image, subsampling="4:2:0", quality=20),
        "progressive": encoded(image, progressive=True, quality=90),
        "restart-markers": encoded(image, restart_marker_rows=1),
        "optimised": encoded(image, optimize=True),
        "grey": encoded(Image.fromarray(image).convert("L")),
        "cmyk": encoded(Image.fromarray(image).convert("CMYK")),
        "icc": encoded(image, icc_profile=profile),
        "one-pixel": encoded(image[:1, :1]),
        **{f"exif-{each}": encoded(image, exif=exif(each)) for each in range(2, 9)},
    }


def make_pngs() -> dict[str, bytes]:
    """The same photo with alpha, with a palette, and with 16 bits a channel."""
    image = Image.fromarray(photo())
    transparent = image.copy()
    transparent.putalpha(Image.linear_gradient("L").resize(image.size))
    grey = np.asarray(image.convert("L")).astype(np.uint16)
    return {
        "rgb": encoded(image, "PNG"),
        "rgba": encoded(transparent, "PNG"),
        "palette": encoded(image.convert("P"), "PNG"),
        "grey-16": encoded(Image.fromarray(grey * 256 + 7), "PNG"),
    }
