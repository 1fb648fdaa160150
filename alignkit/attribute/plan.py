"""Attribution over a whole plan: which stage costs the models of the reference path what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from alignkit.attribute.facts import not_attributed
from alignkit.attribute.runs import Models, attribute_stored
from alignkit.errors import NothingCompared
from alignkit.outcome import Measured
from alignkit.plan.attribution import PlannedAttribution, Runtime
from alignkit.predict import open_session
from alignkit.predict.model_file import model_file
from alignkit.progress import Progress, advancing
from alignkit.record import AttributionFacts
from alignkit.record.place import is_row_of

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Evaluation, Plan
    from alignkit.plan.sets import Sets
    from alignkit.predict.cells import Predicted
    from alignkit.workspace import Workspace


def attribute_paths(
    plan: Plan,
    checkpoints: Mapping[str, Checkpoint],
    predicted: Sequence[Predicted],
    sets: Sets,
    workspace: Workspace,
    progress: Progress,
) -> tuple[AttributionFacts, ...]:
    """The reference path's models, served along every other path and in every runtime that ran.

    ``checkpoints`` maps a training's planned key to its model.
    """
    row = _row(plan, checkpoints, predicted, sets, workspace)
    if row is None:
        return ()
    found: tuple[AttributionFacts, ...] = ()
    for candidate in plan.experiment.paths[1:]:
        if not sets.usable(candidate.name, "eval"):
            continue
        planned = PlannedAttribution(
            plan.experiment.reference,
            candidate,
            sets.evaluation.fingerprint,
            row.models,
            row.runtimes,
            plan.experiment.content.evaluate.resamples,
        )
        detail = f"{planned.reference.name} to {candidate.name}"
        with progress.stage("attribute", len(sets.evaluation), detail) as stage:
            try:
                found += attribute_stored(
                    planned, sets.evaluation, row.opened, workspace, progress=advancing(stage)
                )
            except NothingCompared as error:
                found += (not_attributed(planned.reference.name, candidate.name, str(error)),)
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    """The models to attribute the drift of."""

    models: tuple[str, ...]
    """Key of each model's training."""
    runtimes: tuple[Runtime, ...]
    """The reference runtime first."""
    opened: Callable[[], AbstractContextManager[Models]]


def _row(
    plan: Plan,
    checkpoints: Mapping[str, Checkpoint],
    predicted: Sequence[Predicted],
    sets: Sets,
    workspace: Workspace,
) -> _Row | None:
    """The reference path's models that predicted, in the runtimes all of them ran in, if any."""
    reference = plan.experiment.reference.name
    rows = [each.row for each in plan.trainings if is_row_of(each.row, reference)]
    if not rows:  # none of the given models was trained with it
        return None
    ran = _ran(rows[0], reference, predicted)
    if not ran:
        return None
    shared = [
        runtime
        for runtime in next(iter(ran.values()))
        if all(runtime in runtimes for runtimes in ran.values())
    ]
    models = [
        (checkpoints[key], [runtimes[runtime] for runtime in shared])
        for key, runtimes in ran.items()
    ]
    return _Row(tuple(ran), tuple(shared), partial(_opened, models, sets, workspace))


def _ran(
    row: str, reference: str, predicted: Sequence[Predicted]
) -> dict[str, dict[Runtime, Evaluation]]:
    """Training's key → what ran of it on the reference path; without those whose first did not."""
    ran: dict[str, dict[Runtime, Evaluation]] = {}
    for each in predicted:
        evaluation = each.evaluation
        own = evaluation.training.row == row and evaluation.evaluated_with == reference
        if own and isinstance(each.ended, Measured):
            ran.setdefault(evaluation.training.key, {})[_runtime(evaluation)] = evaluation
    first = {each.evaluation.training.key: each for each in predicted if each.evaluation.aligned}
    return {
        key: runtimes for key, runtimes in ran.items() if isinstance(first[key].ended, Measured)
    }


def _runtime(evaluation: Evaluation) -> Runtime:
    return evaluation.runtime.name, evaluation.runtime.precision


@contextmanager
def _opened(
    models: Sequence[tuple[Checkpoint, Sequence[Evaluation]]], sets: Sets, workspace: Workspace
) -> Iterator[list[dict[Runtime, Session]]]:
    """Each model's sessions, by runtime; all are closed when the block ends."""

    def session(evaluation: Evaluation, checkpoint: Checkpoint) -> Session:
        file = model_file(evaluation, checkpoint, sets, workspace)
        return stack.enter_context(open_session(evaluation.runtime, checkpoint, file))

    with ExitStack() as stack:
        yield [
            {_runtime(each): session(each, checkpoint) for each in evaluations}
            for checkpoint, evaluations in models
        ]
