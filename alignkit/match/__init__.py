"""The configurations of this machine that come nearest to a target, by pixels.

Coarse to fine: all configurations are tried on a handful of images, those that are clearly farther
than the best are dropped, and the others go on to more; the finalists are confirmed on every image
of the search, and then checked on images the search did not see. Work that configurations share
(a decode, a resize of equal pixels) is done once an image.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignkit.compare.bootstrap import resample_weights
from alignkit.decode import decode
from alignkit.errors import AlignkitError, NothingCompared
from alignkit.match.colour_matrix import misread
from alignkit.match.configurations import Configuration
from alignkit.statistics import Estimate, percentile_interval

if TYPE_CHECKING:
    from alignkit.match.target import Target
    from alignkit.metrics import FloatArray
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples

PROBE = 500
"""Images of the search proper; the others of the search set only confirm its finalists."""
RUNGS = (2, 8, 32, 128)
"""Images after which configurations are dropped."""
UNSEEN_SHARE = 0.2
"""Of all images, kept from the search for the check at its end."""
UNSEEN = 200
"""At most so many."""
FINALISTS = 8
"""Different pixels that reach the end, however far from the best."""
FEW = 8
"""Under so many images, only what is more than three times as far as the best is dropped."""
SIGMAS = 4.0
"""From `FEW` images on, what is farther than the best by so many standard errors is dropped."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Configurations that give the same pixels on every image, and how far these are."""

    configurations: tuple[Configuration, ...]
    """The plainest first."""
    mean_abs: Estimate
    """Mean |Δ| from the target in grey levels, over images and values."""
    max_abs: float
    identical: int
    """Images equal to the target in every value, within the target's tolerance."""
    unseen: float | None = None
    """``mean_abs`` on the images the search did not see."""
    unseen_identical: int = 0
    churn: Estimate | None = None
    """Share of a model's predictions that differ from those on the target's pixels; ``None``
    without a model. See `alignkit.match.drift`."""


@dataclass(frozen=True, slots=True)
class Match:
    """What the search found."""

    target: str
    ranking: tuple[Ranked, ...]
    """Nearest first."""
    tried: int
    """Configurations."""
    rungs: tuple[tuple[int, int], ...]
    """(images, configurations tried on them), in order."""
    images: int
    """Of the search, confirmation included."""
    unseen: int
    left_out: tuple[tuple[str, str], ...] = ()
    """(id, reason) of images that the target gave no pixels for."""
    facts: tuple[str, ...] = ()
    """What was found out about the target, a sentence each."""
    paths: tuple[Preprocess, ...] = ()
    """The plainest configuration of each place of the ranking, as a whole path."""

    @property
    def winner(self) -> Ranked:
        """The nearest."""
        return self.ranking[0]

    @property
    def holds(self) -> bool | None:
        """Whether the winner is nearest on the unseen images too; ``None`` without such images."""
        distances = [each.unseen for each in self.ranking if each.unseen is not None]
        if not distances or self.winner.unseen is None:
            return None
        return self.winner.unseen <= min(distances) + 1e-12


