"""Fit of tensors to pixels, channel by channel: the fit itself is the normalisation.

``scale = 1 / (255 std)``, ``offset = -mean / std``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.preprocess.normalise import IMAGENET_MEAN, IMAGENET_STD, Normalise
from alignkit.search.match_result import AS_ROUNDING
from alignkit.search.recolouring import PerChannel


def _of_levels(mean: Sequence[float], std: float) -> Normalise:
    """Return ``(x - mean) / std`` of grey levels."""
    return Normalise(triple(np.asarray(mean) / 255), triple(np.full(3, std) / 255))


def triple(values: FloatArray) -> PerChannel:
    """Return the values of the three channels."""
    return float(values[0]), float(values[1]), float(values[2])


_KNOWN: dict[str, Normalise] = {
    "none, grey levels 0..255": _of_levels((0, 0, 0), 1),
    "0..1": Normalise((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "x / 256": _of_levels((0, 0, 0), 256),
    "-1..1": Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "(x - 127.5) / 128": _of_levels((127.5, 127.5, 127.5), 128),
    "(x - 127) / 128": _of_levels((127, 127, 127), 128),
    "(x - 128) / 128": _of_levels((128, 128, 128), 128),
    "ImageNet mean and std": Normalise(IMAGENET_MEAN, IMAGENET_STD),
    "CLIP mean and std": Normalise(
        (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    ),
    "ImageNet mean subtracted from grey levels": _of_levels((123.68, 116.779, 103.939), 1),
    "123, 117, 104 subtracted from grey levels": _of_levels((123, 117, 104), 1),
}
"""Normalisations in use, for channels in the order R, G, B."""
_NEAR = 0.03
"""Greatest distance from a known normalisation, for a fit on pixels that are still a guess."""

_AS_WELL = 1.02
"""Factor by which a known normalisation may leave more than the free fit, which takes in noise."""
_STORED = 1e-3
"""Grey levels that it may leave more: numbers are stored in float32."""

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
    return triple(scale), triple(offset), float(np.sqrt((error**2).mean()))


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


@dataclass(frozen=True, slots=True)
class Constants:
    """The normalisation that pixels show."""

    name: str
    """Name of a known one; empty if it is none."""
    normalise: Normalise
    decided: bool = True
    """Whether it fits as well as the free fit; otherwise it is the nearest that is known, for
    pixels that are off by more than the two differ."""


def constants(ours: FloatArray, tensors: FloatArray, fitted: Fit) -> Constants:
    """Return the normalisation of ``tensors``, fitted to ``ours``; both are (pixels, 3).

    A known one has its name only where it fits as well as the free fit, or where that leaves more
    than rounding and the two differ by less.
    """
    scale, offset, residual = fitted
    name, known = normalise_of(scale, offset)
    free = _own(scale, offset)
    if name and fits_as_well(ours, tensors, known, free):
        return Constants(name, known)
    if residual > AS_ROUNDING:
        name, known = normalise_of(scale, offset, near=residual / 255)
        return Constants(name, known, decided=False)
    return Constants("", free)


def fits_as_well(
    ours: FloatArray, tensors: FloatArray, normalise: Normalise, free: Normalise
) -> bool:
    """Tell whether a normalisation leaves no more than a free fit does, in the mean.

    The mean of absolute values, as a few pixels that are far off move the fit itself.
    """
    left, least = (float(np.abs(undone(tensors, each) - ours).mean()) for each in (normalise, free))
    return left <= _AS_WELL * least + _STORED


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
            normalise = Normalise(triple(mean), triple(std))
            found.append((max(scaled.max(), shifted.max()), name + reversed_note, normalise))
    distance, name, normalise = min(found, key=lambda each: each[0])
    return (name, normalise) if distance <= near else ("", _own(scale, offset))


def _own(scale: PerChannel, offset: PerChannel) -> Normalise:
    std = 1 / (255 * np.asarray(scale))
    mean = 0.0 - np.asarray(offset) * std
    # a fit has no more significant digits
    return Normalise(triple(mean.round(7)), triple(std.round(9)))
