"""Experiment × workspace → Plan: made, narrowed, and its keys those of what is stored.

A model trained while some path did not decode every image depends on which images it saw, which no
plan can know before they are decoded; and so does all that is made with the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alignkit.plan import Evaluation, Plan, Training, make_plan
from alignkit.plan.narrow import narrow_to_cells
from alignkit.plan.preparation import preparations
from alignkit.prepare import stored_rows

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.workspace import Workspace


def keyed_plan(
    experiment: Experiment, workspace: Workspace, *, cells: Sequence[str] = (), ranks: int = 1
) -> Plan:
    """Plan an experiment, or these cells of it, with keys as the store knows them.

    Raises as `make_plan` and `narrow_to_cells` do.
    """
    plan = narrow_to_cells(make_plan(experiment, ranks=ranks), cells)
    return rekey_from_store(plan, workspace)


def rekey_for_images(plan: Plan, used: Sequence[str], total: int) -> Plan:
    """Return the plan of models trained on ``used``, sample ids in order, of ``total`` images.

    Models that are given are left as they are.
    """
    if not plan.trains:
        return plan
    images = _images(used, total)

    def rekeyed(training: Training) -> Training:
        return replace(training, parts=_with(images, training))

    return replace(
        plan,
        trainings=tuple(rekeyed(each) for each in plan.trainings),
        evaluations=tuple(_trained(each, rekeyed(each.training)) for each in plan.evaluations),
        pairs=tuple(
            replace(each, reference=rekeyed(each.reference), candidate=rekeyed(each.candidate))
            for each in plan.pairs
        ),
    )


def _trained(evaluation: Evaluation, training: Training) -> Evaluation:
    parts = {**evaluation.parts, "training": training.key}
    return replace(evaluation, training=training, parts=parts)


def rekey_from_store(plan: Plan, workspace: Workspace) -> Plan:
    """Re-key by what is prepared already; returns the plan itself where some path is not."""
    if not any("images" in each.parts for each in workspace.finished("trainings")):
        return plan  # no image was ever left out
    train = [each for each in preparations(plan) if each.split == "train" and not each.skipped]
    known = [workspace.recall(each.kind, each.key, stored_rows) for each in train]
    rows = [each for each in known if each is not None]
    if not rows or len(rows) < len(train):
        return plan
    used = [sample for sample in rows[0] if all(each[sample] >= 0 for each in rows)]
    return rekey_for_images(plan, used, len(rows[0]))


def training_parts(training: Training, used: Sequence[str], total: int) -> dict[str, Any]:
    """What the weights depend on.

    `Training.parts` says it all unless an image was left out because some path did not decode it:
    then the images used belong to it, for another path in the experiment changes them.
    """
    return _with(_images(used, total), training)


def _images(used: Sequence[str], total: int) -> dict[str, str]:
    if len(used) == total:
        return {}
    return {"images": hashlib.sha256("\0".join(used).encode()).hexdigest()}


def _with(images: dict[str, str], training: Training) -> dict[str, Any]:
    """The parts with these images in place of those that the store knew of."""
    return {**{k: v for k, v in training.parts.items() if k != "images"}, **images}
