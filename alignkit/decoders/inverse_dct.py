"""Inverse cosine transforms of 8x8 blocks: nvJPEG's in float32, and libjpeg's in integers.

nvJPEG's is that of NVIDIA's published CUDA sample dct8x8 (``CUDAsubroutineInplaceIDCTvector`` in
``dct8x8_kernel2.cuh``): columns first, products and sums fused as nvcc fuses them, 128 added by the
last one. Of the forms tried, only it gives every stored sample of nvJPEG. It does so whichever of a
sum's first two products is fused. A product of matrices in float32 differs in 700 of a million
samples, where the rounding of sums decides between two levels; an error bound tells which blocks
can have such a sample, and only they are transformed in the kernel's order.

nvJPEG up to 12.8 rounds halves to even, nvJPEG 13 up: of a block with a DC alone that is an odd
multiple of 4, all 64 samples tell.

libjpeg's is ``jidctint.c``, its accurate integer transform.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from alignkit.decoders.jpeg_coefficients import CodedPlane, Coefficients

_AT_ONCE = 2048
"""Blocks transformed together in a given order: few enough for a processor's cache."""
_MULTIPLIED_AT_ONCE = 512
"""Blocks multiplied by the cosines together."""
_PRODUCT = 64
"""Blocks in one product of matrices: OpenBLAS starts no threads for so few."""
_ROUNDINGS = 90
"""Roundings between a coefficient and its part in a sample, in both transforms: 65 and 17."""
# the square root of 2 times the cosine of 1, 2, 3, 5, 6 and 7 sixteenths of pi; the root of 1/8
_A, _B, _C = 1.387039845322148, 1.306562964876377, 1.175875602419359
_D, _E, _F = 0.785694958387102, 0.541196100146197, 0.275899379282943
_SCALE = 0.3535533905932737
_ORDER = (0, 1, 3, 2, 6, 7, 5, 4)
"""Where `_float_pass` puts each sample."""


def planes_of(
    coefficients: Coefficients, transform: Callable[[Coefficients], NDArray[np.uint8]]
) -> list[NDArray[np.uint8]]:
    """Transform all blocks and return a plane of samples for each component, of whole blocks.

    ``transform`` is `samples_in_float` or `samples_as_libjpeg`.
    """
    import numpy as np

    samples = transform(coefficients)
    planes = []
    for plane in coefficients.planes:
        lines = samples[plane.start : plane.stop].view(np.uint64)
        blocks = lines.reshape(plane.block_rows, plane.block_columns, 8)
        ordered = np.ascontiguousarray(blocks.transpose(0, 2, 1)).view(np.uint8)
        planes.append(ordered.reshape(plane.block_rows * 8, plane.block_columns * 8))
    return planes


def samples_in_float(
    coefficients: Coefficients, halves: Literal["even", "up"] = "even"
) -> NDArray[np.uint8]:
    """Return nvJPEG's samples, (blocks of all planes, 64); ``halves`` are rounded to even or up.

    A product of matrices gives most of them faster. Blocks with a sample so near to a half that
    nvJPEG's order of summation may decide its rounding are transformed in that order.
    """
    import numpy as np

    samples = np.empty(coefficients.blocks.shape, np.uint8)
    scratch = np.zeros((4, _MULTIPLIED_AT_ONCE, 64), np.float32)
    scratch[3] = -128
    near = [
        _multiply(coefficients.blocks, plane, samples, scratch) for plane in coefficients.planes
    ]
    exact = partial(float_transform, halves=halves)
    _transform(coefficients, np.concatenate(near), exact, samples)
    return samples


def samples_as_libjpeg(coefficients: Coefficients) -> NDArray[np.uint8]:
    """Return libjpeg's samples, (blocks of all planes, 64)."""
    import numpy as np

    samples = np.empty(coefficients.blocks.shape, np.uint8)
    _transform(coefficients, np.arange(len(samples)), islow_transform, samples)
    return samples


