"""Power by frequency, against a plain transform of each tile, frequency by frequency."""

import numpy as np
import pytest
from scipy.signal import get_window

from alignkit.compare.mechanism_terms import BANDS, radial_power


def naive(reference, candidate, tiles):
    """Average |F|² over tiles, channels and the frequencies of each band."""
    sums, counts = np.zeros((3, BANDS)), np.zeros(BANDS)
    for part in tiles:
        side = reference[part].shape[0]
        window = np.outer(*[get_window("hann", side)] * 2)
        for channel in range(3):
            one = reference[part][..., channel].astype(float)
            gap = candidate[part][..., channel].astype(float) - one
            image, other = (np.fft.fft2((each - each.mean()) * window) for each in (one, gap))
            for y, down in enumerate(np.fft.fftfreq(side)):
                for x, right in enumerate(np.fft.fftfreq(side)):
                    if (radius := np.hypot(down, right)) < 0.5:
                        band = int(radius * 2 * BANDS)
                        both = (image[y, x].conj() * other[y, x]).real
                        sums[:, band] += abs(image[y, x]) ** 2, abs(other[y, x]) ** 2, both
                        counts[band] += 1
    return sums / counts / (window**2).sum()


@pytest.mark.parametrize("size", [(32, 40), (48, 48)])
def test_power_is_that_of_a_plain_transform(size):
    draw = np.random.default_rng(0)
    reference = draw.integers(0, 256, (*size, 3), np.uint8)
    candidate = draw.integers(0, 256, (*size, 3), np.uint8)
    side, spare = min(size), abs(size[1] - size[0])
    tile = slice(0, side), slice(spare // 2, spare // 2 + side)
    expected = naive(reference, candidate, [tile])
    assert radial_power(reference, candidate) == pytest.approx(expected, rel=1e-3, abs=1)


def test_white_noise_has_its_variance_at_every_frequency_whatever_the_size():
    draw = np.random.default_rng(1)
    blank = np.zeros((200, 300, 3), np.float32)
    for height, width in ((200, 300), (40, 60)):
        part = blank[:height, :width]
        powers = [
            radial_power(part, part + draw.normal(0, 3, part.shape).astype(np.float32))
            for _ in range(60)
        ]
        image, gap, _ = np.mean(powers, axis=0)
        assert gap[1:] == pytest.approx(9, rel=0.15)
        assert not image.any()


def test_a_wave_lies_in_the_band_of_its_frequency():
    across = np.cos(2 * np.pi * 0.25 * np.arange(128))
    wave = np.broadcast_to(50 * across[None, :, None], (128, 128, 3)).astype(np.float32)
    _, gap, _ = radial_power(np.zeros_like(wave), wave)
    assert gap[7:9].sum() > 0.95 * gap.sum()


def test_an_image_smaller_than_a_tile_has_none():
    assert radial_power(*np.zeros((2, 31, 90, 3), np.uint8)) is None
