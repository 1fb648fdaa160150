"""The images that changed their prediction between two paths, ranked: a matter of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers, aligned
from alignkit.findings.matrix import predictions_of
from alignkit.record import Drawn, DrawnPair, ServedPredictions
from alignkit.record.picture_facts import write_pair, write_truth
from alignkit.task_facts import TaskFacts

if TYPE_CHECKING:
    from alignkit.predict.predict_cells import Predicted


_TURNS: tuple[Literal["", "worse", "better", "neither", "changed"], ...]
_TURNS = ("", "worse", "better", "neither", "changed")


@dataclass(frozen=True)
class Served:
    """Predictions of one model, served as it was trained and along the other path of a pair."""

    model: str
    """Key of the training."""
    trained_with: str
    """The row's name."""
    evaluated_with: str
    seed: int
    runtime: str
    """Of ``after``."""
    own_runtime: bool
    """Whether it is that of ``before``, too."""
    before: Answers
    after: Answers
    """Of the same images, in the same order."""

    @cached_property
    def places(self) -> dict[str, int]:
        """Index of each image."""
        return {name: place for place, name in enumerate(self.before.ids)}

    # of all images at once: the quality of an embedding is that of a search among them
    @cached_property
    def turned(self) -> npt.NDArray[np.uint8]:
        """How each image's answer changed, (n,), a place in `_TURNS`: the last without labels."""
        gain = self.after.quality() - self.before.quality()
        kinds = [~self.before.changed(self.after), gain < 0, gain > 0, gain == 0]
        return np.select(kinds, [0, 1, 2, 3], 4).astype(np.uint8)

    def changed(self, image: str) -> bool:
        """Tell whether the answer to an image changed."""
        return bool(self.turned[self.places[image]])


@dataclass(frozen=True, slots=True)
class PredictionChange:
    """An image whose prediction changed in at least one model and runtime."""

    id: str
    models: int
    """Models in which it changed, in any runtime."""
    lost: int
    """Models in which it became worse: of a class, turned from right to wrong."""
    shift: float
    """The greatest distance of a changed answer (of a class, mean |Δ logit|); infinite if it is
    unknown."""


def served_between(predicted: Sequence[Predicted], paths: Iterable[str]) -> tuple[Served, ...]:
    """List what every model of two ``paths`` predicted, its own path first in each pair.

    Over all rows, seeds and runtimes, in the order of ``predicted``; cells that did not run are
    left out. A class changes against the same model served as it was trained.
    """
    both = set(paths)
    homes = {each.evaluation.training.key: each for each in predicted if each.evaluation.aligned}
    found = []
    for each in predicted:
        home = homes.get(each.evaluation.training.key)
        if home is None or {_path(home), _path(each)} != both:
            continue
        before, after = predictions_of(home), predictions_of(each)
        if before is None or after is None or set(before.ids).isdisjoint(after.ids):
            continue
        found.append(
            Served(
                each.evaluation.training.key,
                str(each.evaluation.training.row),
                _path(each),
                each.evaluation.training.seed,
                each.evaluation.place.column.runtime,
                each.evaluation.runtime == home.evaluation.runtime,
                *aligned(before, after),
            )
        )
    return tuple(found)


def _path(predicted: Predicted) -> str:
    return predicted.evaluation.place.column.preprocess


def ranked_changes(served: Sequence[Served]) -> tuple[PredictionChange, ...]:
    """List the images that changed: most models first, then most lost, then the greatest shift.

    Equal ones keep the order in which ``served`` has them.
    """
    ids = tuple(dict.fromkeys(name for each in served for name in each.before.ids))
    places = {name: place for place, name in enumerate(ids)}
    models, lost = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    shift = np.zeros(len(ids))
    for model in dict.fromkeys(each.model for each in served):
        changes, losses = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        for each in (each for each in served if each.model == model):
            at = np.array([places[name] for name in each.before.ids], np.int64)
            changed = each.turned > 0
            changes[at] |= changed
            losses[at] |= each.turned == _TURNS.index("worse")
            moved = each.before.apart(each.after)[changed]
            moved = np.nan_to_num(moved, nan=np.inf)
            shift[at[changed]] = np.maximum(shift[at[changed]], moved)
        models += changes
        lost += losses
    order = sorted(np.flatnonzero(models), key=lambda at: (-models[at], -lost[at], -shift[at]))
    return tuple(
        PredictionChange(ids[at], int(models[at]), int(lost[at]), float(shift[at])) for at in order
    )


class ServedImages:
    """The predictions of `served_between`, by image."""

    def __init__(self, served: Sequence[Served], task: TaskFacts) -> None:
        self._task = task
        self._models: dict[str, list[Served]] = {}
        for each in served:
            self._models.setdefault(each.model, []).append(each)

    @property
    def ids(self) -> tuple[str, ...]:
        """Every image that a model predicted on both paths."""
        served = (each for runtimes in self._models.values() for each in runtimes)
        return tuple(dict.fromkeys(name for each in served for name in each.before.ids))

    def of(self, image: str, folder: Path) -> tuple[tuple[ServedPredictions, ...], Drawn | None]:
        """Return the predictions of each row whose models predicted the image on both paths.

        A model's are those in the runtime of its own path; or, if the image changes in others
        alone, in the first of these. Also return the truth, as it is drawn; drawings are written
        below ``folder``.
        """
        rows: dict[tuple[str, str], list[Served]] = {}
        for runtimes in self._models.values():
            if known := [each for each in runtimes if image in each.places]:
                one = min(known, key=lambda each: (not each.changed(image), not each.own_runtime))
                rows.setdefault((one.trained_with, one.evaluated_with), []).append(one)
        found, truth = [], None
        for row in rows.values():
            # the first seed that changed, else the first
            shown = min(row, key=lambda each: not each.changed(image))
            place = shown.places[image]
            values = shown.before.drawn(place, shown.after), shown.after.drawn(place, shown.before)
            drawn = write_pair(folder, shown.seed, *values) if any(values) else None
            if drawn and truth is None:
                truth = write_truth(folder, values[0])
            found.append(self._predictions(row, image, drawn))
        return tuple(found), truth

    def _predictions(
        self, row: Sequence[Served], image: str, drawn: DrawnPair | None
    ) -> ServedPredictions:
        at = [(each, each.places[image]) for each in row]
        return ServedPredictions(
            trained_with=row[0].trained_with,
            evaluated_with=row[0].evaluated_with,
            seeds=tuple(each.seed for each in row),
            before=tuple(each.before.said(place) for each, place in at),
            after=tuple(each.after.said(place) for each, place in at),
            runtimes=tuple("" if each.own_runtime else each.runtime for each in row),
            # classes say themselves what changed
            turned=() if self._task.class_scores else tuple(_TURNS[e.turned[p]] for e, p in at),
            drawn=drawn,
        )
