"""Inverse cosine transforms of 8x8 blocks: nvJPEG's in float32, and libjpeg's in integers.

nvJPEG's is that of NVIDIA's published CUDA sample dct8x8 (``CUDAsubroutineInplaceIDCTvector`` in
``dct8x8_kernel2.cuh``): columns first, products and sums fused as nvcc fuses them, 128 added by the
last one. Of the forms tried, only it gives every stored sample of nvJPEG. It does so whichever of a
sum's first two products is fused. A product of matrices in float32 differs in a few of a million
samples, where rounding decides between two levels.

libjpeg's is ``jidctint.c``, its accurate integer transform.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from alignkit.decoders.jpeg_coefficients import CodedPlane, Coefficients

_AT_ONCE = 2048
"""Blocks transformed together: few enough for a processor's cache, enough for long loops."""
# the square root of 2 times the cosine of 1, 2, 3, 5, 6 and 7 sixteenths of pi; the root of 1/8
_A, _B, _C = 1.387039845322148, 1.306562964876377, 1.175875602419359
_D, _E, _F = 0.785694958387102, 0.541196100146197, 0.275899379282943
_SCALE = 0.3535533905932737


def samples_of(
    coefficients: Coefficients, transform: Callable[[NDArray[np.float32]], NDArray[np.uint8]]
) -> list[NDArray[np.uint8]]:
    """Transform all blocks and return a plane of samples for each component, of whole blocks.

    ``transform`` is `to_samples_in_float` or `to_samples_as_libjpeg`.
    """
    import cv2
    import numpy as np

    samples = np.empty(coefficients.blocks.shape, np.uint8)
    for start in range(0, len(samples), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        levels = coefficients.blocks[part].astype(np.float32)
        for plane in coefficients.planes:
            levels[max(plane.start - start, 0) : max(plane.stop - start, 0)] *= plane.steps
        by_frequency: NDArray[Any] = cv2.transpose(levels).reshape(8, 8, -1)
        cv2.transpose(transform(by_frequency).reshape(64, -1), dst=samples[part])
    return [_plane_of(samples[plane.start : plane.stop], plane) for plane in coefficients.planes]


def _plane_of(samples: NDArray[np.uint8], plane: CodedPlane) -> NDArray[np.uint8]:
    """Order (blocks, 64) samples as (height, width)."""
    import numpy as np

    rows = samples.view(np.uint64).reshape(plane.block_rows, plane.block_columns, 8)
    ordered = np.ascontiguousarray(rows.transpose(0, 2, 1)).view(np.uint8)
    return ordered.reshape(plane.block_rows * 8, plane.block_columns * 8)


def to_samples_in_float(levels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Transform in float32, add 128, round half to even, clip.

    ``levels`` are (8 vertical frequencies, 8 horizontal, blocks) and are overwritten; the result
    is (8 rows, 8 columns, blocks).
    """
    import numpy as np
    import torch

    scale = _single(_SCALE)
    with torch.inference_mode():
        given = torch.from_numpy(levels)
        columns = torch.empty_like(given)
        _float_pass(given.unbind(0), columns.unbind(0))
        columns.mul_(scale)
        _float_pass(columns.unbind(1), given.unbind(1))
        rows = _fused(scale, given, torch.tensor(128.0), out=columns).round_().clamp_(0, 255)
        return rows.numpy().astype(np.uint8)


def to_samples_as_libjpeg(levels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Transform in integers as libjpeg, add 128, clip; axes as in `to_samples_in_float`."""
    import numpy as np

    columns = _islow_pass(levels.astype(np.int32), shift=13 - 2)
    rows = _islow_pass(columns.transpose(1, 0, 2), shift=13 + 2 + 3).transpose(1, 0, 2)
    return np.clip(rows + 128, 0, 255).astype(np.uint8)


def _float_pass(given: Sequence[torch.Tensor], samples: Sequence[torch.Tensor]) -> None:
    """Transform eight frequencies to eight samples of the same shape, not scaled."""
    import torch

    a, b, c, d, e, f = map(_single, (_A, _B, _C, _D, _E, _F))
    x0, x1, x2, x3, x4, x5, x6, x7 = given
    outer = x0 + x4, _sum((b, x2), (e, x6))
    inner = x0 - x4, _sum((e, x2), (-b, x6))
    pairs = [
        (torch.add(*outer), _sum((f, x7), (a, x1), (c, x3), (d, x5))),
        (torch.add(*inner), _sum((c, x1), (-d, x7), (-f, x3), (-a, x5))),
        (torch.sub(*inner), _sum((d, x1), (c, x7), (-a, x3), (f, x5))),
        (torch.sub(*outer), _sum((-a, x7), (f, x1), (-d, x3), (c, x5))),
    ]
    for index, (even, odd) in enumerate(pairs):
        torch.add(even, odd, out=samples[index])
        torch.sub(even, odd, out=samples[7 - index])


def _sum(*products: tuple[float, torch.Tensor]) -> torch.Tensor:
    """Add products from the left; all but the second are fused with their sum, as by nvcc."""
    first, (constant, values), *others = products
    total = values * constant
    for constant, values in (first, *others):
        _fused(constant, values, total, out=total)
    return total


def _fused(
    constant: float, values: torch.Tensor, addend: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    """Compute ``constant * values + addend`` with one rounding, float32."""
    import torch

    if _torch_fuses():
        return torch.add(addend, values, alpha=constant, out=out)
    # float64 holds the product of two float32 numbers without rounding
    return out.copy_(torch.add(addend.double(), values.double(), alpha=constant))


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
