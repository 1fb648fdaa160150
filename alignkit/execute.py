"""The stages of a run that work on a whole plan: prepare every path, train every model, compare.

Values in, values out; finished work is stored at once, and what failed is a value too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from alignkit.cell import Ended, Failed, Measured, Skipped, attempt
from alignkit.checkpoint import Checkpoint
from alignkit.compare.comparison import Comparison, compare_stored
from alignkit.datasets import Split
from alignkit.errors import NothingCompared
from alignkit.plan import Plan, Training
from alignkit.prepare import Prepared, prepare
from alignkit.preprocess import Preprocess
from alignkit.progress import Progress, advancing
from alignkit.rank import ALONE, Rank
from alignkit.record import Epoch
from alignkit.samples import Samples
from alignkit.workspace import Workspace

Ways: TypeAlias = dict[tuple[str, Split], Ended[Prepared]]
"""(path, split) → what it decoded and resized to."""


@dataclass(frozen=True, slots=True)
class Sets:
    """The data, and what every path made of it."""

    train: Samples
    evaluation: Samples
    prepared: Ways

    def usable(self, path: str, split: Split) -> Prepared | None:
        """What a path prepared; ``None`` if it could not."""
        ended = self.prepared[path, split]
        return ended.value if isinstance(ended, Measured) else None

    def evaluated(self, path: str) -> Prepared:
        """What a path prepared of the evaluation images; raises `NothingCompared` if it did not."""
        if (prepared := self.usable(path, "eval")) is None:
            raise NothingCompared(f"{path} prepared no image to evaluate")
        return prepared

    def unusable(self, path: str) -> Skipped | Failed | None:
        """Why a path prepared nothing; ``None`` if it did."""
        for split in get_args(Split):
            ended = self.prepared[path, split]
            if not isinstance(ended, Measured):
                return ended
        return None


@dataclass(frozen=True, slots=True)
class Trained:
    """One training and how it ended."""

    training: Training
    ended: Ended[Checkpoint]
    images: int
    """Training images: those that every path decoded."""


def prepare_sets(plan: Plan, workspace: Workspace, progress: Progress) -> Sets:
    """Decode and resize both splits on every path, once; for given models evaluation alone."""
    data = plan.experiment.content.data
    samples: dict[Split, Samples] = {"train": data.training(), "eval": data.evaluation()}
    prepared: dict[tuple[str, Split], Ended[Prepared]] = {}
    for path in plan.experiment.paths:
        for split, chosen in samples.items():
            if split == "train" and plan.experiment.content.models:
                prepared[path.name, split] = Skipped("the models are given: nothing is trained")
                continue
            prepared[path.name, split] = _prepare(path, split, chosen, workspace, progress)
    return Sets(samples["train"], samples["eval"], prepared)


def _prepare(
    path: Preprocess, split: Split, samples: Samples, workspace: Workspace, progress: Progress
) -> Ended[Prepared]:
    if reason := path.missing():
        return Skipped(reason)
    with progress.stage("prepare", len(samples), f"{path.name} {split}") as stage:
        return attempt(
            lambda: prepare(samples, path, workspace, split=split, progress=advancing(stage))
        )


def training_images(plan: Plan, sets: Sets) -> npt.NDArray[np.int64]:
    """Indices of the training images that every usable path decoded, ascending."""
    usable = (sets.usable(path.name, "train") for path in plan.experiment.paths)
    decoded = [prepared.rows >= 0 for prepared in usable if prepared is not None]
    return np.flatnonzero(np.logical_and.reduce(decoded)) if decoded else np.zeros(0, np.int64)


def train_models(
    plan: Plan,
    sets: Sets,
    workspace: Workspace,
    progress: Progress,
    rank: Rank = ALONE,
    folder: Path | None = None,
) -> tuple[Trained, ...]:
    """Every training of the plan, on the images that every usable path decoded.

    Their logs grow in a run's ``folder``.
    """
    indices = training_images(plan, sets)
    return tuple(
        Trained(
            each, _train(each, plan, sets, indices, workspace, progress, rank, folder), len(indices)
        )
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
    plan: Plan,
    sets: Sets,
    indices: npt.NDArray[np.int64],
    workspace: Workspace,
    progress: Progress,
    rank: Rank,
    folder: Path | None,
) -> Ended[Checkpoint]:
    from alignkit.train import train
    from alignkit.train.logged import growing_log

    if (ended := _without_training(training, sets)) is not None:
        return ended
    usable = (sets.usable(path.name, "train") for path in training.paths)
    prepared, *others = (each for each in usable if each is not None)
    recipe = plan.experiment.content.train
    with (
        progress.stage("train", recipe.epochs, training.label.removeprefix("train ")) as stage,
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
                workspace=workspace,
                progress=told,
                others=others,
                rank=rank,
            )
        )


def compare_paths(
    plan: Plan, sets: Sets, workspace: Workspace, progress: Progress
) -> tuple[Comparison, ...]:
    """The reference path against every other, stage by stage, over the evaluation images."""
    reference = plan.experiment.reference
    compared = []
    for candidate in plan.experiment.paths[1:]:
        if sets.usable(reference.name, "eval") and sets.usable(candidate.name, "eval"):
            detail = f"{reference.name} with {candidate.name}"
            images = sets.evaluation
            with progress.stage("compare", len(images), detail) as stage:
                told = advancing(stage)
                compared.append(compare_stored(reference, candidate, images, workspace, told))
    return tuple(compared)
