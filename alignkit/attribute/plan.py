"""Attribution over a whole plan: which stage costs the models of the reference path what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from alignkit.attribute.runs import Row, Runtime, attribute_stored
from alignkit.backends import FileSession
from alignkit.cell import Measured
from alignkit.execute import model_file
from alignkit.predict import open_session
from alignkit.progress import Progress, advancing
from alignkit.record import AttributionFacts
from alignkit.row import is_row_of

if TYPE_CHECKING:
    from alignkit.attribute.mixtures import Predicts
    from alignkit.checkpoint import Checkpoint
    from alignkit.execute import Predicted, Sets
    from alignkit.plan import Evaluation, Plan
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
    reference = plan.experiment.reference
    row = _row(plan, checkpoints, predicted, sets, workspace)
    found: tuple[AttributionFacts, ...] = ()
    if row is None:
        return found
    for candidate in plan.experiment.paths[1:]:
        if not sets.usable(candidate.name, "eval"):
            continue
        detail = f"{reference.name} to {candidate.name}"
        with progress.stage("attribute", len(sets.evaluation), detail) as stage:
            found += attribute_stored(
                reference,
                candidate,
                sets.evaluation,
                row,
                workspace,
                resamples=plan.experiment.content.evaluate.resamples,
                progress=advancing(stage),
            )
    return found


def _row(
    plan: Plan,
    checkpoints: Mapping[str, Checkpoint],
    predicted: Sequence[Predicted],
    sets: Sets,
    workspace: Workspace,
) -> Row | None:
    """The reference path's models that predicted, in the runtimes all of them ran in, if any."""
    reference = plan.experiment.reference.name
    rows = [each.row for each in plan.trainings if is_row_of(each.row, reference)]
    if not rows:  # none of the given models was trained with it
        return None
    ran: dict[str, dict[Runtime, Evaluation]] = {}
    for each in predicted:
        evaluation = each.evaluation
        own = evaluation.training.row == rows[0] and evaluation.evaluated_with == reference
        if own and isinstance(each.ended, Measured):
            runtime = (evaluation.runtime.name, evaluation.runtime.precision)
            ran.setdefault(evaluation.training.key, {})[runtime] = evaluation
    first = {each.evaluation.training.key: each for each in predicted if each.evaluation.aligned}
    ran = {key: runtimes for key, runtimes in ran.items() if isinstance(first[key].ended, Measured)}
    if not ran:
        return None
    shared = [
        runtime
        for runtime in next(iter(ran.values()))
        if all(runtime in runtimes for runtimes in ran.values())
    ]

    @contextmanager
    def opened() -> Iterator[list[dict[Runtime, Predicts]]]:
        def session(stack: ExitStack, evaluation: Evaluation, checkpoint: Checkpoint) -> Predicts:
            file = model_file(evaluation, checkpoint, sets, workspace)
            opened = stack.enter_context(open_session(evaluation.runtime, checkpoint, file))
            assert not isinstance(opened, FileSession)  # those have a path of their own
            return opened

        with ExitStack() as stack:
            yield [
                {runtime: session(stack, runtimes[runtime], checkpoints[key]) for runtime in shared}
                for key, runtimes in ran.items()
            ]

    keys = tuple(checkpoints[key].key for key in ran)
    return Row(keys, tuple(shared), opened)
