"""Fit of tensors to pixels, channel by channel: the fit itself is the normalisation.

``scale = 1 / (255 std)``, ``offset = -mean / std``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.preprocess.normalise import IMAGENET_MEAN, IMAGENET_STD, Normalise
from alignkit.search.recolouring import PerChannel

_KNOWN: dict[str, Normalise] = {
    "none, grey levels 0..255": Normalise((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),
    "0..1": Normalise((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "-1..1": Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "(x - 127.5) / 128": Normalise((0.5, 0.5, 0.5), (128 / 255, 128 / 255, 128 / 255)),
    "(x - 127) / 128": Normalise(
        (127 / 255, 127 / 255, 127 / 255), (128 / 255, 128 / 255, 128 / 255)
    ),
    "ImageNet mean and std": Normalise(IMAGENET_MEAN, IMAGENET_STD),
    "CLIP mean and std": Normalise(
        (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    ),
    "ImageNet mean subtracted from grey levels": Normalise(
        (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255, 1 / 255, 1 / 255)
    ),
}
"""Normalisations in use, for channels in the order R, G, B."""
_NEAR = 0.03
"""Greatest distance from a known normalisation, for a fit on pixels that are still a guess."""

Fit: TypeAlias = tuple[PerChannel, PerChannel, float]
"""Scale and offset of each channel, and the residual in grey levels."""


def fit(ours: FloatArray, tensors: FloatArray) -> Fit:
    """Fit ``tensors ≈ scale · ours + offset`` for each channel; both are (pixels, 3).

    The residual is in the units of ``ours``. The scale is the ratio of the standard deviations: the
    one of least squares where the fit is exact, and positive where nothing is alike.
    """
    mean, spread = ours.mean(axis=0), np.maximum(ours.std(axis=0), 1e-6)
    # an image of one colour has no deviation
    scale = np.maximum(tensors.std(axis=0) / spread, 1e-12)
    offset = tensors.mean(axis=0) - scale * mean
    error = (tensors - ours * scale - offset) / scale
    return _triple(scale), _triple(offset), float(np.sqrt((error**2).mean()))


def _triple(values: FloatArray) -> PerChannel:
    return float(values[0]), float(values[1]), float(values[2])


def undone(values: npt.NDArray[np.generic], normalise: Normalise) -> FloatArray:
    """Return normalised (…, 3) in grey levels, float64: float16 would round them again."""
    mean, std = np.asarray(normalise.mean), np.asarray(normalise.std)
    levels: FloatArray = (values.astype(np.float64) * std + mean) * 255
    return levels


def in_numbers(normalise: Normalise) -> str:
    """Say mean and standard deviation of each channel, in four digits."""
    sides = normalise.mean, normalise.std
    mean, std = ("/".join(f"{value:.4g}" for value in side) for side in sides)
    return f"mean {mean}, std {std}"


def normalise_of(
    scale: PerChannel, offset: PerChannel, *, near: float = _NEAR
) -> tuple[str, Normalise]:
    """Return the normalisation of a fit: the nearest known one with its name, else the fit's own.

    ``near`` is a share of the scale, and of the whole range for the offset. Channels are in the
    order of the fit; known normalisations are also tried in the reverse order.
    """
    found: list[tuple[float, str, Normalise]] = []
    for name, known in _KNOWN.items():
        for reverse in (False, True):
            step = -1 if reverse else 1
            mean, std = np.asarray(known.mean)[::step], np.asarray(known.std)[::step]
            expected, whole = 1 / (255 * std), 1 / std
            scaled = np.abs(np.asarray(scale) / expected - 1)
            shifted = np.abs(np.asarray(offset) + mean / std) / whole
            reversed_note = ", channels reversed" if reverse and len({*known.mean}) > 1 else ""
            normalise = Normalise(_triple(mean), _triple(std))
            found.append((max(scaled.max(), shifted.max()), name + reversed_note, normalise))
    distance, name, normalise = min(found, key=lambda each: each[0])
    if distance <= near:
        return name, normalise
    std = 1 / (255 * np.asarray(scale))
    mean = -np.asarray(offset) * std
    # a fit has no more significant digits
    return "", Normalise(_triple(mean.round(7)), _triple(std.round(9)))
