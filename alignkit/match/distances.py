"""How far each configuration's pixels of one image are from the target's, in one pass.

Work that configurations share (a decode, a resize of equal pixels) is done once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignkit.errors import AlignkitError
from alignkit.match.colour_matrix import misread
from alignkit.preprocess.decode import decode

if TYPE_CHECKING:
    from alignkit.match.configurations import Configuration
    from alignkit.match.target import Target


@dataclass(frozen=True, slots=True)
class Distance:
    """One configuration on one image."""

    mean: float
    """Mean |Δ| in grey levels; infinite where the configuration gave no comparable pixels."""
    greatest: float
    pixels: int
    """Checksum: with the two distances, equal for configurations with equal pixels."""


def distances(
    encoded: bytes,
    wanted: npt.NDArray[np.float32],
    configurations: Sequence[Configuration],
    target: Target,
) -> dict[Configuration, Distance]:
    """How far each configuration's pixels of one image are from ``wanted``."""
    shared = _Shared(encoded, target)
    known: dict[int, Distance] = {}
    found = {}
    for each in configurations:
        pixels = shared.pixels(each)
        if id(pixels) not in known:
            known[id(pixels)] = _distance(pixels, wanted)
        found[each] = known[id(pixels)]
    return found


def _distance(pixels: Any, wanted: npt.NDArray[np.float32]) -> Distance:
    if isinstance(pixels, str) or pixels.shape != wanted.shape:
        return Distance(float("inf"), float("inf"), 0)
    levels = np.ascontiguousarray(pixels, np.float32)
    apart = np.abs(levels - wanted)
    return Distance(
        float(apart.mean(dtype=np.float64)), float(apart.max()), zlib.crc32(levels.data)
    )


class _Shared:
    """The stages of one image's configurations, each run once for equal inputs."""

    def __init__(self, encoded: bytes, target: Target) -> None:
        self.encoded, self.target = encoded, target
        self.kept: dict[Any, Any] = {}
        self.images: list[Any] = []

    def pixels(self, configuration: Configuration) -> Any:
        """(height, width, 3), or why there are none."""
        path = configuration.path(self.target.geometry, self.target.normalise)
        pixels = self._oriented(configuration)
        for name, option, stage in (
            ("resize", configuration.resizer, path.resize),
            ("crop", None, path.crop),
            ("round", configuration.rounding, path.quantise),
            ("colour", None, path.colour),
        ):
            if not isinstance(pixels, str):
                pixels = self._once((name, id(pixels), option), stage, pixels)
        return pixels

    def _oriented(self, configuration: Configuration) -> Any:
        if configuration.decode not in self.kept:
            self.kept[configuration.decode] = self._decoded(configuration)
        return self.kept[configuration.decode]

    def _decoded(self, configuration: Configuration) -> Any:
        decoder = misread(configuration.decode, self.target.misreading)
        decoded = decode(decoder, self.encoded, self.target.geometry.max_pixels)
        if decoded.image is None:
            return f"{decoded.outcome}: {decoded.reason}"
        path = configuration.path(self.target.geometry, self.target.normalise)
        oriented = path.orient(decoded.image, self.encoded)
        twin = next((each for each in self.images if np.array_equal(each, oriented)), None)
        if twin is None:
            self.images.append(oriented)
        return oriented if twin is None else twin

    def _once(self, key: Any, stage: Callable[[Any], Any], source: Any) -> Any:
        if key not in self.kept:
            try:
                self.kept[key] = stage(source)
            except (AlignkitError, ImportError):
                raise
            except Exception as error:  # noqa: BLE001 - what a library refuses is out of the race
                self.kept[key] = f"{type(error).__name__}: {error}"
        return self.kept[key]
