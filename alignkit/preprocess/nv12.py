"""Round trip RGB → NV12 → RGB, the 8-bit Y'CbCr with halved chroma of video pipelines.

Matrices and ranges are those of ITU-R BT.601-7 and BT.709-6. Chroma is the mean of each 2x2 block
and is upsampled by repetition; both are choices, as NVIDIA's and most hardware converters make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.arrays import Pixels

    Plane: TypeAlias = npt.NDArray[np.float32]

_LUMA_WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}
"""Weights of red and blue in luma; green has the rest."""


@dataclass(frozen=True, slots=True)
class _Coding:
    red: float
    blue: float
    luma_scale: float
    """Codes per level of luma in 0..255."""
    luma_offset: float
    chroma_scale: float


def _coding(matrix: str, extent: str) -> _Coding:
    red, blue = _LUMA_WEIGHTS[matrix]
    if extent == "limited":
        # luma in 16..235, chroma in 16..240
        return _Coding(red, blue, 219 / 255, 16.0, 224 / 255)
    return _Coding(red, blue, 1.0, 0.0, 1.0)


def nv12_round_trip(pixels: Pixels, matrix: str, extent: str) -> Pixels:
    """Convert (h, w, 3) RGB, 0..255, there and back; same shape and dtype, whole levels.

    ``matrix`` is ``bt601`` or ``bt709``, ``extent`` ``limited`` (16..235) or ``full``. NV12 has no
    odd sides: an odd side repeats its last row or column, which is cut off again.
    """
    height, width = pixels.shape[:2]
    # chroma has one sample for 2x2 pixels
    even = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    luma, chroma = nv12_from_rgb(even.astype(np.float32), matrix, extent)
    tripped = rgb_from_nv12(luma, chroma, matrix, extent)[:height, :width]
    return tripped.astype(np.uint8) if pixels.dtype == np.uint8 else tripped


def nv12_from_rgb(rgb: Plane, matrix: str, extent: str) -> tuple[Plane, Plane]:
    """Convert (h, w, 3), sides even → luma (h, w), Cb and Cr (h/2, w/2, 2), whole codes 0..255."""
    code = _coding(matrix, extent)
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    luma = code.red * red + (1 - code.red - code.blue) * green + code.blue * blue
    differences = np.stack(
        [(blue - luma) / (2 - 2 * code.blue), (red - luma) / (2 - 2 * code.red)], axis=-1
    )
    rows, columns = luma.shape[0] // 2, luma.shape[1] // 2
    halved = differences.reshape(rows, 2, columns, 2, 2).mean(axis=(1, 3))
    return _whole(code.luma_offset + code.luma_scale * luma), _whole(
        128 + code.chroma_scale * halved
    )


def rgb_from_nv12(luma: Plane, chroma: Plane, matrix: str, extent: str) -> Plane:
    """Convert luma (h, w) and chroma (h/2, w/2, 2) → (h, w, 3), whole levels in 0..255."""
    code = _coding(matrix, extent)
    level = (luma - code.luma_offset) / code.luma_scale
    differences = (chroma.repeat(2, axis=0).repeat(2, axis=1) - 128) / code.chroma_scale
    blue = level + (2 - 2 * code.blue) * differences[..., 0]
    red = level + (2 - 2 * code.red) * differences[..., 1]
    green = (level - code.red * red - code.blue * blue) / (1 - code.red - code.blue)
    return _whole(np.stack([red, green, blue], axis=-1))


def _whole(values: Plane) -> Plane:
    return np.clip(np.rint(values), 0, 255).astype(np.float32)
