"""The difference that each known mechanism would make on an image, computed from the pixels alone.

Of a resize, the stage's input is known: it is sampled on the grids that libraries use, and filtered
as one that averages when it shrinks. Of a decode, the chroma that one side repeats in steps of two
pixels is interpolated. Fitted to the measured difference, the coefficient of a mechanism is 1 if
the candidate does it, -1 if the reference does, and 0 if neither or both do. Beside these stands
the power of the difference by spatial frequency, whatever its direction.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Image, Pixels
from alignkit.compare.displacement import LumaPlane, Normal

FROM_RGB = np.array(
    [
        [0.299, 0.587, 0.114],
        [-0.299 / 1.772, -0.587 / 1.772, 0.886 / 1.772],
        [0.701 / 1.402, -0.587 / 1.402, -0.114 / 1.402],
    ]
)
"""ITU-T T.871 (JFIF), 7: rows Y', Cb, Cr; offsets cancel in a difference."""
GRIDS = ("corners", "asymmetric", "half-right", "half-left")
RESIZE_TERMS = (*GRIDS, "antialias", "sharpness", "level")
"""``level`` is a constant; with ``sharpness`` it takes differences that no mechanism makes."""
DECODE_TERMS = ("chroma", "level")
_STEP = 2.0
"""How much larger the chroma's steps between pairs of pixels must be than those within pairs."""
_CHROMA = FROM_RGB[1:].astype(np.float32)
_SOFT = 0.7
"""Standard deviation in pixels of the Gaussian of ``sharpness``."""


def grid(name: str, source: int, target: int) -> FloatArray:
    """Return where a grid samples an axis of ``source`` pixels for each of ``target`` pixels.

    Pixel i's centre is at i. ``half-pixel`` is OpenCV's, Pillow's and torch's; ``corners`` is
    torch's align_corners; ``asymmetric`` is ONNX's of that name, TensorFlow 1's default.
    ``half-right`` and ``half-left`` move the content by half an output pixel.
    """
    place = np.arange(target, dtype=np.float64)
    step = source / target
    if name == "corners":
        return place * (source - 1) / max(target - 1, 1)
    if name == "asymmetric":
        return place * step
    moved = {"half-pixel": 0.0, "half-right": -0.5, "half-left": 0.5}[name]
    return (place + 0.5 + moved) * step - 0.5


def expected(name: str, source: int, target: int) -> tuple[float, float]:
    """Return the scale and the shift in pixels that a grid gives an axis against ``half-pixel``."""
    step = source / target
    if name == "corners":
        return (1 - 1 / target) / (1 - 1 / source) if source > 1 else 1.0, 0.0
    if name == "asymmetric":
        return 1.0, 0.5 - 0.5 / step
    return 1.0, 0.5 if name == "half-right" else -0.5


def resize_terms(source: Image, reference: LumaPlane, candidate: LumaPlane) -> Normal:
    """Fit `RESIZE_TERMS` to the luma (h, w) of one image on both sides; ``source`` was resized."""
    from PIL import Image as PillowImage

    height, width = reference.shape
    luma = np.asarray(cv2.cvtColor(source, cv2.COLOR_RGB2GRAY), np.uint8)
    linear = _sampled(luma, height, width, "half-pixel")
    filtered = np.asarray(
        PillowImage.fromarray(luma).resize((width, height), PillowImage.Resampling.BILINEAR)
    )
    terms = np.empty((len(RESIZE_TERMS), reference.size), np.float32)
    for place, name in enumerate(GRIDS):
        terms[place] = (_sampled(luma, height, width, name) - linear).ravel()
    terms[-3] = (filtered - linear).ravel()
    terms[-2] = (cv2.GaussianBlur(reference, (0, 0), _SOFT) - reference).ravel()
    terms[-1] = 1
    return Normal.of(terms, (candidate - reference).ravel())


