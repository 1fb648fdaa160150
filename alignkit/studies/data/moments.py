"""Mean and standard deviation of many images, one image at a time: memory does not grow with them.

There are two, and they are confused: of the *whole set*, every pixel counting alike, which is what
a normalisation is meant to be given; and *per image*, each image's own, averaged, every image
counting alike. The second standard deviation leaves out how images differ from one another, so with
images of one size it is never the greater.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import FloatArray

if TYPE_CHECKING:
    from alignkit.arrays import Pixels

Three = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Channels:
    """Of each channel, in the order of the pixels; 1 is the value 255."""

    mean: Three
    std: Three
    """Of the population: the sum of squares is divided by n."""


@dataclass(slots=True)
class Moments:
    """The running sums of `add`; at least one image must be added before either is asked for."""

    images: int = 0
    pixels: int = 0
    _mean: FloatArray = field(default_factory=lambda: np.zeros(3))
    _squares: FloatArray = field(default_factory=lambda: np.zeros(3))
    """Sum over all pixels of the squared distance from ``_mean``."""
    _means: FloatArray = field(default_factory=lambda: np.zeros(3))
    _stds: FloatArray = field(default_factory=lambda: np.zeros(3))

    def add(self, pixels: Pixels) -> None:
        """(h, w, 3) uint8 or float32 in 0..255.

        Joined pairwise (Chan, Golub and LeVeque, The American Statistician 37(3), 1983): sums of
        squares of many images would lose the digits that the variance is made of.
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
    def whole_set(self) -> Channels:
        """Of all pixels together."""
        return _channels(self._mean, np.sqrt(self._squares / self.pixels))

    @property
    def per_image(self) -> Channels:
        """Of each image by itself, averaged over the images."""
        return _channels(self._means / self.images, self._stds / self.images)


def _channels(mean: FloatArray, std: FloatArray) -> Channels:
    return Channels(_three(mean), _three(std))


def _three(values: FloatArray) -> Three:
    red, green, blue = values.tolist()
    return red, green, blue