def _transform(
    coefficients: Coefficients,
    indices: NDArray[np.intp],
    transform: Callable[[NDArray[np.float32]], NDArray[np.uint8]],
    samples: NDArray[np.uint8],
) -> None:
    """Write the samples of the blocks with these indices, which ascend."""
    import cv2
    import numpy as np

    for start in range(0, len(indices), _AT_ONCE):
        chosen = indices[start : start + _AT_ONCE]
        levels = coefficients.blocks[chosen].astype(np.float32)
        for plane in coefficients.planes:
            first, stop = np.searchsorted(chosen, (plane.start, plane.stop))
            levels[first:stop] *= plane.steps
        by_frequency: NDArray[Any] = cv2.transpose(levels).reshape(8, 8, -1)
        samples[chosen] = cv2.transpose(transform(by_frequency).reshape(64, -1))


# The product alone changes 15,394 of 22,438,336 samples of 61 photographs. The bound leaves 8 %
# of the blocks to the kernel's order, and then none changes, on any processor and library.
def _multiply(
    blocks: NDArray[np.int16],
    plane: CodedPlane,
    samples: NDArray[np.uint8],
    scratch: NDArray[np.float32],
) -> NDArray[np.intp]:
    """Write the samples of a plane by products of matrices; return the blocks left uncertain.

    An error bound decides, not a measured distance. In any order of summation a result of n
    roundings differs by at most n 2^-24 times the sum of the absolute terms (Higham, *Accuracy and
    Stability of Numerical Algorithms*, section 3.1). As the transform is orthonormal, that sum is
    at most the block's mean level plus the Euclidean norm of its other coefficients.
    """
    import cv2
    import numpy as np

    cosines = (plane.steps[:, None] * _cosines()).astype(np.float32)
    blocks, samples = blocks[plane.start : plane.stop], samples[plane.start : plane.stop]
    energy, off = np.empty((2, len(blocks)), np.float32)
    for start in range(0, len(blocks), _MULTIPLIED_AT_ONCE):
        part = slice(start, start + _MULTIPLIED_AT_ONCE)
        stored = samples[part]
        given, exact, rounded, lowest = scratch[:, : len(stored)]
        given[:] = blocks[part]
        used = slice(-(-len(stored) // _PRODUCT))
        stacks = scratch.reshape(4, -1, _PRODUCT, 64)[:, used]
        np.matmul(stacks[0], cosines, out=stacks[1])
        np.vecdot(exact, exact, out=energy[part])
        np.rint(exact, out=rounded)
        np.subtract(exact, rounded, out=exact)
        np.abs(exact, out=exact)
        np.max(cv2.transpose(exact), axis=0, out=off[part])  # four times as fast as by lines
        np.maximum(rounded, lowest, out=rounded)
        cv2.convertScaleAbs(rounded, dst=stored, beta=128)
    mean = np.abs(blocks[:, 0] * (plane.steps[0] / 8))
    rest = np.sqrt(np.maximum(np.float32(1.0001) * energy - 64 * mean * mean, 0))
    return plane.start + np.flatnonzero(0.5 - off <= 2**-24 * (_ROUNDINGS * (mean + rest) + 130))


@cache
def _cosines() -> NDArray[Any]:
    """Return (64 frequencies, 64 samples), float64: a block's orthonormal inverse transform."""
    import numpy as np

    frequency = np.arange(8)[:, None]
    single = np.cos((2 * np.arange(8) + 1) * frequency * np.pi / 16) / 2
    single[0] /= np.sqrt(2)
    return np.kron(single, single)


def float_transform(
    levels: NDArray[np.float32], halves: Literal["even", "up"] = "even"
) -> NDArray[np.uint8]:
    """Transform in float32 as nvJPEG, add 128, round, clip.

    ``levels`` are (8 vertical frequencies, 8 horizontal, blocks); the result is (8 rows, 8 columns,
    blocks).
    """
    import numpy as np

    rows = _float_pass(levels) * np.float32(_SCALE)
    both = _float_pass(rows.transpose(1, 0, 2))
    found = _add_products(np.full_like(both, 128), both, _column(_SCALE))
    if halves == "up":
        found = np.floor(np.add(found, np.float32(0.5), out=found), out=found)
    else:
        np.rint(found, out=found)
    # of each column its rows
    whole = np.clip(found, 0, 255, out=found).astype(np.uint8)
    return whole[np.ix_(_ORDER, _ORDER)].transpose(1, 0, 2)


def islow_transform(levels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Transform in integers as libjpeg, add 128, clip; axes as in `float_transform`."""
    import numpy as np

    columns = _islow_pass(levels.astype(np.int32), shift=13 - 2)
    rows = _islow_pass(columns.transpose(1, 0, 2), shift=13 + 2 + 3).transpose(1, 0, 2)
    return np.clip(rows + 128, 0, 255).astype(np.uint8)


def _float_pass(given: NDArray[np.float32]) -> NDArray[np.float32]:
    """Transform eight frequencies, (8, ...), to eight samples in another order, not scaled.

    Products are added from the left; all but the second are fused with their sum, as by nvcc.
    """
    import numpy as np

    a, b, c, d, e, f = _A, _B, _C, _D, _E, _F
    sums = np.stack((given[0] + given[4], given[0] - given[4]))
    inner = _add_products(given[6] * _column(e, -b), given[2], _column(b, e))
    even = np.concatenate((sums + inner, sums - inner))  # of samples 0, 1, 3, 2
    turned = given[1::6]  # frequencies 1 and 7
    pairs = turned * _column(a, -d, f, c).reshape(2, 2, 1, 1)
    pairs = _add_products(pairs, turned[::-1], _column(f, c, -a, d).reshape(2, 2, 1, 1))
    odd = pairs.reshape(4, *pairs.shape[2:])
    odd = _add_products(odd, given[3], _column(c, -f, -d, -a))
    odd = _add_products(odd, given[5], _column(d, -a, c, f))
    return np.concatenate((even + odd, even - odd))


def _add_products(
    sums: NDArray[np.float32], values: NDArray[np.float32], constants: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Add ``values * constants`` to the sums, float32, with one rounding each."""
    import numpy as np

    # float64 holds the product of two float32 numbers without rounding
    products = np.multiply(values, constants, dtype=np.float64)
    products += sums
    return products.astype(np.float32)


@cache
def _column(*constants: float) -> NDArray[np.float32]:
    """Return float32 constants, as those of a kernel are, that multiply (rows, 8, blocks)."""
    import numpy as np

    return np.array(constants, np.float32)[:, None, None]


def _islow_pass(given: NDArray[np.int32], *, shift: int) -> NDArray[np.int32]:
    """Transform along the first axis of 8 (Loeffler, Ligtenberg and Moschytz; 13-bit constants)."""
    import numpy as np

    x0, x1, x2, x3, x4, x5, x6, x7 = given
    shared = (x2 + x6) * 4433
    turned = shared - x6 * 15137, shared + x2 * 6270
    total, difference = (x0 + x4) << 13, (x0 - x4) << 13
    even = total + turned[1], difference + turned[0], difference - turned[0], total - turned[1]

    shared = (x7 + x3 + x5 + x1) * 9633
    z1, z2 = (x7 + x1) * -7373, (x5 + x3) * -20995
    z3, z4 = (x7 + x3) * -16069 + shared, (x5 + x1) * -3196 + shared
    odd = (x1 * 12299 + z1 + z4, x3 * 25172 + z2 + z3, x5 * 16819 + z2 + z4, x7 * 2446 + z1 + z3)
    samples = np.stack(
        [
            *(a + b for a, b in zip(even, odd, strict=True)),
            *(a - b for a, b in zip(reversed(even), reversed(odd), strict=True)),
        ]
    )
    samples += 1 << (shift - 1)
    samples >>= shift
    return samples
