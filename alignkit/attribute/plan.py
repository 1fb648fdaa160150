"""Attribution over a whole plan: the cost of each stage for the models of the reference path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from alignkit.attribute.facts import not_attributed
from alignkit.attribute.runs import attribute_stored
from alignkit.errors import NothingCompared
from alignkit.outcome import Measured
from alignkit.plan.work import PlannedAttribution, planned_attributions
from alignkit.predict import model_file, open_session
from alignkit.progress import advancing
from alignkit.record import AttributionFacts

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.plan.work import Evaluation
    from alignkit.predict.cells import Predicted
    from alignkit.prepare.sets import Sets
    from alignkit.workspace import Context, Workspace


def attribute_paths(
    plan: Plan,
    checkpoints: Mapping[str, Checkpoint],
    predicted: Sequence[Predicted],
    sets: Sets,
    context: Context,
) -> tuple[AttributionFacts, ...]:
    """Attribute the drift of the reference path's models on every other path and in every runtime.

    ``checkpoints`` maps a training's planned key to its model.
    """
    ran = [each.evaluation for each in predicted if isinstance(each.ended, Measured)]
    found: tuple[AttributionFacts, ...] = ()
    for planned in planned_attributions(plan, ran):
        names = planned.reference.name, planned.candidate.name
        if planned.skipped or not sets.usable(names[1], "eval"):
            continue
        opened = partial(_opened, planned, ran, checkpoints, sets, context.workspace)
        with context.progress.stage("attribute", len(sets.evaluation), " to ".join(names)) as stage:
            try:
                found += attribute_stored(
                    planned,
                    sets.evaluation,
                    opened,
                    context.workspace,
                    progress=advancing(stage),
                )
            except NothingCompared as error:
                found += (not_attributed(*names, str(error)),)
    return found


@contextmanager
def _opened(
    planned: PlannedAttribution,
    ran: Sequence[Evaluation],
    checkpoints: Mapping[str, Checkpoint],
    sets: Sets,
    workspace: Workspace,
) -> Iterator[list[dict[Runtime, Session]]]:
    """Open each model's sessions, by runtime; close all when the block ends."""
    cells = {
        (each.training.key, each.runtime): each
        for each in ran
        if each.place.column.preprocess == planned.reference.name
    }

    def session(model: str, runtime: Runtime) -> Session:
        checkpoint = checkpoints[model]
        file = model_file(cells[model, runtime], checkpoint, sets, workspace)
        return stack.enter_context(open_session(runtime, checkpoint, file))

    with ExitStack() as stack:
        yield [
            {runtime: session(model, runtime) for runtime in planned.runtimes}
            for model in planned.models
        ]
