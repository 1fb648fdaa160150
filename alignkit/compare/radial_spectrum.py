"""Power of images and of their differences by spatial frequency, whatever its direction.

The periodograms of a few square tiles under a Hann window are averaged (Welch, IEEE Transactions on
Audio and Electroacoustics 15, 1967), so that images of different sizes share one axis.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Pixels

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
