"""Distances of all configurations' pixels of one image from the target's, in one pass.

Work that configurations share with each other, or with the target, is done once: a decode, a resize
of equal pixels, a rounding.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.decoders import Decoder
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_header import decode
from alignkit.preprocess.image_taps import Started, result_or_reason, warm_up
from alignkit.search.configurations import Configuration
from alignkit.search.recolouring import Recolouring, RecolouringDecoder
from alignkit.search.target import Target


@dataclass(frozen=True, slots=True)
class PixelDistance:
    """Distance of one configuration from the target on one image."""

    mean: float
    """Mean |Δ| in grey levels; infinite where the configuration gave no comparable pixels."""
    greatest: float
    pixels: int
    """Checksum of the pixels. Equal pixels have equal distances and checksums."""


NOT_RUN = PixelDistance(float("inf"), float("inf"), 0)


@dataclass(frozen=True)
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

    @cached_property
    def _steps(self) -> tuple[_Steps, ...]:
        """Those of each of ``preprocesses``; a worker lists them once, for all of its images."""
        numbers: dict[Any, int] = {}
        # the target's own path, the last one, shows the colours as they are
        recolourings = [self.target.recolouring] * len(self.configurations) + [None]
        pairs = zip(self.preprocesses, recolourings, strict=False)
        return tuple(_Steps.of(path, recolouring, numbers) for path, recolouring in pairs)

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
        lost = dict(image.lost)
        shared = _Shared(image.data)
        own = len(self.configurations)
        if self.target.preprocess is not None:
            if reason := lost.get(EVERYTHING) or lost.get(own):
                return f"failed: {reason}"
            begin(own)
            wanted = shared.pixels(self._steps[own])
            if isinstance(wanted, str):
                return wanted
        elif EVERYTHING in lost:
            return lost[EVERYTHING]
        # configurations share a decode, and so what a decoder died of is not tried again
        fatal = {self.configurations[number].decode for number in lost if number < own}
        found = self._distances(shared, wanted, places, fatal, begin)
        if self.target.preprocess is None and all(np.isinf(each.mean) for each in found.values()):
            return "no configuration tried on it prepares the image; it may be damaged"
        return found

    def _distances(
        self, shared: _Shared, wanted: Any, places: Sequence[int], fatal: set[Any], begin: Started
    ) -> dict[int, PixelDistance]:
        distance = _Distance(wanted)
        known: dict[int, PixelDistance] = {}
        found = {}
        for place in places:
            begin(place)
            if fatal and self.configurations[place].decode in fatal:
                found[place] = NOT_RUN
                continue
            pixels = shared.pixels(self._steps[place])
            # `shared` keeps every array, so that no id is used twice
            if id(pixels) not in known:
                known[id(pixels)] = NOT_RUN if isinstance(pixels, str) else distance(pixels)
            found[place] = known[id(pixels)]
        return found


class _Distance:
    """Distance from one image of the target, (height, width, 3) in grey levels."""

    def __init__(self, wanted: npt.NDArray[Any]) -> None:
        self.wanted = np.ascontiguousarray(wanted, np.float32)
        self.whole = _whole(self.wanted)

    def __call__(self, pixels: npt.NDArray[Any]) -> PixelDistance:
        """Measure (height, width, 3), ``uint8`` or ``float32``."""
        import cv2

        if pixels.shape != self.wanted.shape:
            return NOT_RUN
        ours = np.ascontiguousarray(pixels)
        if ours.dtype != np.uint8:
            # so that whole levels have one checksum as bytes and as floats
            levels = np.ascontiguousarray(ours, np.float32)
            ours = levels if (whole := _whole(levels)) is None else whole
        checksum = zlib.crc32(ours.data)
        if ours.dtype == np.uint8 and self.whole is not None:
            # the sum is of whole numbers, and exact in any order
            mean = cv2.norm(ours, self.whole, cv2.NORM_L1) / ours.size
            return PixelDistance(mean, cv2.norm(ours, self.whole, cv2.NORM_INF), checksum)
        apart = cv2.absdiff(ours.astype(np.float32, copy=False), self.wanted)
        return PixelDistance(float(apart.mean(dtype=np.float64)), float(apart.max()), checksum)


def _whole(levels: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8] | None:
    """Return ``float32`` levels as ``uint8`` if that changes none of them."""
    # the first row tells most floats from whole levels
    if not np.array_equal(levels[0], np.rint(levels[0])):
        return None
    with np.errstate(invalid="ignore"):  # of NaN, which then differs
        whole = levels.astype(np.uint8)
    return whole if np.array_equal(whole, levels) else None


@dataclass(frozen=True, slots=True)
class _Steps:
    """The stages of one path, with a number for each that is the same for equal stages."""

    path: Preprocess
    decoder: Decoder
    """That of the path, without its recolourings."""
    recolourings: tuple[Recolouring, ...]
    decode: int
    resize: int
    finish: int

    @classmethod
    def of(
        cls, path: Preprocess, recolouring: Recolouring | None, numbers: dict[Any, int]
    ) -> _Steps:
        """List the steps; ``recolouring`` follows the path's own, ``numbers`` are those so far."""
        decoder, own = path.decode, [] if recolouring is None else [recolouring]
        while isinstance(decoder, RecolouringDecoder):
            own.insert(0, decoder.recolouring)
            decoder = decoder.decoder
        # to hash the stages themselves for each image takes longer than much of their work
        stages = decoder, (path.resize, path.crop), (path.quantise, path.colour)
        return cls(
            path, decoder, tuple(own), *(numbers.setdefault(each, len(numbers)) for each in stages)
        )


