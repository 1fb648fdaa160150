"""The pace of work that is stored here, in seconds an image, and the cost of planned work.

Every pace was measured on this machine, in this or an earlier run of any experiment, by its own
processes; there is none where nothing similar is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from alignkit.place import FULL
from alignkit.plan.planned_attribution import PlannedAttribution
from alignkit.plan.work import Evaluation, PixelComparison, Training
from alignkit.prepare import Preparation
from alignkit.stored_file import DamagedError
from alignkit.workspace import Finished, WorkKind

if TYPE_CHECKING:
    from alignkit.outcome import PlannedWork

_MUCH = 2
"""Times as many images, above which similar work is much smaller."""
_NEWEST = 10
"""Similar works that decide, the newest: a machine changes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and storage that work would take."""

    seconds: float | None
    """``None`` if some of the work has no similar work stored here."""
    bytes: int | None
    scaled_up: bool = False
    """Whether the similar work is much smaller."""
    of_others: bool = False
    """Whether it is the work of other images, which may be larger or smaller."""

    def __add__(self, other: Cost) -> Cost:
        sums = _sum(self.seconds, other.seconds), _sum(self.bytes, other.bytes)
        flags = self.scaled_up or other.scaled_up, self.of_others or other.of_others
        return Cost(*sums, *flags)


NOTHING = Cost(0.0, 0)
UNKNOWN = Cost(None, None)


def _sum(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


@dataclass(frozen=True)
class Rates:
    """The finished work of a machine, by kind, oldest first."""

    finished: Mapping[WorkKind, Sequence[Finished]]
    train: int
    """Training images of the plan."""
    evaluation: int
    """Evaluation images of the plan."""

    def cost(self, work: PlannedWork) -> Cost:
        """Estimate the cost of one unit of work by similar work."""
        if isinstance(work, Training):
            return self._training(work.parts)
        if isinstance(work, Evaluation):
            return self._cell(work)
        if isinstance(work, PixelComparison):
            return self._comparison(work)
        if isinstance(work, PlannedAttribution):
            return self._attribution(work)
        assert isinstance(work, Preparation)
        return self._preparation(work)

    def _alike(self, kind: WorkKind, *similar: Callable[[Finished], bool]) -> list[Finished]:
        """Return the newest works that meet a condition: the first that any work meets."""
        # the workers of an engine are others, and more or fewer
        timed = [each for each in self.finished[kind] if each.images and not each.engine]
        found: Iterable[list[Finished]] = ([w for w in timed if like(w)] for like in similar)
        return next(filter(None, found), [])[-_NEWEST:]

    def _training(self, parts: dict[str, Any]) -> Cost:
        trained = self.finished["trainings"]
        alike = [each for each in trained if _speed_class(each.parts) == _speed_class(parts)]
        rates = [rate for each in alike[-_NEWEST:] for rate in _epoch_rates(each)]
        if not rates:
            return UNKNOWN
        share = parts.get("fraction", FULL) * (1 - parts["recipe"]["holdout"])
        seconds = parts["recipe"]["epochs"] * share * self.train / median(rates)
        return Cost(seconds, int(median(each.bytes() for each in alike)))

    def _preparation(self, work: Preparation) -> Cost:
        stages, samples = work.parts["stages"], work.parts["samples"]

        def same_path(each: Finished) -> bool:
            return bool(each.parts["stages"] == stages)

        def same_images(each: Finished) -> bool:
            return same_path(each) and _of(samples, each)

        alike = self._alike("prepared", same_images, same_path)
        return _of_images(samples, alike, self.images(work))

    def images(self, work: PlannedWork) -> int:
        """Count the images of a preparation or a comparison."""
        trained = isinstance(work, Preparation) and work.split == "train"
        return self.train if trained else self.evaluation

    @cached_property
    def _trained(self) -> dict[str, dict[str, Any]]:
        """The parts of each finished training, by its key."""
        return {each.folder.name: each.parts for each in self.finished["trainings"]}

    def _cell(self, cell: Evaluation) -> Cost:
        def same_runtime(each: Finished) -> bool:
            # a task's option may decide the size
            return all(each.parts.get(name) == cell.parts.get(name) for name in ("runtime", "task"))

        def same_model(each: Finished) -> bool:
            return same_runtime(each) and each.parts["training"] == cell.parts["training"]

        def like_model(each: Finished) -> bool:
            model = self._trained.get(each.parts["training"])
            return (
                model is not None
                and same_runtime(each)
                and _speed_class(model) == _speed_class(cell.training.parts)
            )

        given = cell.training.given is not None
        conditions = (same_model,) if given else (same_model, like_model)
        return _scaled(self._alike("cells", *conditions), self.evaluation)

    def _comparison(self, work: PixelComparison) -> Cost:
        kind = work.parts.keys()
        paths = {name: work.parts[name]["stages"] for name in ("reference", "candidate")}

        def same_paths(each: Finished) -> bool:
            return each.parts.keys() == kind and all(
                each.parts[name]["stages"] == stages for name, stages in paths.items()
            )

        def same_images(each: Finished) -> bool:
            return each.parts.keys() == kind and _of(work.images, each)

        def same(each: Finished) -> bool:
            return same_paths(each) and same_images(each)

        alike = self._alike("comparisons", same, same_images, same_paths)
        return _of_images(work.images, alike, self.evaluation)

    def _attribution(self, work: PlannedAttribution) -> Cost:
        wanted = work.parts
        alike = self._alike(
            "comparisons",
            lambda each: (
                each.label == work.label
                and all(each.parts.get(name) == wanted[name] for name in ("paths", "runtimes"))
                and bool(each.parts["models"]) == bool(work.models)
            ),
        )
        # every model predicts every mixture
        models = [max(1, len(each.parts["models"])) for each in alike]
        images = work.scope.images or self.evaluation
        return _scaled(alike, images * max(1, len(work.models)), models)


def _of(samples: str, finished: Finished) -> bool:
    """Tell whether work on pixels was that of the images with this fingerprint."""
    return bool(finished.parts["samples"] == samples)


def _of_images(samples: str, alike: Sequence[Finished], images: int) -> Cost:
    others = any(not _of(samples, each) for each in alike)
    return replace(_scaled(alike, images), of_others=others)


def _scaled(alike: Sequence[Finished], images: int, times: Sequence[int] = ()) -> Cost:
    """Scale the median time and size of an image, in the largest similar works, to many images.

    Small works tell more of the start of libraries than of images.
    """
    if not alike:
        return UNKNOWN
    factors = times or [1] * len(alike)
    units = [(each.images or 1) * n for each, n in zip(alike, factors, strict=True)]
    large = [(each, n) for each, n in zip(alike, units, strict=True) if _MUCH * n > max(units)]
    # the median: one run on a busy machine must not decide
    pace = median(each.seconds / n for each, n in large)
    size = median(each.bytes() / n for each, n in large)
    return Cost(pace * images, int(size * images), images > _MUCH * max(units))


def _epoch_rates(trained: Finished) -> list[float]:
    """Return the images per second of every epoch; none if the log is damaged."""
    try:
        trained.verify(["log.json"])
    except DamagedError:
        return []
    log = json.loads((trained.folder / "log.json").read_text())
    return [epoch["images_per_second"] for epoch in log["epochs"]]


def _speed_class(parts: dict[str, Any]) -> tuple[Any, ...]:
    """Return what decides a training's images per second."""
    recipe, stages = parts["recipe"], parts["preprocess"]["stages"]
    size = stages["crop"]["size"] or stages["resize"]["size"]
    own = recipe["model"], recipe["device"], recipe["batch_size"], tuple(size)
    return (*own, parts.get("embedding"))
