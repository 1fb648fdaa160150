"""The three computations after the coefficients of a JPEG file: inverse DCT, upsampling, colour.

Each has the form of nvJPEG's CUDA path and the form of libjpeg, so that they can be mixed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from alignkit.arrays import Image
    from alignkit.decoders.jpeg_coefficients import Plane


def float_samples(plane: Plane) -> NDArray[np.uint8]:
    """Invert the DCT in float32, add 128, round half to even: (height, width) of whole blocks."""
    import numpy as np

    levels = (plane.blocks * plane.steps.astype(np.float32)).reshape(-1, 64) @ _basis()
    levels += np.float32(128)
    np.rint(levels, out=levels)
    np.clip(levels, 0, 255, out=levels)
    return _plane_of(levels.astype(np.uint8), plane)


def islow_samples(plane: Plane) -> NDArray[np.uint8]:
    """Invert the DCT as libjpeg's ``jidctint.c``, accurate integers: (height, width) of blocks."""
    import numpy as np

    levels = (plane.blocks.reshape(-1, 64).astype(np.int32) * plane.steps).reshape(-1, 8, 8)
    columns = _islow_pass(levels.transpose(1, 0, 2), shift=13 - 2)
    rows = _islow_pass(columns.transpose(2, 1, 0), shift=13 + 2 + 3)
    levels = np.clip(rows + 128, 0, 255).astype(np.uint8)  # (column, block, row)
    return _plane_of(levels.transpose(1, 2, 0), plane)


def _plane_of(samples: NDArray[Any], plane: Plane) -> NDArray[np.uint8]:
    import numpy as np

    rows, columns, _ = plane.blocks.shape
    return np.ascontiguousarray(samples.reshape(rows, columns, 8, 8).transpose(0, 2, 1, 3)).reshape(
        rows * 8, columns * 8
    )


@cache
def _basis() -> NDArray[np.float32]:
    """Return (64 frequencies, 64 samples) of the inverse DCT (ITU-T T.81, A.3.3)."""
    import numpy as np

    frequency, sample = np.arange(8)[:, None], np.arange(8)
    cosines = np.cos((2 * sample + 1) * frequency * np.pi / 16) / 2
    cosines[0] /= np.sqrt(2)
    return np.kron(cosines, cosines).astype(np.float32)


def _islow_pass(inputs: NDArray[np.int32], *, shift: int) -> NDArray[np.int32]:
    """Transform along the first axis of 8 (Loeffler, Ligtenberg and Moschytz; 13-bit constants)."""
    import numpy as np

    z2, z3 = inputs[2], inputs[6]
    z1 = (z2 + z3) * 4433
    tmp2 = z1 - z3 * 15137
    tmp3 = z1 + z2 * 6270
    tmp0 = (inputs[0] + inputs[4]) << 13
    tmp1 = (inputs[0] - inputs[4]) << 13
    even = tmp0 + tmp3, tmp1 + tmp2, tmp1 - tmp2, tmp0 - tmp3

    tmp0, tmp1, tmp2, tmp3 = inputs[7], inputs[5], inputs[3], inputs[1]
    z1, z2, z3, z4 = tmp0 + tmp3, tmp1 + tmp2, tmp0 + tmp2, tmp1 + tmp3
    z5 = (z3 + z4) * 9633
    z1, z2 = z1 * -7373, z2 * -20995
    z3, z4 = z3 * -16069 + z5, z4 * -3196 + z5
    odd = (
        tmp3 * 12299 + z1 + z4,
        tmp2 * 25172 + z2 + z3,
        tmp1 * 16819 + z2 + z4,
        tmp0 * 2446 + z1 + z3,
    )
    half = 1 << (shift - 1)
    outputs = [a + b for a, b in zip(even, odd, strict=True)]
    outputs += [a - b for a, b in zip(reversed(even), reversed(odd), strict=True)]
    return (np.stack(outputs) + half) >> shift


