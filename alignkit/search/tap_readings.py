"""Hypotheses of geometry and channel order for one recorded stage, each fitted to its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.decoders.exif import exif_orientation
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.preprocess.normalise import Normalise
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.search.configurations import Configuration, Framing
from alignkit.search.match_result import AS_ROUNDING, explained_share
from alignkit.search.normalisation_fit import constants, fit, fits_as_well
from alignkit.search.stored_taps import image_of
from alignkit.search.tap_segment import FIT_IMAGES, Recorded, Segment
from alignkit.search.target_guess import geometries, roundings, side_roundings

_SAME = 0.1
"""Grey levels by which chance makes one of two equal hypotheses better."""
_STRIDE = 3
"""Every third pixel in both directions is used for a fit."""


@dataclass(frozen=True)
class TapReading:
    """One hypothesis of geometry and channel order, with the fit of the recorded numbers to it."""

    geometry: Framing
    swapped: bool
    normalise: Normalise | None
    """Normalisation of the recorded numbers; ``None`` before that stage."""
    name: str
    """Its name, if it is a known one."""
    residual: float
    """Root mean square of what is left, in grey levels."""


def best_reading(segment: Segment) -> TapReading | None:
    """Return the reference's own reading unless another explains most of what it leaves.

    ``None`` if no hypothesis gives the recorded shape.
    """
    found = list(_readings(segment, Framing.of(segment.path)))
    if not found:
        return None
    # the reference's own geometry and order come first, if they give the shape
    plainest, best = found[0], min(found, key=lambda each: each.residual)
    if best is not plainest:
        finer = list(_fitted(segment, roundings(best.geometry, steps=(0, -1, 1))))
        best = min([best, *finer], key=lambda each: each.residual)
    share = explained_share(best.residual, plainest.residual)
    gained = plainest.residual - best.residual
    return best if gained > _SAME and share >= EXPLAINS_MOST else plainest


def _readings(segment: Segment, own: Framing) -> Iterator[TapReading]:
    yield from _fitted(segment, list(dict.fromkeys([own, *_other_geometries(segment, own)])))


def _fitted(segment: Segment, tried: Sequence[Framing]) -> Iterator[TapReading]:
    """Fit the recorded arrays to the reference's pixels in each geometry and channel order."""
    rows = segment.rows[:FIT_IMAGES]
    wanted = [segment.recorded.array(row) for row in rows]
    path = segment.path
    choice = Configuration(path.decode, path.resize.resizer, path.quantise.rule)
    paths = [choice.preprocess(each, Normalise()) for each in tried]
    taken = zip(*take_pixels(paths, encoded_images(segment.source, rows)), strict=True)
    for geometry, images in zip(tried, taken, strict=True):
        pairs = [
            (_sampled(each.pixels), _sampled(array))
            for each, array in zip(images, wanted, strict=True)
            if not isinstance(array, str)
            and each.pixels is not None
            and each.pixels.shape == array.shape
        ]
        if not pairs or len(pairs) < sum(not isinstance(each, str) for each in wanted):
            continue
        ours, theirs = (np.concatenate(side) for side in zip(*pairs, strict=True))
        for swapped in (False, True):
            yield _reading(segment.recorded, geometry, swapped, ours, theirs)


def _reading(
    recorded: Recorded, geometry: Framing, swapped: bool, ours: FloatArray, theirs: FloatArray
) -> TapReading:
    pixels = ours[:, ::-1] if swapped else ours
    if recorded.stage != "normalise":
        difference = pixels - theirs * (255 if recorded.unit else 1)
        residual = float(np.sqrt((difference**2).mean()))
        return TapReading(geometry, swapped, None, "", residual)
    fitted = fit(pixels, theirs)
    shown, residual = constants(pixels, theirs, fitted), fitted[2]
    own, normalise = recorded.normalise, shown.normalise
    # pixels that are off by some levels cannot tell normalisations that differ by less
    off = residual > AS_ROUNDING and _alike(normalise, own, near=residual / 255)
    if off or fits_as_well(pixels, theirs, own, normalise):
        normalise = own
    return TapReading(geometry, swapped, normalise, shown.name, residual)


def _alike(one: Normalise, other: Normalise, *, near: float) -> bool:
    mean = np.abs(np.subtract(one.mean, other.mean))
    std = np.abs(np.divide(one.std, other.std) - 1)
    return bool(max(mean.max(), std.max()) <= near)


def _sampled(image: npt.NDArray[Any]) -> FloatArray:
    return image[::_STRIDE, ::_STRIDE].reshape(-1, 3).astype(np.float64)


def _other_geometries(segment: Segment, own: Framing) -> Iterator[Framing]:
    covered, shape = segment.stages, segment.recorded.tap.common_shape
    image = image_of(np.empty(shape, np.uint8)) if shape else ""
    if {"decode", "orient"} & {*covered}:
        yield replace(own, orient="none" if own.orient == "exif" else "exif")
    if "resize" in covered:
        yield from _other_sides(segment, own)
    elif "crop" in covered and not isinstance(image, str):
        size = (image.shape[0], image.shape[1])
        other = replace(own, crop=replace(own.crop, size=size))
        yield from roundings(other)
    if "resize" in covered and not isinstance(image, str):
        turned = "orient" in covered and any(
            exif_orientation(segment.samples.read(row)) != 1 for row in segment.rows[:FIT_IMAGES]
        )
        for each in geometries((image.shape[0], image.shape[1]), turned=turned):
            if each.crop.size is None or segment.may_crop:
                resize = replace(each.resize, resizer=own.resize.resizer)
                yield replace(each, resize=resize, colour=own.colour, max_pixels=own.max_pixels)
    if own.crop.size and segment.may_crop:
        yield from roundings(own)


def _other_sides(segment: Segment, own: Framing) -> Iterator[Framing]:
    """Yield the reference's resize with its other rounding, and to the recorded shorter side."""
    resize = own.resize
    if resize.fit == "squash":
        return
    sizes = [resize.size]
    shapes = (image_of(np.empty(each, np.uint8)) for each in segment.recorded.tap.shapes.values())
    shorter = {0 if isinstance(each, str) else min(each.shape[:2]) for each in shapes}
    if resize.fit == "shorter" and len(shorter) == 1 and 0 not in shorter:
        sizes.append((min(shorter), min(shorter)))
    for size in dict.fromkeys(sizes):
        for each in side_roundings(replace(resize, size=size)):
            yield replace(own, resize=each)
