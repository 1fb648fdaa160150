"""Recompute a plan's keys once it is known which images every path decoded.

If some path does not decode every image, a model depends on the images it saw, which no plan knows
before they are decoded; so does all work that uses the model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alignkit.errors import ConfigError
from alignkit.plan import Plan, make_plan, preparations, run_key
from alignkit.plan.made_models import with_stored_models
from alignkit.plan.work import Evaluation, Training
from alignkit.plugins import did_you_mean
from alignkit.prepare import OUTCOMES, stored_rows

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.workspace import Workspace


def keyed_plan(
    experiment: Experiment, workspace: Workspace, *, cells: Sequence[str] = (), ranks: int = 1
) -> Plan:
    """Plan an experiment, or these cells of it, with keys as the store knows them.

    Raises as `make_plan`, `narrow_to_cells` and `with_stored_models` do.
    """
    experiment = with_stored_models(experiment, workspace)
    plan = narrow_to_cells(make_plan(experiment, ranks=ranks), cells)
    return rekey_from_store(plan, workspace)


def narrow_to_cells(plan: Plan, names: Sequence[str]) -> Plan:
    """Narrow a plan to these cells, the aligned cells of their rows, and the trainings they need.

    A name is that of an `Evaluation.place`, or a pattern with ``*`` for several; without one the
    plan stays whole. Every path is still prepared: a model is trained on the images that all of
    them decoded. Raises `ConfigError` for a name that matches nothing.
    """
    if not names:
        return plan
    known = dict.fromkeys(str(each.place) for each in plan.evaluations)
    chosen: set[str] = set()
    for name in names:
        # fnmatch would read brackets too, which names may hold
        pattern = re.compile(".*".join(map(re.escape, name.split("*"))))
        if not (matched := [each for each in known if pattern.fullmatch(each)]):
            raise ConfigError(f"--cell {name}: no such cell{did_you_mean(name, known)}")
        chosen.update(matched)
    rows = {each.training.row for each in plan.evaluations if str(each.place) in chosen}
    evaluations = tuple(
        each
        for each in plan.evaluations
        if str(each.place) in chosen or (each.aligned and each.training.row in rows)
    )
    return replace(
        plan,
        key=run_key(plan.experiment, evaluations),
        trainings=tuple(each for each in plan.trainings if each.row in rows),
        evaluations=evaluations,
        cells=tuple(names),
    )


def rekey_for_images(plan: Plan, used: Sequence[str], total: int) -> Plan:
    """Return the plan of models trained on ``used``, sample ids in order, of ``total`` images.

    The user's own models do not change.
    """
    if not plan.trains:
        return plan
    images = _images(used, total)

    def rekeyed(training: Training) -> Training:
        return replace(training, parts=_with(images, training))

    def trained(evaluation: Evaluation) -> Evaluation:
        training = rekeyed(evaluation.training)
        parts = {**evaluation.parts, "training": training.key}
        return replace(evaluation, training=training, parts=parts)

    return replace(
        plan,
        trainings=tuple(rekeyed(each) for each in plan.trainings),
        evaluations=tuple(trained(each) for each in plan.evaluations),
    )


def rekey_from_store(plan: Plan, workspace: Workspace) -> Plan:
    """Recompute the keys from stored preparations; the plan stays as it is unless all exist."""
    if not any("images" in each.parts for each in workspace.finished("trainings")):
        return plan  # no image was ever left out
    train = [each for each in preparations(plan) if each.split == "train" and not each.skipped]
    known = [
        workspace.recall(each.kind, each.key, each.label, stored_rows, [OUTCOMES]) for each in train
    ]
    rows = [each for each in known if each is not None]
    if not rows or len(rows) < len(train):
        return plan  # which images every path decodes is known once all are prepared
    used = [sample for sample in rows[0] if all(each[sample] >= 0 for each in rows)]
    return rekey_for_images(plan, used, len(rows[0]))


def training_parts(training: Training, used: Sequence[str], total: int) -> dict[str, Any]:
    """Return everything that the weights depend on.

    `Training.parts` is complete unless an image was left out because some path did not decode it.
    Then the images used are part of it, since another path in the experiment changes them.
    """
    return _with(_images(used, total), training)


def _images(used: Sequence[str], total: int) -> dict[str, str]:
    if len(used) == total:
        return {}
    # ids in order: the same images in another order give other batches
    return {"images": hashlib.sha256("\0".join(used).encode()).hexdigest()}


def _with(images: dict[str, str], training: Training) -> dict[str, Any]:
    """Replace the images in the parts of a training."""
    return {**{k: v for k, v in training.parts.items() if k != "images"}, **images}
