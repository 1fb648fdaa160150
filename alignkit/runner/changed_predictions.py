"""The images that changed their prediction between two paths, ranked: a matter of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from alignkit.compare.answers import Answers, aligned
from alignkit.findings.matrix import predictions_of
from alignkit.record import Drawn, DrawnPair, ServedPredictions
from alignkit.record.picture_facts import write_pair, write_truth
from alignkit.task_facts import TaskFacts

if TYPE_CHECKING:
    from alignkit.predict.predict_cells import Predicted

Turned: TypeAlias = Literal["", "worse", "better", "neither", "changed"]


@dataclass(frozen=True, slots=True)
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
            changed = each.before.changed(each.after)
            changes[at] |= changed
            # without labels no quality is less than another: all are NaN
            losses[at] |= changed & (each.after.quality() < each.before.quality())
            which = np.flatnonzero(changed)
            moved = each.before.apart(each.after)[which]
            moved = np.nan_to_num(moved, nan=np.inf)
            shift[at[changed]] = np.maximum(shift[at[changed]], moved)
        models += changes
        lost += losses
    order = sorted(np.flatnonzero(models), key=lambda at: (-models[at], -lost[at], -shift[at]))
    return tuple(
        PredictionChange(ids[at], int(models[at]), int(lost[at]), float(shift[at])) for at in order
    )


@dataclass(frozen=True, slots=True)
class _Said:
    """One model's two answers to an image."""

    served: Served
    place: int
    """Index of the image."""
    changed: bool
    gain: float
    """Of quality; NaN if it is unknown."""

    @property
    def turned(self) -> Turned:
        """How the answer changed."""
        if not self.changed:
            return ""
        if math.isnan(self.gain):
            return "changed"
        return "better" if self.gain > 0 else "worse" if self.gain < 0 else "neither"

    def drawn(self, folder: Path) -> tuple[DrawnPair, Drawn | None] | None:
        """Write what a page draws of both answers, and the truth; ``None`` for nothing."""
        before, after = self.served.before, self.served.after
        values = before.drawn(self.place, after), after.drawn(self.place, before)
        if not values[0] and not values[1]:
            return None
        return write_pair(folder, self.served.seed, *values), write_truth(folder, values[0])


class ServedImages:
    """The predictions of `served_between`, by image."""

    def __init__(self, served: Sequence[Served], task: TaskFacts) -> None:
        self._task = task
        self._models: dict[str, list[Served]] = {}
        for each in served:
            self._models.setdefault(each.model, []).append(each)
        self._places = {
            id(each): {name: place for place, name in enumerate(each.before.ids)} for each in served
        }
        self._changed = {id(each): each.before.changed(each.after) for each in served}
        # of all images at once: the quality of an embedding is that of a search among them
        self._gain = {id(each): each.after.quality() - each.before.quality() for each in served}

    @property
    def ids(self) -> tuple[str, ...]:
        """Every image that a model predicted on both paths."""
        return tuple(dict.fromkeys(name for each in self._places.values() for name in each))

    def of(self, image: str, folder: Path) -> tuple[tuple[ServedPredictions, ...], Drawn | None]:
        """Return the predictions of each row whose models predicted the image on both paths.

        A model's are those in the runtime of its own path; or, if the image changes in others
        alone, in the first of these. Also return the truth, as it is drawn; drawings are written
        below ``folder``.
        """
        rows: dict[tuple[str, str], list[_Said]] = {}
        for runtimes in self._models.values():
            said = [
                _Said(
                    each,
                    place,
                    bool(self._changed[id(each)][place]),
                    float(self._gain[id(each)][place]),
                )
                for each in runtimes
                if (place := self._places[id(each)].get(image)) is not None
            ]
            if said:
                one = min(said, key=lambda each: (not each.changed, not each.served.own_runtime))
                row = one.served.trained_with, one.served.evaluated_with
                rows.setdefault(row, []).append(one)
        found, truth = [], None
        for said in rows.values():
            # the first seed that changed, else the first
            drawn = min(said, key=lambda each: not each.changed).drawn(folder)
            truth = truth or (drawn and drawn[1])
            found.append(self._predictions(said, drawn and drawn[0]))
        return tuple(found), truth

    def _predictions(self, said: Sequence[_Said], drawn: DrawnPair | None) -> ServedPredictions:
        first = said[0].served
        return ServedPredictions(
            trained_with=first.trained_with,
            evaluated_with=first.evaluated_with,
            seeds=tuple(each.served.seed for each in said),
            before=tuple(each.served.before.said(each.place) for each in said),
            after=tuple(each.served.after.said(each.place) for each in said),
            runtimes=tuple("" if e.served.own_runtime else e.served.runtime for e in said),
            # classes say themselves what changed
            turned=() if self._task.class_scores else tuple(each.turned for each in said),
            drawn=drawn,
        )
