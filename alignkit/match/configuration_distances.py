"""Distances of all configurations' pixels of one image from the target's, in one pass.

Work that configurations share (a decode, a resize of equal pixels) is done once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.match.configurations import Configuration
from alignkit.match.recolouring import recoloured
from alignkit.match.target import Target
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_header import decode
from alignkit.preprocess.image_taps import Started, result_or_reason, taps_of, warm_up


@dataclass(frozen=True, slots=True)
class PixelDistance:
    """Distance of one configuration from the target on one image."""

    mean: float
    """Mean |Δ| in grey levels; infinite where the configuration gave no comparable pixels."""
    greatest: float
    pixels: int
    """Checksum of the pixels. Equal pixels have equal distances and checksums."""


NOT_RUN = "a worker died of it"


@dataclass(frozen=True, slots=True)
class MeasureDistances:
    """Measure configurations on each image; a `Work` of `alignkit.isolation`.

    Each image is given the places of the configurations to measure and, unless the target is a
    path, the target's pixels.
    """

    configurations: tuple[Configuration, ...]
    target: Target
    """Without ``levels``, which belong to the caller."""

    @property
    def preprocesses(self) -> tuple[Preprocess, ...]:
        """One for each configuration; then the target's own, if it can run here."""
        given = self.target.geometry, self.target.normalise
        own = () if self.target.preprocess is None else (self.target.preprocess,)
        return (*(each.preprocess(*given) for each in self.configurations), *own)

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        warm_up(self.preprocesses, begin)

    def __call__(
        self, images: Sequence[Encoded], begin: Begin
    ) -> list[dict[int, PixelDistance] | str]:
        """Return for each image the distance by the configuration's place, or why there is none."""
        return [self._image(image, partial(begin, place)) for place, image in enumerate(images)]

    def _image(self, image: Encoded, begin: Started) -> dict[int, PixelDistance] | str:
        places, wanted = image.given
        if self.target.preprocess is not None:
            taps = taps_of(self.target.preprocess, image, len(self.configurations), begin)
            if taps.last is None:
                return f"{taps.decoded.outcome}: {taps.decoded.reason}"
            wanted = np.ascontiguousarray(taps.last, np.float32)
        place_of = {self.configurations[place]: place for place in places}
        # configurations share a decode, and so what a decoder died of is not tried again
        lost = dict(image.lost)
        if EVERYTHING in lost:
            return lost[EVERYTHING]
        fatal = {self.configurations[number].decode for number in lost}

        def may_run(configuration: Configuration) -> bool:
            begin(place_of[configuration])
            return configuration.decode not in fatal

        found = distances(image.data, wanted, tuple(place_of), self.target, may_run=may_run)
        if self.target.preprocess is None and all(np.isinf(each.mean) for each in found.values()):
            return "no configuration tried on it prepares the image; it may be damaged"
        return {place_of[each]: distance for each, distance in found.items()}


def distances(
    encoded: bytes,
    wanted: npt.NDArray[np.float32],
    configurations: Sequence[Configuration],
    target: Target,
    *,
    may_run: Callable[[Configuration], bool] = lambda _: True,
) -> dict[Configuration, PixelDistance]:
    """Measure the distance of each configuration's pixels of one image from ``wanted``.

    ``may_run`` is called before each configuration; where it returns false there are no pixels.
    """
    shared = _Shared(encoded, target)
    known: dict[int, PixelDistance] = {}
    found = {}
    for each in configurations:
        pixels = shared.pixels(each) if may_run(each) else NOT_RUN
        # `shared` keeps every array, so that no id is used twice
        if id(pixels) not in known:
            known[id(pixels)] = _distance(pixels, wanted)
        found[each] = known[id(pixels)]
    return found


def _distance(pixels: Any, wanted: npt.NDArray[np.float32]) -> PixelDistance:
    if isinstance(pixels, str) or pixels.shape != wanted.shape:
        return PixelDistance(float("inf"), float("inf"), 0)
    # one dtype, so that whole levels have one checksum as bytes and as floats
    levels = np.ascontiguousarray(pixels, np.float32)
    apart = np.abs(levels - wanted)
    return PixelDistance(
        float(apart.mean(dtype=np.float64)), float(apart.max()), zlib.crc32(levels.data)
    )


class _Shared:
    """The stages of one image's configurations; each runs once for equal inputs."""

    def __init__(self, encoded: bytes, target: Target) -> None:
        self.encoded, self.target = encoded, target
        self.kept: dict[Any, Any] = {}
        self.images: list[Any] = []

    def pixels(self, configuration: Configuration) -> Any:
        """Return the pixels, (height, width, 3), or why there are none."""
        preprocess = configuration.preprocess(self.target.geometry, self.target.normalise)
        if configuration.decode not in self.kept:
            self.kept[configuration.decode] = self._decoded(configuration)
        pixels = self.kept[configuration.decode]
        for name, option, stage in (
            ("resize", configuration.resizer, preprocess.resize),
            ("crop", None, preprocess.crop),
            ("round", configuration.rounding, preprocess.quantise),
            ("colour", None, preprocess.colour),
        ):
            if not isinstance(pixels, str):
                pixels = self._once((name, id(pixels), option), stage, pixels)
        return pixels

    def _decoded(self, configuration: Configuration) -> Any:
        decoder = recoloured(configuration.decode, self.target.recolouring)
        decoded = decode(decoder, self.encoded, self.target.geometry.max_pixels)
        if decoded.image is None:
            return f"{decoded.outcome}: {decoded.reason}"
        preprocess = configuration.preprocess(self.target.geometry, self.target.normalise)
        oriented = preprocess.orient(decoded.image, self.encoded)
        # decoders that agree share all that follows, which is most of the work
        twin = next((each for each in self.images if np.array_equal(each, oriented)), None)
        if twin is None:
            self.images.append(oriented)
        return oriented if twin is None else twin

    def _once(self, key: Any, stage: Callable[[Any], Any], source: Any) -> Any:
        if key not in self.kept:
            # a source that a library refuses is out of the race
            self.kept[key] = result_or_reason(partial(stage, source))
        return self.kept[key]
