"""Inverse cosine transforms of 8x8 blocks: nvJPEG's in float32, and libjpeg's in integers.

nvJPEG's is that of NVIDIA's published CUDA sample dct8x8 (``CUDAsubroutineInplaceIDCTvector`` in
``dct8x8_kernel2.cuh``): columns first, products and sums fused as nvcc fuses them, 128 added by the
last one. Of the transforms tried, it alone gives every stored sample of nvJPEG. A product of
matrices in float32 differs in a few of a million, where rounding decides between two levels.

libjpeg's is ``jidctint.c``, its accurate integer transform.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from alignkit.decoders.jpeg_coefficients import Plane

_AT_ONCE = 2048
"""Blocks transformed together: few enough for a processor's cache, enough for long loops."""
# the square root of 2 times the cosine of 1, 2, 3, 5, 6 and 7 sixteenths of pi, and that of 1/8
_A, _B, _C = 1.387039845322148, 1.306562964876377, 1.175875602419359
_D, _E, _F = 0.785694958387102, 0.541196100146197, 0.275899379282943
_SCALE = 0.3535533905932737


def float_samples(plane: Plane) -> NDArray[np.uint8]:
    """Transform in float32, add 128, round half to even, clip; (height, width) of whole blocks."""
    import numpy as np
    import torch

    steps = torch.from_numpy(plane.steps.astype(np.float32))[:, None]
    samples = _empty(plane)
    with torch.inference_mode():
        for target, blocks in _portions(plane, samples):
            by_frequency = torch.from_numpy(blocks).t().contiguous().float().mul_(steps)
            columns = _float_pass(by_frequency.view(8, 8, -1).unbind(0)).mul_(_single(_SCALE))
            rows = _float_pass(columns.unbind(1))
            levels = _fused(_single(_SCALE), rows, torch.tensor(128.0)).numpy()
            np.rint(levels, out=levels)
            np.clip(levels, 0, 255, out=levels)
            target[:] = _by_block(levels.astype(np.uint8), target)
    return samples


def islow_samples(plane: Plane) -> NDArray[np.uint8]:
    """Transform in integers as libjpeg; (height, width) of whole blocks."""
    import numpy as np

    steps = plane.steps.astype(np.int32)[:, None]
    samples = _empty(plane)
    for target, blocks in _portions(plane, samples):
        columns = _islow_pass((blocks.T * steps).reshape(8, 8, -1), shift=13 - 2)
        levels = _islow_pass(columns.transpose(1, 0, 2), shift=13 + 2 + 3) + 128
        np.clip(levels, 0, 255, out=levels)
        target[:] = _by_block(levels.astype(np.uint8), target)
    return samples


def _empty(plane: Plane) -> NDArray[np.uint8]:
    import numpy as np

    rows, columns, _ = plane.blocks.shape
    return np.empty((rows * 8, columns * 8), np.uint8)


def _portions(
    plane: Plane, samples: NDArray[np.uint8]
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int16]]]:
    """Yield some rows of blocks at a time: their place in ``samples``, and their coefficients.

    The place is (block rows, 8, block columns, 8), the coefficients are (blocks, 64).
    """
    height, width, _ = plane.blocks.shape
    places = samples.reshape(height, 8, width, 8)
    portion = max(1, _AT_ONCE // width)
    for top in range(0, height, portion):
        rows = slice(top, top + portion)
        yield places[rows], plane.blocks[rows].reshape(-1, 64)


def _by_block(levels: NDArray[np.uint8], target: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Order (column, row, block) levels as ``target``."""
    height, _, width, _ = target.shape
    return levels.reshape(8, 8, height, width).transpose(2, 1, 3, 0)


def _float_pass(given: Sequence[torch.Tensor]) -> torch.Tensor:
    """Transform eight frequencies of one shape to (8 samples, *shape), not scaled."""
    import torch

    a, b, c, d, e, f = map(_single, (_A, _B, _C, _D, _E, _F))
    x0, x1, x2, x3, x4, x5, x6, x7 = given
    total, difference = x0 + x4, x0 - x4
    evens = [_sum((b, x2), (e, x6)), _sum((e, x2), (-b, x6))]
    outer, inner = (total, evens[0]), (difference, evens[1])
    pairs = [
        (torch.add(*outer), _sum((f, x7), (a, x1), (c, x3), (d, x5))),
        (torch.add(*inner), _sum((c, x1), (-d, x7), (-f, x3), (-a, x5))),
        (torch.sub(*inner), _sum((d, x1), (c, x7), (-a, x3), (f, x5))),
        (torch.sub(*outer), _sum((-a, x7), (f, x1), (-d, x3), (c, x5))),
    ]
    samples = torch.empty((8, *x0.shape), dtype=x0.dtype)
    for index, (even, odd) in enumerate(pairs):
        torch.add(even, odd, out=samples[index])
        torch.sub(even, odd, out=samples[7 - index])
    return samples


def _sum(*products: tuple[float, torch.Tensor]) -> torch.Tensor:
    """Add products from the left; all but the second are fused with their sum, as by nvcc."""
    (first, x), (second, y), *rest = products
    total = _fused(first, x, y * second)
    for constant, values in rest:
        total = _fused(constant, values, total)
    return total


def _fused(constant: float, values: torch.Tensor, addend: torch.Tensor) -> torch.Tensor:
    """Compute ``constant * values + addend`` with one rounding, float32."""
    import torch

    if _torch_fuses():
        return torch.add(addend, values, alpha=constant)
    # float64 holds the product of two float32 numbers without rounding
    return torch.add(addend.double(), values.double(), alpha=constant).float()


@cache
def _torch_fuses() -> bool:
    """Tell whether torch adds with one rounding here: with AVX2, AVX-512 or on ARM it does."""
    import torch

    # 1 + 2^-12 squared is 1 + 2^-11 + 2^-24; the last term is lost if the product is rounded.
    # 61 values: torch computes the last ones by another loop than the others
    values = torch.full((61,), 1 + 2**-12)
    alone = torch.add(torch.tensor(-1.0), values, alpha=1 + 2**-12)
    both = torch.add(torch.full((61,), -1.0), values, alpha=1 + 2**-12)
    exact = 2**-11 + 2**-24
    return bool((alone == exact).all() and (both == exact).all())


@cache
def _single(value: float) -> float:
    """Round a number to float32, as the constants of a kernel are."""
    import numpy as np

    return float(np.float32(value))


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
    odd = (
        x1 * 12299 + z1 + z4,
        x3 * 25172 + z2 + z3,
        x5 * 16819 + z2 + z4,
        x7 * 2446 + z1 + z3,
    )
    samples = np.stack(
        [
            *(a + b for a, b in zip(even, odd, strict=True)),
            *(a - b for a, b in zip(reversed(even), reversed(odd), strict=True)),
        ]
    )
    samples += 1 << (shift - 1)
    samples >>= shift
    return samples