def match(
    target: Target,
    samples: Samples,
    rows: Sequence[int],
    configurations: Sequence[Configuration],
    *,
    probe: int = PROBE,
    seed: int = 0,
    threads: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Match:
    """Rank configurations by their distance to the target on the samples at ``rows``.

    Raises `NothingCompared` if no image can be compared or no configuration can run.
    """
    searched, unseen = _divided(rows, seed)
    search = Search(target, samples, threads, progress, len(rows))
    alive = list(configurations)
    rungs = []
    stops = [stop for stop in RUNGS if stop < min(probe, len(searched))]
    for stop in (*stops, min(probe, len(searched))):
        rungs.append((stop, len(alive)))
        alive = search.narrowed(alive, searched[:stop])
    groups = search.groups(alive, searched)
    ranking = tuple(search.ranked(group, searched, unseen) for group in groups[:FINALISTS])
    return Match(
        target.name,
        ranking,
        len(configurations),
        tuple(rungs),
        len([row for row in searched if row not in search.left_out]),
        len([row for row in unseen if row not in search.left_out]),
        tuple((samples.ids[row], reason) for row, reason in sorted(search.left_out.items())),
        target.facts,
        tuple(
            each.configurations[0].path(target.geometry, target.normalise, name=f"match-{place}")
            for place, each in enumerate(ranking, 1)
        ),
    )


def _divided(rows: Sequence[int], seed: int) -> tuple[list[int], list[int]]:
    """Rows in random order: those to search on, and those to keep for the check."""
    shuffled = np.random.default_rng(seed).permutation(np.asarray(rows, np.int64)).tolist()
    kept = min(UNSEEN, int(len(shuffled) * UNSEEN_SHARE))
    return shuffled[kept:], shuffled[:kept]


@dataclass(frozen=True, slots=True)
class Distance:
    """One configuration on one image."""

    mean: float
    """Mean |Δ| in grey levels; infinite where the configuration gave no comparable pixels."""
    greatest: float
    pixels: int
    """Checksum: with the two distances, equal for configurations with equal pixels."""


class Search:
    """Distances of configurations, each computed once an image."""

    def __init__(
        self,
        target: Target,
        samples: Samples,
        threads: int = 2,
        progress: Callable[[int, int], None] | None = None,
        total: int = 0,
    ) -> None:
        self.target, self.samples, self.threads = target, samples, threads
        self.progress, self.total = progress, total
        self.known: dict[int, dict[Configuration, Distance]] = {}
        self.left_out: dict[int, str] = {}

    def nearest(self, alive: list[Configuration], rows: Sequence[int]) -> Configuration:
        """The nearest on a few rows."""
        return self.narrowed(self.narrowed(alive, rows[: RUNGS[0]]), rows)[0]

    def measure(self, alive: Sequence[Configuration], rows: Sequence[int]) -> list[int]:
        """Make all distances known; gives the rows that could be compared."""
        with ThreadPoolExecutor(self.threads, "match") as pool:
            for row, found in zip(rows, pool.map(self._one(alive), rows), strict=True):
                if isinstance(found, str):
                    self.left_out[row] = found
                else:
                    self.known.setdefault(row, {}).update(found)
                if self.progress:
                    self.progress(len(self.known) + len(self.left_out), self.total)
        kept = [row for row in rows if row not in self.left_out]
        if not kept:
            reason = next(iter(self.left_out.values()), "there are no images")
            raise NothingCompared(f"{self.target.name} gives no pixels for any image: {reason}")
        return kept

    def _one(
        self, alive: Sequence[Configuration]
    ) -> Callable[[int], dict[Configuration, Distance] | str]:
        def one(row: int) -> dict[Configuration, Distance] | str:
            if row in self.left_out:
                return self.left_out[row]
            missing = [each for each in alive if each not in self.known.get(row, {})]
            if not missing:
                return {}
            wanted = self.target.levels(row)
            if isinstance(wanted, str):
                return wanted
            return distances(self.samples.read(row), wanted, missing, self.target)

        return one

    def means(self, alive: Sequence[Configuration], rows: Sequence[int]) -> FloatArray:
        """(configurations, images): mean |Δ|."""
        return np.array([[self.known[row][each].mean for row in rows] for each in alive])

    def narrowed(self, alive: list[Configuration], rows: Sequence[int]) -> list[Configuration]:
        """The configurations that may still be the nearest, and some of the next, nearest first."""
        kept = self.measure(alive, rows)
        means = self.means(alive, kept)
        usable = np.flatnonzero(np.isfinite(means).all(axis=1))
        if not len(usable):
            raise NothingCompared("no configuration prepares every image the target prepares")
        order = usable[np.argsort(means[usable].mean(axis=1), kind="stable")]
        limit = _distinct(means[order].mean(axis=1))
        near = _near(means[order])
        return [alive[i] for place, i in enumerate(order) if near[place] or place < limit]

    def groups(
        self, alive: Sequence[Configuration], rows: Sequence[int]
    ) -> list[list[Configuration]]:
        """Configurations by equal pixels on every row, nearest first; each in the given order."""
        kept = self.measure(alive, rows)
        by_pixels: dict[tuple[Distance, ...], list[Configuration]] = {}
        for each in alive:
            by_pixels.setdefault(tuple(self.known[row][each] for row in kept), []).append(each)
        groups = [
            sorted(group, key=_libraries)
            for group in by_pixels.values()
            if self._finite(group[0], kept)
        ]
        return sorted(groups, key=lambda group: self.means(group[:1], kept).mean())

    def _finite(self, configuration: Configuration, rows: Sequence[int]) -> bool:
        return bool(np.isfinite(self.means([configuration], rows)).all())

    def ranked(
        self, group: Sequence[Configuration], rows: Sequence[int], unseen: Sequence[int]
    ) -> Ranked:
        """A group's distances on the search's rows and on the unseen ones."""
        first = group[0]
        kept = [row for row in rows if row not in self.left_out]
        checked = self.measure([first], unseen) if unseen else []
        seen = [self.known[row][first] for row in kept]
        others = [self.known[row][first] for row in checked]
        return Ranked(
            tuple(group),
            _estimate(np.array([each.mean for each in seen])),
            max(each.greatest for each in seen),
            sum(each.greatest <= self.target.tolerance for each in seen),
            float(np.mean([each.mean for each in others])) if others else None,
            sum(each.greatest <= self.target.tolerance for each in others),
        )


def _libraries(configuration: Configuration) -> int:
    """How many libraries are needed: of equal pixels, the plainest way comes first."""
    return len({type(each).__module__.rpartition(".")[2] for each in
                (configuration.decode, configuration.resizer)})  # fmt: skip


def _near(means: FloatArray) -> npt.NDArray[np.bool_]:
    """(configurations,): which are not clearly farther than the first."""
    images = means.shape[1]
    if images < FEW:
        return np.atleast_1d(means.mean(axis=1) <= 3 * means[0].mean() + 1.0)
    farther = means - means[0]
    error = farther.std(axis=1, ddof=1) / np.sqrt(images)
    return np.atleast_1d(farther.mean(axis=1) <= SIGMAS * error)


def _distinct(ordered: FloatArray) -> int:
    """How many of the ordered means make up the first `FINALISTS` different ones."""
    steps = np.flatnonzero(np.diff(ordered) > 1e-9)
    return int(steps[FINALISTS - 1] + 1) if len(steps) >= FINALISTS else len(ordered)


def _estimate(means: FloatArray) -> Estimate:
    value = float(means.mean())
    draws = [means @ weights / len(means) for weights in resample_weights(len(means), 1000, 0)]
    low, high = percentile_interval(np.concatenate(draws)[None])[:, 0]
    return Estimate(value, float(low), float(high))


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
        image = self._oriented(configuration)
        if isinstance(image, str):
            return image
        path = configuration.path(self.target.geometry, self.target.normalise)
        resized = self._once(("resize", id(image), configuration.resizer), path.resize, image)
        if isinstance(resized, str):
            return resized
        cut = self._once(("crop", id(resized)), path.crop, resized)
        if isinstance(cut, str):
            return cut
        rounded = self._once(("round", id(cut), configuration.rounding), path.quantise, cut)
        return self._once(("colour", id(rounded)), path.colour, rounded)

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
