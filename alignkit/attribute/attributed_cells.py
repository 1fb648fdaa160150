"""The cells that an attribution begins from, and the runtimes and images that it covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alignkit.attribute.mixture_records import CellSession
from alignkit.backends import QUANTISED_GRAPH
from alignkit.compare.answers import aligned
from alignkit.outcome import Measured
from alignkit.predict import Answer, model_file, open_session
from alignkit.predict.decoder import AnswerDecoder
from alignkit.workspace import Finished

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.planned_attribution import PlannedAttribution
    from alignkit.plan.work import Evaluation, Runtime
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.samples import Samples
    from alignkit.workspace import Workspace

_FEWEST = 10
"""Images that are mixed however small the budget is."""


def draw_by_class(samples: Samples, count: int) -> list[int]:
    """Draw images evenly from all classes, as every machine does; return ascending indices.

    Images whose truth is not one class are drawn by chance.
    """
    shuffled = np.random.default_rng(0).permutation(len(samples))
    if samples.labels:
        labels = np.asarray(samples.labels)[shuffled]
        shuffled = shuffled[np.argsort(labels, kind="stable")]
    # equal steps through the classes: each gets its share of the images
    places = (np.arange(count) + 0.5) * len(samples) / count
    return sorted(shuffled[places.astype(np.int64)].tolist())


def unfused_of(runtime: Runtime, graphs: Mapping[Runtime, Sequence[str]]) -> Runtime | None:
    """Find the runtime that executes the int8 graph of another unfused, for every model.

    ``graphs`` names the graph of each model in each runtime; the name is empty without one.
    """
    own = graphs[runtime]
    if runtime.simulation or not own or not all(own):
        return None
    others = (each for each, theirs in graphs.items() if each.simulation and theirs == own)
    return next(others, None)


@dataclass(frozen=True, slots=True)
class AttributedCells:
    """The cells of one row's models on the two paths of an attribution."""

    planned: PlannedAttribution
    predicted: Mapping[tuple[str, Runtime, str], Predicted]
    """By training, runtime and path; those that were measured."""

    @classmethod
    def of(cls, planned: PlannedAttribution, predicted: Sequence[Predicted]) -> AttributedCells:
        """Choose a planned attribution's cells from those of a run."""
        paths = planned.reference.name, planned.candidate.name
        found: dict[tuple[str, Runtime, str], Predicted] = {}
        for each in predicted:
            cell = each.evaluation
            place = cell.training.key, cell.runtime, cell.place.column.preprocess
            wanted = place[0] in planned.models and place[2] in paths
            if wanted and isinstance(each.ended, Measured):
                found.setdefault(place, each)
        return cls(planned, found)

    def answer(self, model: str, runtime: Runtime, path: str) -> Answer | None:
        """Return what a cell answered; ``None`` if it was not measured."""
        found = self.predicted.get((model, runtime, path))
        return found.ended.value if found and isinstance(found.ended, Measured) else None

    def runtimes(self) -> tuple[Runtime, ...]:
        """Return the runtimes to attribute: all, or the reference runtime and the worst if known.

        Beside a worst runtime of int8 stands the one that executes its graph unfused.
        """
        every = self.planned.runtimes
        if self.planned.scope.every_runtime:
            return every
        worst = self.worst()
        if worst is None:
            return every[:1]
        unfused = unfused_of(worst, {each: self._graphs(each) for each in every})
        return tuple(each for each in every if each in {every[0], worst, unfused})

    def _graphs(self, runtime: Runtime) -> list[str]:
        name = self.planned.reference.name
        answers = [self.answer(model, runtime, name) for model in self.planned.models]
        return [each.effective.get(QUANTISED_GRAPH, "") if each else "" for each in answers]

    def worst(self) -> Runtime | None:
        """Find the runtime in which the candidate changes most predictions; ``None`` if unknown."""
        churns = {each: self._churn(each) for each in self.planned.runtimes}
        known = {each: churn for each, churn in churns.items() if churn is not None}
        # of equal ones the first: the reference runtime needs no other session
        return max(known, key=lambda each: known[each]) if known else None

    def _churn(self, runtime: Runtime) -> float | None:
        planned = self.planned
        changed = []
        for model in planned.models:
            before = self.answer(model, planned.runtimes[0], planned.reference.name)
            after = self.answer(model, runtime, planned.candidate.name)
            if before is None or after is None:
                return None
            both = aligned(before.predictions, after.predictions)
            whole = np.ones((len(both[0]), 1), np.float32)
            changed.append(float(both[0].churn(both[1]).of(whole)[0]))
        return float(np.mean(changed)) if changed else None

    def images(self, of: int, workspace: Workspace) -> tuple[int, bool]:
        """Return the number of images to mix, of those of the evaluation.

        Also return whether ``seconds`` could not limit it, as the time of a cell is not stored.
        """
        scope = self.planned.scope
        most = of if scope.images is None else scope.images
        if scope.seconds is None:
            return most, False
        seconds = self._seconds_an_image(workspace)
        if seconds is None:
            return most, True
        stages, inside = seconds
        limit = most if scope.inside_decode is None else min(scope.inside_decode, most)
        if stages * most + inside * limit <= scope.seconds:
            return most, False
        number = scope.seconds / (stages + inside)
        if number > limit:  # the others are mixed by stages alone
            number = (scope.seconds - inside * limit) / stages
        return min(most, max(min(_FEWEST, of), int(number))), False

    def _seconds_an_image(self, workspace: Workspace) -> tuple[float, float] | None:
        """Estimate the predictions of an image's mixtures by the stored times of the cells.

        Return those of stages, and those inside decode; ``None`` if the time of a cell whose
        mixtures are predicted is not stored.
        """
        runtimes, stages, within = self.runtimes(), 0.0, 0.0
        counted = self.planned.predictions(len(runtimes))
        inside = self.planned.scope.predictions_inside and self.planned.predictions_inside_decode
        for runtime, count in zip(runtimes, counted, strict=True):
            more = inside if runtime == runtimes[0] else 0
            for model in self.planned.models if count + more else ():
                place = model, runtime, self.planned.reference.name
                answer, cell = self.answer(*place), self.predicted[place].evaluation
                folder = workspace.stored(cell.kind, cell.key)
                if folder is None or answer is None:
                    return None
                seconds = Finished.read(folder).seconds / len(answer.predictions)
                stages, within = stages + count * seconds, within + more * seconds
        return stages, within

    @contextmanager
    def opened(
        self,
        checkpoints: Mapping[str, Checkpoint],
        sets: Sets,
        batch_size: int,
        workspace: Workspace,
    ) -> Iterator[list[dict[Runtime, CellSession]]]:
        """Give each model's sessions by runtime, opened when they predict, closed by the end."""

        def session(evaluation: Evaluation) -> Session:
            checkpoint = checkpoints[evaluation.training.key]
            file = model_file(evaluation, checkpoint, sets, workspace)
            return stack.enter_context(open_session(evaluation.runtime, checkpoint, file))

        def cells(model: str, runtime: Runtime) -> CellSession:
            own, other = self.planned.reference.name, self.planned.candidate.name
            answer, candidate = self.answer(model, runtime, own), self.answer(model, runtime, other)
            assert answer is not None  # a planned runtime ran on the reference path
            evaluation = self.predicted[model, runtime, own].evaluation
            checkpoint = checkpoints[evaluation.training.key]
            return CellSession(
                partial(session, evaluation),
                AnswerDecoder.of(evaluation.task, checkpoint, sets.evaluation.classes),
                answer.effective,
                answer.predictions,
                candidate.predictions if candidate is not None else None,
                batch_size,
                any_size=answer.batch.max_abs == 0,
            )

        # sessions may hold a GPU's memory, so all are closed before the next pair
        with ExitStack() as stack:
            yield [
                {runtime: cells(model, runtime) for runtime in self.runtimes()}
                for model in self.planned.models
            ]
