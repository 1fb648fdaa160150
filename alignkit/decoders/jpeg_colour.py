"""Upsampling of chroma planes and conversion to RGB, as nvJPEG and as libjpeg do them.

Luma is a whole number, so that rounding its sum with an offset rounds the offset alone: a table of
offsets for every pair of chroma samples, looked up before the samples are repeated, is exact. Where
halves are rounded to even, the few offsets that end in a half depend on luma and are done apart.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from alignkit.arrays import Image

ColourRounding: TypeAlias = Literal["truncate", "round", "even"]
"""How RGB levels become whole: cut off by nvJPEG up to 12.8; rounded by libjpeg, in whole numbers
of 16 bits; rounded by nvJPEG 13, in floating point and halves to even."""
_Samples = TypeVar("_Samples", bound="NDArray[Any]")
_AT_ONCE = 1 << 15
"""Pixels converted together: few enough for a processor's cache."""


def repeated(samples: _Samples, across: int, down: int) -> _Samples:
    """Repeat each sample or pixel ``across`` times horizontally and ``down`` times vertically."""
    import cv2
    import numpy as np

    if across == down == 1:
        return samples
    if across in (1, 2, 4) and down in (1, 2, 4):  # the factors at which cv2.resize is exact
        size = samples.shape[1] * across, samples.shape[0] * down
        return cv2.resize(samples, size, interpolation=cv2.INTER_NEAREST)  # type: ignore[return-value]
    return np.repeat(np.repeat(samples, across, axis=1), down, axis=0)  # type: ignore[return-value]


def interpolated(
    samples: NDArray[np.uint8], across: int, down: int, *, narrow: bool = False
) -> NDArray[np.uint8]:
    """Upsample by libjpeg-turbo's triangle filter (``jdsample.c``); repeat where it has none.

    ``samples`` are the plane without the padding of its last blocks: the filter repeats its edge.
    ``narrow`` filters planes of one or two columns too, as nvJPEG does and libjpeg does not.
    """
    import numpy as np

    if samples.shape[1] <= 2 and across == 2 and not narrow:
        return repeated(samples, across, down)
    levels = samples.astype(np.int32)
    if (across, down) == (1, 2):
        return _doubled(levels, axis=0, rounding=(1, 2), shift=2)
    if (across, down) == (2, 1):
        return _doubled(levels, axis=1, rounding=(1, 2), shift=2)
    if (across, down) == (2, 2):
        rows = _doubled(levels, axis=0, rounding=(0, 0), shift=0)
        return _doubled(rows, axis=1, rounding=(8, 7), shift=4)
    return repeated(samples, across, down)


def _doubled(
    levels: NDArray[np.int32], *, axis: int, rounding: tuple[int, int], shift: int
) -> NDArray[Any]:
    """Put two samples in place of each: 3 parts of it and 1 of the nearer neighbour."""
    import numpy as np

    levels = np.moveaxis(levels, axis, 0)
    doubled = np.empty((2 * len(levels), *levels.shape[1:]), np.int32)
    doubled[0::2] = 3 * levels
    doubled[1::2] = doubled[0::2]
    doubled[0::2] += np.concatenate([levels[:1], levels[:-1]]) + rounding[0]
    doubled[1::2] += np.concatenate([levels[1:], levels[-1:]]) + rounding[1]
    doubled >>= shift
    return np.moveaxis(doubled, 0, axis).astype(np.uint8 if shift else np.int32)


def rgb(
    luma: NDArray[np.uint8],
    blue: NDArray[np.uint8],
    red: NDArray[np.uint8],
    factors: tuple[int, int],
    rounding: ColourRounding,
) -> Image:
    """Convert a luma plane and two chroma planes to (height, width, 3) RGB.

    ``factors`` are luma samples for each chroma sample, (across, down); chroma is repeated by them.
    """
    import cv2
    import numpy as np

    across, down = factors
    added, subtracted = _offsets(rounding)
    height, width = luma.shape
    image = np.empty((height, width, 3), np.uint8)
    portion = down * max(1, _AT_ONCE // (width * down))
    for top in range(0, height, portion):
        part = slice(top, top + portion)
        chroma = slice(top // down, (top + portion) // down)
        pair = blue[chroma].astype(np.uint16) << 8 | red[chroma]
        pixels = cv2.cvtColor(luma[part], cv2.COLOR_GRAY2RGBA)
        rows = slice(len(pixels))
        # 8-bit sums are clipped; one of the two offsets of a channel is always 0
        for combine, table in ((cv2.add, added), (cv2.subtract, subtracted)):
            offsets = np.take(table, pair).view(np.uint8).reshape(*pair.shape, 4)
            combine(pixels, repeated(offsets, across, down)[rows, :width], dst=pixels)
        cv2.cvtColor(pixels, cv2.COLOR_RGBA2RGB, dst=image[part])
        if rounding == "even" and (halves := np.take(_halves(), pair)).any():
            where = np.nonzero(repeated(halves, across, down)[rows, :width])
            reds, blues = ((each[chroma].astype(np.int16) - 128) for each in (red, blue))
            of = where[0] // down, where[1] // across
            levels = np.stack(_jfif(blues[of], reds[of]), axis=1) + luma[part][where][:, None]
            image[part][where] = np.clip(np.rint(levels), 0, 255)
    return image


def _jfif(blue: NDArray[Any], red: NDArray[Any]) -> list[NDArray[Any]]:
    """Return what chroma, -128..127, adds to luma in red, green and blue, by JFIF's formula.

    Stored output of nvJPEG tells 0.344136 and 0.714136 from fewer digits.
    """
    return [1.402 * red, -0.344136 * blue - 0.714136 * red, 1.772 * blue]


@cache
def _offsets(rounding: ColourRounding) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what chroma adds to luma and what it subtracts: red, green, blue and 0, of 8 bits.

    Both are indexed by 256 * blue chroma + red chroma.
    """
    import numpy as np

    red = np.arange(-128, 128)
    blue = red[:, None]
    if rounding == "round":
        # libjpeg's jdcolor.c: constants of 16 bits, half a level added
        wide = [91881 * red, -22554 * blue - 46802 * red, 116130 * blue]
        channels = [(each + 32768) >> 16 for each in wide]
    else:
        whole = np.floor if rounding == "truncate" else np.rint
        channels = [whole(each) for each in _jfif(blue, red)]
    offsets = np.zeros((256, 256, 4), np.int16)
    for index, levels in enumerate(channels):
        offsets[..., index] = levels
    signed = (np.clip(sign * offsets, 0, 255).astype(np.uint8) for sign in (1, -1))
    added, subtracted = (each.view(np.uint32).ravel() for each in signed)
    return added, subtracted


@cache
def _halves() -> NDArray[np.bool_]:
    """Tell of each pair of chroma samples whether an offset ends in a half; indexed as above."""
    import numpy as np

    red = np.arange(-128, 128)
    channels = np.broadcast_arrays(*_jfif(red[:, None], red))
    # six decimal digits: a half is one up to the rounding of float64
    near = [np.abs(np.abs(each - np.rint(each)) - 0.5) < 1e-9 for each in channels]
    return np.any(near, axis=0).ravel()  # type: ignore[no-any-return]