def repeated(samples: NDArray[np.uint8], across: int, down: int) -> NDArray[np.uint8]:
    """Repeat each sample ``across`` times horizontally and ``down`` times vertically."""
    import numpy as np

    if across > 1:
        samples = np.repeat(samples, across, axis=1)
    return np.repeat(samples, down, axis=0) if down > 1 else samples


def interpolated(samples: NDArray[np.uint8], across: int, down: int) -> NDArray[np.uint8]:
    """Upsample by libjpeg-turbo's triangle filter (``jdsample.c``); repeat where it has none.

    ``samples`` are the plane without the padding of its last blocks: the filter repeats its edge.
    """
    import numpy as np

    if (across, down) == (1, 2):
        near = _shifted_rows(samples)
        wide = [3 * samples.astype(np.int32) + other for other in near]
        return _interleaved(((wide[0] + 1) >> 2, (wide[1] + 2) >> 2), axis=0)
    if samples.shape[1] <= 2 or (across, down) not in ((2, 1), (2, 2)):
        return repeated(samples, across, down)
    if down == 1:
        return _triangle(samples.astype(np.int32), scale=1)
    rows = [3 * samples.astype(np.int32) + other for other in _shifted_rows(samples)]
    return _interleaved(tuple(_triangle(row, scale=4) for row in rows), axis=0)


def _triangle(levels: NDArray[Any], *, scale: int) -> NDArray[np.uint8]:
    """Double the columns: 3/4 of the nearer sample and 1/4 of the further one."""
    import numpy as np

    left = np.concatenate([levels[:, :1], levels[:, :-1]], axis=1)
    right = np.concatenate([levels[:, 1:], levels[:, -1:]], axis=1)
    # the two roundings alternate, so that neither brightens the plane
    biases = (1, 2) if scale == 1 else (8, 7)
    shift = 2 if scale == 1 else 4
    return _interleaved(
        tuple(
            (3 * levels + near + bias) >> shift
            for near, bias in zip((left, right), biases, strict=True)
        ),
        axis=1,
    )


def _shifted_rows(samples: NDArray[np.uint8]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the row above and the row below each row; the first and last repeat themselves."""
    import numpy as np

    levels = samples.astype(np.int32)
    above = np.concatenate([levels[:1], levels[:-1]])
    return above, np.concatenate([levels[1:], levels[-1:]])


def _interleaved(parts: tuple[NDArray[Any], ...], *, axis: int) -> NDArray[np.uint8]:
    import numpy as np

    height, width = parts[0].shape
    shape = (2 * height, width) if axis == 0 else (height, 2 * width)
    return np.stack(parts, axis=axis + 1).reshape(shape).astype(np.uint8)


def rgb(
    luma: NDArray[np.uint8], blue: NDArray[np.uint8], red: NDArray[np.uint8], *, truncated: bool
) -> Image:
    """Convert planes of one shape to (height, width, 3) RGB."""
    import numpy as np

    of_red, of_blue, of_green = _tables(truncated=truncated)
    levels = luma.astype(np.int16)
    image = np.empty((*luma.shape, 3), np.uint8)
    for channel, offset in enumerate((of_red[red], of_green[blue, red], of_blue[blue])):
        image[..., channel] = np.clip(levels + offset, 0, 255)
    return image


@cache
def _tables(*, truncated: bool) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16]]:
    """Return what red chroma adds to red, blue chroma to blue, and (blue, red) chroma to green.

    Luma is a whole number, so that rounding its sum with an offset rounds the offset alone.
    """
    import numpy as np

    chroma = np.arange(-128, 128)
    if truncated:
        red, blue = np.floor(1.402 * chroma), np.floor(1.772 * chroma)
        green = np.floor(-0.344136 * chroma[:, None] - 0.714136 * chroma)
    else:
        # libjpeg's jdcolor.c: constants of 16 bits, half a level added
        red, blue = ((constant * chroma + 32768) >> 16 for constant in (91881, 116130))
        green = (-22554 * chroma[:, None] + 32768 - 46802 * chroma) >> 16
    return tuple(table.astype(np.int16) for table in (red, blue, green))  # type: ignore[return-value]
