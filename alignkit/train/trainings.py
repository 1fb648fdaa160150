"""The stages of a run that work on a whole plan: prepare every path, train every model, compare.

Values in, values out; finished work is stored at once, and what failed is a value too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignkit.experiment.recipe import Recipe
from alignkit.models.checkpoint import Checkpoint
from alignkit.outcome import Ended, Skipped, attempt
from alignkit.plan import Plan
from alignkit.plan.work import Training
from alignkit.prepare.sets import Sets
from alignkit.record import Epoch
from alignkit.workspace import Context


@dataclass(frozen=True, slots=True)
class Trained:
    """One training and how it ended."""

    training: Training
    ended: Ended[Checkpoint]
    images: int
    """Training images: those that every path decoded."""


def train_models(
    plan: Plan,
    sets: Sets,
    context: Context,
    folder: Path | None = None,
) -> tuple[Trained, ...]:
    """Every training of the plan, on the images that every usable path decoded.

    Their logs grow in a run's ``folder``.
    """
    indices = sets.trained_on
    return tuple(
        Trained(each, _train(each, plan.recipe, sets, indices, context, folder), len(indices))
        for each in plan.trainings
    )


def _without_training(training: Training, sets: Sets) -> Ended[Checkpoint] | None:
    """The model that is given, or why none can be trained; ``None`` if one is to be trained."""
    if training.skipped:
        return Skipped(training.skipped)
    if (given := training.given) is not None:
        return attempt(lambda: given.checkpoint(sets.evaluation.classes, training.preprocess.size))
    reasons = (sets.unusable(path.name) for path in training.paths)
    return next((each for each in reasons if each), None)


def _train(
    training: Training,
    recipe: Recipe,
    sets: Sets,
    indices: npt.NDArray[np.int64],
    context: Context,
    folder: Path | None,
) -> Ended[Checkpoint]:
    from alignkit.train import train
    from alignkit.train.logged import growing_log

    if (ended := _without_training(training, sets)) is not None:
        return ended
    usable = (sets.usable(path.name, "train") for path in training.paths)
    prepared, *others = (each for each in usable if each is not None)
    title = training.label.removeprefix("train ")
    with (
        context.progress.stage("train", recipe.epochs, title) as stage,
        growing_log(training, folder) as log,
    ):

        def told(epoch: Epoch) -> None:
            log(epoch)
            stage.note(f"loss {epoch.loss:.3f}, accuracy {100 * epoch.accuracy:.1f} %")
            stage.advance()

        return attempt(
            lambda: train(
                training,
                recipe,
                prepared,
                indices=indices,
                labels=sets.train.labels,
                ids=sets.train.ids,
                classes=sets.train.classes,
                workspace=context.workspace,
                progress=told,
                others=others,
                rank=context.rank,
            )
        )
