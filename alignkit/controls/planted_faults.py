"""Controls on pixels alone: a path against itself, and against itself with a planted fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from typing import cast

import numpy as np

from alignkit.arrays import Image, Pixels
from alignkit.outcome import Measured, capture
from alignkit.preprocess import Colour, Preprocess, Resize, StageName
from alignkit.record import Control, PixelStage
from alignkit.resizers import Resizer
from alignkit.samples import HeldImages, JoinedReads, Samples
from alignkit.workspace import content_key

PHOTOGRAPHS = ("420", "444")
"""Colour photographs of the package: grey images cannot show a channel swap."""
PROBES = 30
"""Images of the data set that are compared besides `PHOTOGRAPHS`."""


def attempted(name: str, check: Callable[[], tuple[Control, ...]]) -> tuple[Control, ...]:
    """Run ``check``; turn an exception into a failed `Control` of this name.

    So the record of the run is written all the same.
    """
    ended = capture(check)
    if isinstance(ended, Measured):
        return ended.value
    return (
        Control(
            name=name,
            expected="the check can be made",
            observed=f"it ended in an error: {ended.message}",
            passed=False,
            traceback=ended.traceback,
        ),
    )


@dataclass(frozen=True, slots=True)
class HalfPixelShift:
    """A resizer with a planted fault: its sampling grid lies half an output pixel off."""

    inner: Resizer

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Shift by half an output pixel (bilinear, edges repeated), then resize as ``inner``."""
        shifted = _shifted(image, 0.5 * image.shape[1] / width, 0.5 * image.shape[0] / height)
        return self.inner.resize(shifted, height, width)

    def version(self) -> str:
        """Return the version of the inner resizer."""
        return self.inner.version()


@dataclass(frozen=True, slots=True)
class HalfPixelOff(Resize):
    """A resize that resamples nothing, with a planted fault: the image lies half a pixel off."""

    def __call__(self, image: Image) -> Pixels:
        """Shift by half a pixel, as `HalfPixelShift`, then pad."""
        # not super(): it finds no class in a dataclass with slots
        return Resize.__call__(self, _shifted(image, 0.5, 0.5))


def _shifted(image: Image, right: float, down: float) -> Image:
    import cv2

    grid = np.array([[1, 0, right], [0, 1, down]], np.float32)
    size = (image.shape[1], image.shape[0])
    return cast("Image", cv2.warpAffine(image, grid, size, borderMode=cv2.BORDER_REPLICATE))


@dataclass(frozen=True, slots=True)
class SwappedChannels(Colour):
    """A colour stage with a planted fault: red and blue are exchanged after it."""

    def __call__(self, pixels: Pixels) -> Pixels:
        """Swap the channels of (h, w, 3) pixels; shape and dtype stay."""
        # not super(): it finds no class in a dataclass with slots
        return Colour.__call__(self, pixels)[..., ::-1]


@dataclass(frozen=True, slots=True)
class InvertedLevels(Colour):
    """A colour stage with a planted fault: each level is taken from 255 after it."""

    def __call__(self, pixels: Pixels) -> Pixels:
        """Invert the levels of (h, w, 3) pixels; shape and dtype stay."""
        after = Colour.__call__(self, pixels)
        return cast("Pixels", np.asarray(255 - after, after.dtype))


def invert_levels(preprocess: Preprocess) -> Preprocess:
    """Invert the levels after the colour stage, which changes grey images too."""
    name = f"{preprocess.name} with inverted levels"
    return replace(preprocess, name=name, colour=InvertedLevels(preprocess.colour.space))


def swap_channels(preprocess: Preprocess) -> Preprocess:
    """Exchange red and blue after the colour stage."""
    name = f"{preprocess.name} with channels swapped"
    return replace(preprocess, name=name, colour=SwappedChannels(preprocess.colour.space))


def shift_half_pixel(preprocess: Preprocess) -> Preprocess:
    """Shift the resize by half an output pixel."""
    own = preprocess.resize
    shifted: Resize
    if own.fit == "none":  # it has no resizer whose grid could be off
        shifted = HalfPixelOff(**{each.name: getattr(own, each.name) for each in fields(own)})
    else:
        shifted = replace(own, resizer=HalfPixelShift(own.resizer))
    return replace(preprocess, name=f"{preprocess.name} shifted by half a pixel", resize=shifted)


_MEASURED = ("mean_abs", "max_abs", "p99", "psnr", "ssim")


def check_pixels(preprocess: Preprocess, samples: Samples) -> tuple[Control, ...]:
    """Check that A/A is zero and that each planted fault is found at its stage.

    Returns no control if ``preprocess`` cannot run here.
    """
    if preprocess.missing():  # its cells give the reason
        return ()
    own, count = len(PHOTOGRAPHS), min(PROBES, len(samples))
    probes = Samples(
        ids=(*(f"alignkit/{kind}.jpg" for kind in PHOTOGRAPHS), *samples.ids[:count]),
        labels=(),
        classes=(),
        read=JoinedReads(
            (HeldImages(tuple(map(_photograph, PHOTOGRAPHS))), samples.read),
            (*((0, row) for row in range(own)), *((1, row) for row in range(count))),
        ),
        fingerprint=content_key([samples.fingerprint, PHOTOGRAPHS]),
    )
    swapped, shifted = swap_channels(preprocess), shift_half_pixel(preprocess)
    return (
        _check("A/A: the same path twice, pixels", preprocess, preprocess, probes, expected=None)
        + _check(f"planted fault: {swapped.name}", preprocess, swapped, probes, expected="colour")
        + _check(f"planted fault: {shifted.name}", preprocess, shifted, probes, expected="resize")
    )


def _check(
    name: str,
    reference: Preprocess,
    candidate: Preprocess,
    probes: Samples,
    *,
    expected: StageName | None,
) -> tuple[Control, ...]:
    from alignkit.compare.compare_pixels import compare_preprocess, pixel_stages

    def check() -> tuple[Control, ...]:
        diffs = compare_preprocess(reference, candidate, probes)
        first = diffs.first_divergence
        return (
            Control(
                name=name,
                expected=_in_words(expected),
                observed=_in_words(first),
                passed=first == expected,
                differences=differences(pixel_stages(diffs)) if expected else {},
            ),
        )

    return attempted(name, check)


def differences(stages: Iterable[PixelStage]) -> dict[str, float]:
    """Return the pixel metrics of the last stages of a comparison, all before them included."""
    found: dict[str, float | None] = {}
    for stage in stages:
        if stage.mode == "cumulative" and stage.stage in ("colour", "normalise"):
            bias = max(map(abs, stage.bias)) if stage.bias else None
            values = {name: getattr(stage, name) for name in _MEASURED} | {"bias": bias}
            found |= {f"{stage.stage}.{name}": each for name, each in values.items()}
    return {name: each for name, each in found.items() if each is not None}


def _in_words(stage: StageName | None) -> str:
    return f"{stage} is the first stage that differs" if stage else "no stage differs"


@cache
def _photograph(kind: str) -> bytes:
    folder = resources.files("alignkit.decoders") / "jpegs"
    return (folder / f"{kind}.jpg").read_bytes()
