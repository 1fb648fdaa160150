"""`Search`: narrow configurations down to the nearest, each measured once on an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.compare.bootstrap import resample_weights
from alignkit.compare.statistics import percentile_interval
from alignkit.errors import NothingCompared
from alignkit.isolation.worker import Encoded
from alignkit.match.configurations import Configuration
from alignkit.match.distances import MeasureDistances, PixelDistance
from alignkit.preprocess.image_taps import run_isolated
from alignkit.record import Estimate

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray
    from alignkit.match.target import Target
    from alignkit.samples import Samples

RUNGS = (2, 8, 32, 128)
"""Images after which configurations are dropped."""
FINALISTS = 8
"""Number of different results that reach the end, however far from the best."""
FEW = 8
"""Below this number of images, a configuration is dropped only if it is more than three times as
far as the best."""
SIGMAS = 4.0
"""From `FEW` images on, a configuration is dropped if it is farther than the best by more standard
errors than this."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Configurations that give the same pixels on every image, with their distance."""

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


class Search:
    """Distances of configurations, each computed once for each image."""

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
        self.known: dict[int, dict[Configuration, PixelDistance]] = {}
        self.left_out: dict[int, str] = {}

    def nearest(self, alive: list[Configuration], rows: Sequence[int]) -> Configuration:
        """Return the nearest on a few rows."""
        return self.narrowed(self.narrowed(alive, rows[: RUNGS[0]]), rows)[0]

    def measure(self, alive: Sequence[Configuration], rows: Sequence[int]) -> list[int]:
        """Compute all missing distances; return the rows that could be compared."""
        asked: list[int] = []
        work = MeasureDistances(tuple(alive), replace(self.target, levels=None))
        parts = run_isolated(
            work, work.preprocesses, self._images(alive, rows, asked), processes=self.threads,
            images_a_task=1,
        )  # fmt: skip
        for number, (found,) in enumerate(parts):
            row = asked[number]
            if isinstance(found, str):
                self.left_out[row] = found
            else:
                by_place = {alive[place]: each for place, each in found.items()}
                self.known.setdefault(row, {}).update(by_place)
            if self.progress:
                self.progress(len(self.known) + len(self.left_out), self.total)
        kept = [row for row in rows if row not in self.left_out]
        if not kept:
            reason = next(iter(self.left_out.values()), "there are no images")
            raise NothingCompared(f"{self.target.name} gives no pixels for any image: {reason}")
        return kept

    def _images(
        self, alive: Sequence[Configuration], rows: Sequence[int], asked: list[int]
    ) -> Iterator[Encoded]:
        """Yield the images on which a distance is missing; append their rows to ``asked``."""
        for row in rows:
            known, wanted = self.known.get(row, {}), None
            missing = [place for place, each in enumerate(alive) if each not in known]
            if not missing or row in self.left_out:
                continue
            if self.target.levels:
                wanted = self.target.levels(row)
            if isinstance(wanted, str):
                self.left_out[row] = wanted
                continue
            asked.append(row)
            data = self.samples.read(row)
            yield Encoded(self.samples.ids[row], data, given=(missing, wanted))

    def means(self, alive: Sequence[Configuration], rows: Sequence[int]) -> FloatArray:
        """Return mean |Δ|, (configurations, images)."""
        return np.array([[self.known[row][each].mean for row in rows] for each in alive])

    def narrowed(self, alive: list[Configuration], rows: Sequence[int]) -> list[Configuration]:
        """Keep those that may still be the nearest, and some of the next, nearest first."""
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
        """Group configurations by equal pixels on every row, the nearest group first."""
        kept = self.measure(alive, rows)
        by_pixels: dict[tuple[PixelDistance, ...], list[Configuration]] = {}
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
        """Measure a group on the search's rows and on the unseen ones."""
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
    """Count the libraries needed: among equal pixels, the plainest configuration comes first."""
    return len({type(each).__module__.rpartition(".")[2] for each in
                (configuration.decode, configuration.resizer)})  # fmt: skip


def _near(means: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which are not clearly farther than the first, (configurations,)."""
    images = means.shape[1]
    if images < FEW:
        return np.atleast_1d(means.mean(axis=1) <= 3 * means[0].mean() + 1.0)
    farther = means - means[0]
    error = farther.std(axis=1, ddof=1) / np.sqrt(images)
    return np.atleast_1d(farther.mean(axis=1) <= SIGMAS * error)


def _distinct(ordered: FloatArray) -> int:
    """Count the ordered means up to the last of the first `FINALISTS` different ones."""
    steps = np.flatnonzero(np.diff(ordered) > 1e-9)
    return int(steps[FINALISTS - 1] + 1) if len(steps) >= FINALISTS else len(ordered)


def _estimate(means: FloatArray) -> Estimate:
    value = float(means.mean())
    draws = [means @ weights / len(means) for weights in resample_weights(len(means), 1000, 0)]
    low, high = percentile_interval(np.concatenate(draws)[None])[:, 0]
    return Estimate(value, float(low), float(high))
