"""Plan × the training images that every path decodes → Plan: its keys are those of what is stored.

A model trained while some path did not decode every image depends on which images it saw, which no
plan can know before they are decoded; and so does all that is made with the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alignkit.plan import Evaluation, Plan, Training
from alignkit.plan.preparation import preparations
from alignkit.prepare import stored_rows

if TYPE_CHECKING:
    from alignkit.workspace import Workspace


def settle(plan: Plan, used: Sequence[str], total: int) -> Plan:
    """The plan whose models are trained on ``used``, sample ids in order, of ``total`` images.

    Models that are given are left as they are.
    """
    if len(used) == total or plan.experiment.content.models:
        return plan
    settled = {
        each.key: replace(each, parts=training_parts(each, used, total)) for each in plan.trainings
    }
    return replace(
        plan,
        trainings=tuple(settled.values()),
        evaluations=tuple(_settled(each, settled[each.training.key]) for each in plan.evaluations),
        pairs=tuple(
            replace(
                each, reference=settled[each.reference.key], candidate=settled[each.candidate.key]
            )
            for each in plan.pairs
        ),
    )


def _settled(evaluation: Evaluation, training: Training) -> Evaluation:
    parts = {**evaluation.parts, "training": training.key}
    return replace(evaluation, training=training, parts=parts)


def settle_stored(plan: Plan, workspace: Workspace) -> Plan:
    """As a run would, by what is prepared already; the plan itself where some path is not."""
    if not any("images" in each.parts for each in workspace.finished("trainings")):
        return plan  # no image was ever left out
    train = [each for each in preparations(plan) if each.split == "train" and not each.skipped]
    known = [workspace.recall(each.kind, each.key, stored_rows) for each in train]
    rows = [each for each in known if each is not None]
    if not rows or len(rows) < len(train):
        return plan
    used = [sample for sample in rows[0] if all(each[sample] >= 0 for each in rows)]
    return settle(plan, used, len(rows[0]))


def training_parts(training: Training, used: Sequence[str], total: int) -> dict[str, Any]:
    """What the weights depend on.

    `Training.parts` says it all unless an image was left out because some path did not decode it:
    then the images used belong to it, for another path in the experiment changes them.
    """
    if len(used) == total:
        return training.parts
    return {**training.parts, "images": hashlib.sha256("\0".join(used).encode()).hexdigest()}
