"""Geometries without a resize: crops and borders of an image at its own resolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Crop, HalfRounding, Orient, Preprocess, Resize
from alignkit.preprocess.image_header import declared_size
from alignkit.preprocess.image_taps import take_pixels
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.search.configurations import Framing

POLICIES: tuple[Literal["none", "exif"], ...] = ("none", "exif")
"""Of `Orient`; where no image is turned, both give the same pixels, and the first is tried."""
_ALIKE = 0.9
"""Least correlation of a tensor with its place in the image: colours may be those of a video."""


def below(size: tuple[int, int], encoded: bytes) -> bool:
    """Tell whether an image may have a side below ``size``, (height, width)."""
    declared = declared_size(encoded)
    return declared is None or min(declared) < max(size)


def native_geometries(
    size: tuple[int, int], pads: Sequence[int], policy: Literal["none", "exif"]
) -> Iterator[Framing]:
    """Yield crops of the centre and of the top left corner, with each border of smaller images."""
    for pad, at in product(pads, (None, (0, 0))):
        resize = Resize(OpenCVResizer(), size, "none", pad, at=at)
        yield Framing(resize, Crop(size, at=at), policy)


def native_roundings(plain: Framing) -> list[Framing]:
    """List each rounding of the odd margins that are cut and of those that are added.

    Its own comes first. A crop at a given place has no margins.
    """
    if plain.crop.at is not None:
        return [plain]
    rules: tuple[HalfRounding, ...] = get_args(HalfRounding)
    tried = [
        replace(plain, resize=replace(plain.resize, half=added), crop=replace(plain.crop, half=cut))
        for added, cut in product(dict.fromkeys((plain.resize.half, *rules)), rules)
    ]
    return list(dict.fromkeys((plain, *tried)))


def fixed_crops(tensor: npt.NDArray[np.generic], encoded: bytes, *, turned: bool) -> list[Framing]:
    """Return the crop at the place where the image resembles its ``tensor``, (h, w, 3); or none.

    Green is compared, by a correlation that no scale and offset changes.
    """
    import cv2

    size = (tensor.shape[0], tensor.shape[1])
    found = []
    for policy in POLICIES[: 1 + turned]:
        resize = Resize(OpenCVResizer(), (1, 1), "none")
        whole = Preprocess("whole", OpenCVDecoder(), resize, Orient(policy))
        ((image,),) = take_pixels([whole], [Encoded("first", encoded)])
        if image.pixels is None or np.less(image.pixels.shape, tensor.shape).any():
            continue
        ours, theirs = (
            np.ascontiguousarray(each[..., 1], np.float32) for each in (image.pixels, tensor)
        )
        scores = cv2.matchTemplate(ours, theirs, cv2.TM_CCOEFF_NORMED)
        _, best, _, (left, top) = cv2.minMaxLoc(scores)
        if best >= _ALIKE:
            crop = Crop(size, at=(top, left))
            found.append(Framing(Resize(OpenCVResizer(), size, "none"), crop, policy))
    return found
