"""All trainings of a plan. Finished work is stored at once, and a failure is a value too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignkit.experiment.recipe import Recipe
from alignkit.models.checkpoint import Checkpoint
from alignkit.outcome import Outcome, Skipped, capture
from alignkit.plan import Plan
from alignkit.plan.work import Training
from alignkit.prepare.sets import Sets
from alignkit.record import Epoch
from alignkit.workspace import Context


@dataclass(frozen=True, slots=True)
class Trained:
    """One training and its outcome."""

    training: Training
    ended: Outcome[Checkpoint]
    images: int
    """Number of training images: those that every path decoded."""


def train_models(
    plan: Plan,
    sets: Sets,
    context: Context,
    folder: Path | None = None,
) -> tuple[Trained, ...]:
    """Run every training of the plan, on the images that every usable path decoded.

    Their logs grow in a run's ``folder``.
    """
    indices = sets.trained_on
    return tuple(
        Trained(each, _train(each, plan.recipe, sets, indices, context, folder), len(indices))
        for each in plan.trainings
    )


def _without_training(training: Training, sets: Sets) -> Outcome[Checkpoint] | None:
    """Return the user's model, or the reason against a training; ``None`` if one is to be run."""
    if training.skipped:
        return Skipped(training.skipped)
    if (given := training.given) is not None:
        return capture(lambda: given.checkpoint(sets.evaluation.classes, training.preprocess.size))
    reasons = (sets.unusable(path.name) for path in training.paths)
    return next((each for each in reasons if each), None)


def _train(
    training: Training,
    recipe: Recipe,
    sets: Sets,
    indices: npt.NDArray[np.int64],
    context: Context,
    folder: Path | None,
) -> Outcome[Checkpoint]:
    from alignkit.train import train
    from alignkit.train.training_log import growing_log

    if (ended := _without_training(training, sets)) is not None:
        return ended
    usable = (sets.usable(path.name, "train") for path in training.paths)
    prepared, *others = (each for each in usable if each is not None)
    title = training.label.removeprefix("train ")
    with (
        context.progress.stage("train", recipe.epochs, title) as stage,
        growing_log(training, folder) as log,
    ):

        def report(epoch: Epoch) -> None:
            log(epoch)
            stage.note(f"loss {epoch.loss:.3f}, accuracy {100 * epoch.accuracy:.1f} %")
            stage.advance()

        return capture(
            lambda: train(
                training,
                recipe,
                prepared,
                indices=indices,
                labels=sets.train.labels,
                ids=sets.train.ids,
                classes=sets.train.classes,
                workspace=context.workspace,
                progress=report,
                others=others,
                rank=context.rank,
            )
        )