class _Shared:
    """The stages of one image's paths; each runs once for equal inputs."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self.kept: dict[Any, Any] = {}
        self.images: list[Any] = []

    def pixels(self, steps: _Steps) -> Any:
        """Return the pixels, (height, width, 3), or why there are none."""
        path = steps.path
        if (pixels := self.kept.get(("decode", steps.decode))) is None:
            pixels = self.kept["decode", steps.decode] = self._decoded(steps)
        for recolouring in steps.recolourings:
            pixels = self._then(recolouring, pixels, recolouring)
        if path.orient.policy != "none":
            turn = self._turn(steps)
            pixels = _failed(turn) if isinstance(turn, str) else self._then(turn, pixels, turn)
        pixels = self._then(steps.resize, pixels, lambda image: path.crop(path.resize(image)))
        return self._then(steps.finish, pixels, lambda levels: path.colour(path.quantise(levels)))

    def _turn(self, steps: _Steps) -> Any:
        """Return the turn that the decoder's library makes; it is the same on all its paths."""
        if (turn := self.kept.get(("turn", steps.decode))) is None:
            find = partial(steps.path.orient.turn, steps.decoder, self.encoded)
            turn = self.kept["turn", steps.decode] = result_or_reason(find)
        return turn

    def _decoded(self, steps: _Steps) -> Any:
        limit = steps.path.max_pixels
        decoded = result_or_reason(partial(decode, steps.decoder, self.encoded, limit))
        if isinstance(decoded, str):
            return _failed(decoded)
        if decoded.image is None:
            return f"{decoded.outcome}: {decoded.reason}"
        # decoders that agree share all that follows, which is most of the work
        twin = next((each for each in self.images if np.array_equal(each, decoded.image)), None)
        if twin is None:
            self.images.append(decoded.image)
        return decoded.image if twin is None else twin

    def _then(self, stage: Any, source: Any, run: Callable[[Any], Any]) -> Any:
        """Run a stage on what the one before it gave, if that was pixels, once for each."""
        if isinstance(source, str):
            return source
        if (known := self.kept.get((id(source), stage))) is None:
            # a source that a library refuses is out of the race
            known = _failed(result_or_reason(partial(run, source)))
            self.kept[id(source), stage] = known
        return known


def _failed(reason: Any) -> Any:
    """Call the reason of a stage that raised a failure, as `Taps` do; leave pixels as they are."""
    return f"failed: {reason}" if isinstance(reason, str) else reason
