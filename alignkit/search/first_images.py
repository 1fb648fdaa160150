"""The images that a guess rests on: readable, decoded here, with finite tensors, and not flat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import DataError
from alignkit.preprocess import Preprocess, Resize
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples

if TYPE_CHECKING:
    from alignkit.search.recorded_target import RecordedTensors

_IMAGES = 8
"""Images on which every hypothesis is tried."""
_MOST = 64
"""Images that are looked at until one has colours."""
_LOOK = Preprocess(
    "look", OpenCVDecoder(), Resize(OpenCVResizer("area"), (64, 64)), normalise=Normalise()
)
_FLAT = 2.0
"""Spread of an image in grey levels (standard deviation of its pixels) that noise alone reaches."""
_CONTRAST = 24.0
"""Spread from which an image shows that a change of tone is no scale and offset: over two such
deviations, a gamma of 1.1 leaves more than rounding."""


@dataclass(frozen=True, slots=True)
class FirstImages:
    """The rows of the images to guess with."""

    rows: tuple[int, ...]
    contrasted: int
    """How many of them have enough contrast to tell a normalisation from a change of tone."""
    grey: bool
    """Whether no image that was looked at has colours, which alone tell the order of channels."""
    looked: int
    """How many images were looked at."""


@dataclass(frozen=True, slots=True)
class _Looks:
    """Contrast and colour of one image, as decoded here."""

    spread: float
    """Standard deviation of its pixels in grey levels, mean of the three channels."""
    grey: bool


def first_images(recorded: RecordedTensors, samples: Samples) -> FirstImages:
    """Choose up to eight images, those spread over the whole folder first.

    Raises `DataError` with the reason of the first image if none can be used.
    """
    spread = np.linspace(0, len(recorded.rows) - 1, min(_IMAGES, len(recorded.rows)))
    # neighbours in a folder are often alike
    first = [recorded.rows[place] for place in spread.astype(int)]
    waiting = list(dict.fromkeys((*first, *recorded.rows)))
    found: dict[int, _Looks] = {}
    flat, reasons = False, []
    total = len(waiting)
    while waiting and _wanted(found, total - len(waiting)):
        some, waiting = waiting[:_IMAGES], waiting[_IMAGES:]
        for row, looked in _looked(recorded, samples, some):
            if isinstance(looked, str):
                reasons.append(looked)
            elif looked.spread < _FLAT:
                flat = True
            elif len(found) < _IMAGES:
                found[row] = looked
            elif not looked.grey and all(each.grey for each in found.values()):
                found.popitem()
                found[row] = looked
    if not found and not flat:
        raise DataError(f"{recorded.name}: no image can be compared; the first, {reasons[0]}")
    if not found:
        raise DataError(
            f"{recorded.name}: the images are too flat to tell how they were prepared; record "
            "tensors of photographs"
        )
    return FirstImages(
        tuple(sorted(found)),
        contrasted=sum(each.spread >= _CONTRAST for each in found.values()),
        grey=all(each.grey for each in found.values()),
        looked=total - len(waiting),
    )


def _wanted(found: dict[int, _Looks], looked: int) -> bool:
    """Tell whether more images are looked at: to have enough, and one with colours."""
    grey = all(each.grey for each in found.values())
    return len(found) < _IMAGES or (grey and looked < _MOST)


def _looked(
    recorded: RecordedTensors, samples: Samples, rows: Sequence[int]
) -> list[tuple[int, _Looks | str]]:
    """Return for each row how the image looks, or why it cannot be used."""
    looked: list[tuple[int, _Looks | str]] = []
    taken = take_pixels((_LOOK,), encoded_images(samples, rows))
    for row, (image,) in zip(rows, taken, strict=True):
        name = samples.ids[row]
        if image.pixels is None:
            looked.append((row, f"{name}: {image.outcome}: {image.reason}"))
        elif not np.isfinite(recorded.read(row)).all():
            looked.append((row, f"{name}: its tensor holds NaN or infinity"))
        else:
            pixels = image.pixels.reshape(-1, 3).astype(np.float64)
            grey = bool((pixels == pixels[:, :1]).all())
            looked.append((row, _Looks(float(pixels.std(axis=0).mean()), grey)))
    return looked
