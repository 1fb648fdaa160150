"""Mean and standard deviation of many images, one image at a time: memory does not grow with them.

There are two kinds, which are often confused: of the *whole set*, where every pixel has equal
weight, as a normalisation needs them; and *per image*, where each image's own are averaged and
every image has equal weight. The second standard deviation leaves out differences between images,
so with images of one size it is never the greater.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import FloatArray

if TYPE_CHECKING:
    from alignkit.arrays import Pixels


@dataclass(frozen=True, slots=True)
class ChannelMoments:
    """Mean and std of each channel, in the order of the pixels; 1 is the value 255."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    """Population standard deviation: the sum of squares is divided by n."""


@dataclass(slots=True)
class Moments:
    """Running sums over images; a result needs at least one `add`."""

    images: int = 0
    pixels: int = 0
    _mean: FloatArray = field(default_factory=lambda: np.zeros(3))
    _squares: FloatArray = field(default_factory=lambda: np.zeros(3))
    """Sum over all pixels of the squared distance from ``_mean``."""
    _means: FloatArray = field(default_factory=lambda: np.zeros(3))
    _stds: FloatArray = field(default_factory=lambda: np.zeros(3))

    def add(self, pixels: Pixels) -> None:
        """Add an image: (h, w, 3) uint8 or float32 in 0..255.

        Joined pairwise (Chan, Golub and LeVeque, The American Statistician 37(3), 1983): plain sums
        of squares over many images would lose the digits that the variance needs.
        """
        import cv2

        found = cv2.meanStdDev(np.ascontiguousarray(pixels))
        mean, std = (each[:, 0] / 255 for each in found)
        new = pixels.shape[0] * pixels.shape[1]
        shift, total = mean - self._mean, self.pixels + new
        self._squares += std**2 * new + shift**2 * (self.pixels * new / total)
        self._mean = self._mean + shift * (new / total)
        self._means += mean
        self._stds += std
        self.images, self.pixels = self.images + 1, total

    @property
    def whole_set(self) -> ChannelMoments:
        """Moments of all pixels together."""
        return _channels(self._mean, np.sqrt(self._squares / self.pixels))

    @property
    def per_image(self) -> ChannelMoments:
        """Moments of each image alone, averaged over the images."""
        return _channels(self._means / self.images, self._stds / self.images)


def _channels(mean: FloatArray, std: FloatArray) -> ChannelMoments:
    return ChannelMoments(_three(mean), _three(std))


def _three(values: FloatArray) -> tuple[float, float, float]:
    red, green, blue = values.tolist()
    return red, green, blue
