"""Controls on pixels alone: a path against itself, and against itself with a planted fault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, cast

import numpy as np

from alignkit.controls.attempted import attempted
from alignkit.preprocess import Colour, Preprocess
from alignkit.record import Control
from alignkit.samples import Samples
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels
    from alignkit.preprocess import StageName
    from alignkit.resizers import Resizer

PHOTOGRAPHS = ("420", "444")
"""Of the package: in images that are grey, a channel swap cannot be seen."""
PROBES = 30
"""Images besides these that a planted fault is looked for in."""


@dataclass(frozen=True, slots=True)
class HalfPixelShift:
    """A resizer with a planted fault: its sampling grid lies half an output pixel off."""

    inner: Resizer

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Shift by half an output pixel (bilinear, edges repeated), then resize as ``inner``."""
        import cv2

        right, down = 0.5 * image.shape[1] / width, 0.5 * image.shape[0] / height
        grid = np.array([[1, 0, right], [0, 1, down]], np.float32)
        shifted = cv2.warpAffine(
            image, grid, (image.shape[1], image.shape[0]), borderMode=cv2.BORDER_REPLICATE
        )
        return self.inner.resize(cast("Image", shifted), height, width)

    def version(self) -> str:
        """That of the resizer inside."""
        return self.inner.version()


@dataclass(frozen=True, slots=True)
class SwappedChannels(Colour):
    """A colour stage with a planted fault: red and blue are exchanged after it."""

    def __call__(self, pixels: Pixels) -> Pixels:
        """(h, w, 3) → the same shape and dtype."""
        return Colour.__call__(self, pixels)[..., ::-1]


def swap_channels(path: Preprocess) -> Preprocess:
    """``path`` with red and blue exchanged after its colour stage."""
    swapped = SwappedChannels(path.colour.space)
    return replace(path, name=f"{path.name} with channels swapped", colour=swapped)


def shift_half_pixel(path: Preprocess) -> Preprocess:
    """``path`` with its resize shifted by half an output pixel."""
    shifted = replace(path.resize, resizer=HalfPixelShift(path.resize.resizer))
    return replace(path, name=f"{path.name} shifted by half a pixel", resize=shifted)


def check_pixels(path: Preprocess, samples: Samples) -> tuple[Control, ...]:
    """A/A must be zero; channels swapped and half a pixel of shift must be found where planted.

    None if the path cannot run here.
    """
    if path.missing():
        return ()
    probes = _with_photographs(samples)
    swapped, shifted = swap_channels(path), shift_half_pixel(path)
    return (
        _check("A/A: the same path twice, pixels", path, path, probes, expected=None)
        + _check(f"planted fault: {swapped.name}", path, swapped, probes, expected="colour")
        + _check(f"planted fault: {shifted.name}", path, shifted, probes, expected="resize")
    )


def _check(
    name: str, path: Preprocess, other: Preprocess, probes: Samples, *, expected: StageName | None
) -> tuple[Control, ...]:
    from alignkit.compare import compare_preprocess

    def check() -> tuple[Control, ...]:
        found = compare_preprocess(path, other, probes).first_divergence
        passed = found == expected
        return (Control(name=name, expected=_told(expected), observed=_told(found), passed=passed),)

    return attempted(name, check)


def _told(stage: StageName | None) -> str:
    return f"{stage} is the first stage that differs" if stage else "no stage differs"


def _with_photographs(samples: Samples) -> Samples:
    count = min(PROBES, len(samples))
    own = len(PHOTOGRAPHS)
    return Samples(
        ids=(*(f"alignkit/{kind}.jpg" for kind in PHOTOGRAPHS), *samples.ids[:count]),
        labels=(),
        classes=(),
        read=lambda index: _photograph(index) if index < own else samples.read(index - own),
        fingerprint=content_key([samples.fingerprint, PHOTOGRAPHS]),
    )


@cache
def _photograph(index: int) -> bytes:
    return (
        resources.files("alignkit.decoders")
        .joinpath("jpegs", f"{PHOTOGRAPHS[index]}.jpg")
        .read_bytes()
    )