def _sampled(luma: Image, height: int, width: int, name: str) -> LumaPlane:
    """Interpolate linearly on a grid, the edge repeated."""
    down, right = (
        grid(name, *lengths).astype(np.float32)
        for lengths in ((luma.shape[0], height), (luma.shape[1], width))
    )
    columns, rows = np.meshgrid(right, down)
    made = cv2.remap(luma, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(made, np.float32)


def decode_terms(reference: Pixels, candidate: Pixels) -> Normal:
    """Fit `DECODE_TERMS` to one image's decoded pixels, from an even row and column on."""
    height, width = (each // 2 * 2 for each in reference.shape[:2])
    sides = [each[:height, :width].astype(np.float32) for each in (reference, candidate)]
    chroma = [np.asarray(cv2.transform(each, _CHROMA), np.float32) for each in sides]
    steps = [[_steps(each, axis) for axis in (0, 1)] for each in chroma]
    # the side whose chroma comes in pairs, along either axis
    repeats = int(max(steps[1]) > max(steps[0]))
    across = [each >= _STEP for each in steps[repeats]]
    moved = np.zeros_like(sides[0])
    if any(across):
        pairs = chroma[repeats]
        down, right = (2 if each else 1 for each in across)
        samples = pairs.reshape(height // down, down, width // right, right, 2).mean(axis=(1, 3))
        # libjpeg's own interpolation: three quarters of the nearer sample, a quarter of the next
        smooth = cv2.resize(samples, (width, height), interpolation=cv2.INTER_LINEAR)
        blue, red = cv2.split(pairs - smooth)
        green = -(0.299 * 1.402 * red + 0.114 * 1.772 * blue) / 0.587
        moved = np.stack([1.402 * red, green, 1.772 * blue], axis=2)
    terms = np.stack([moved.ravel(), np.ones(moved.size)]).astype(np.float32)
    return Normal.of(terms, (sides[1] - sides[0]).ravel())


def _steps(chroma: LumaPlane, axis: int) -> float:
    """Divide the mean step between pairs of pixels by that within pairs, along one axis."""
    along = np.abs(np.diff(chroma, axis=axis))
    within, between = (along[each::2] if axis == 0 else along[:, each::2] for each in (0, 1))
    return float(between.mean() / max(float(within.mean()), 1e-3)) if between.size else 0.0


BANDS = 16
"""Bands of equal width from 0 to the Nyquist frequency, 0.5 cycles a pixel."""
_LARGEST, _LEAST = 64, 32
"""Sides of a tile in pixels; of a smaller image no band would be sure of a frequency."""
_ACROSS = 2
"""Most tiles along each axis."""


def radial_power(reference: Pixels, candidate: Pixels) -> FloatArray | None:
    """Return (3, `BANDS`) of one image (h, w, 3): power of the reference, of the difference, both.

    The last is the real part of their cross spectrum, so that the candidate's own power is the
    first and second plus twice the third. It is the spectral density, mean over R, G and B, a
    band's frequencies and tiles, in squared levels: of white noise its variance, whatever the size
    of a tile. The result is ``None`` for an image with a side below 32 pixels.

    The periodograms of a few square tiles under a Hann window are averaged (Welch, IEEE
    Transactions on Audio and Electroacoustics 15, 1967), so that images of all sizes share an axis.
    """
    height, width = reference.shape[:2]
    side = min(_LARGEST, height, width) // 2 * 2
    if side < _LEAST:
        return None
    window, bands, counts, weights = _tables(side)
    found = np.zeros((3, BANDS))
    tiles = max(len(_starts(each, side)) for each in (height, width))
    for place in range(tiles):  # along the diagonal
        top, left = (
            starts[place % len(starts)] for starts in (_starts(height, side), _starts(width, side))
        )
        part = slice(top, top + side), slice(left, left + side)
        one = reference[part].astype(np.float32)
        other = candidate[part] - one
        both = np.stack([one, other]).transpose(0, 3, 1, 2)
        both -= both.mean(axis=(2, 3), keepdims=True)
        image, gap = np.fft.rfft2(both * window)
        for row, (one, other) in enumerate(((image, image), (gap, gap), (image, gap))):
            power = np.einsum("cyx,cyx->yx", one.real, other.real)
            power += np.einsum("cyx,cyx->yx", one.imag, other.imag)
            found[row] += np.bincount(bands, (power * weights).ravel(), BANDS + 1)[:BANDS] / counts
    return found / (3 * tiles * float((window**2).sum()))


def _starts(length: int, side: int) -> list[int]:
    """Spread tiles evenly over a length."""
    number = min(_ACROSS, length // side)
    room = length - number * side
    return [each * side + room * (each + 1) // (number + 1) for each in range(number)]


@lru_cache(maxsize=8)
def _tables(
    side: int,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp], FloatArray, npt.NDArray[np.float32]]:
    """Return the window, each frequency's band, frequencies a band, and how often one occurs."""
    hann = np.hanning(side + 1)[:side]
    across = np.fft.rfftfreq(side)
    radius = np.hypot(np.fft.fftfreq(side)[:, None], across[None])
    bands = np.minimum((radius * 2 * BANDS).astype(np.intp), BANDS)
    # a real image has each frequency twice, of which rfft2 returns one, except at both ends
    weights = np.where((across == 0) | (across == 0.5), 1.0, 2.0)
    every = np.broadcast_to(weights, radius.shape)
    counts = np.bincount(bands.ravel(), every.ravel(), BANDS + 1)[:BANDS]
    window = np.asarray(np.outer(hann, hann), np.float32)
    return window, bands.ravel(), np.asarray(counts, np.float64), np.asarray(every, np.float32)
