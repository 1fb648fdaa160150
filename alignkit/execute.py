"""Each stage of a run over a whole plan: values in, values out, finished work stored at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from alignkit.backends import Session
from alignkit.cell import Ended, Failed, Measured, Skipped, attempt
from alignkit.checkpoint import Checkpoint
from alignkit.plan import Evaluation, Plan, Runtime, Training
from alignkit.predictions import Predictions
from alignkit.prepare import Prepared, prepare
from alignkit.preprocess import Preprocess
from alignkit.progress import Progress
from alignkit.samples import Samples
from alignkit.workspace import Workspace

Split = Literal["train", "eval"]


@dataclass(frozen=True, slots=True)
class Sets:
    """The data, and what every path made of it."""

    train: Samples
    evaluation: Samples
    prepared: dict[tuple[str, Split], Ended[Prepared]]
    """(path, split) → what it decoded and resized to."""

    def usable(self, path: str, split: Split) -> Prepared | None:
        """What a path prepared; ``None`` if it could not."""
        ended = self.prepared[path, split]
        return ended.value if isinstance(ended, Measured) else None

    def unusable(self, path: str) -> Skipped | Failed | None:
        """Why a path prepared nothing; ``None`` if it did."""
        for split in ("train", "eval"):
            ended = self.prepared[path, split]  # type: ignore[index]
            if not isinstance(ended, Measured):
                return ended
        return None


@dataclass(frozen=True, slots=True)
class Trained:
    """One training and how it ended."""

    training: Training
    """With the images it had to leave out among its parts."""
    ended: Ended[Checkpoint]
    images: int


@dataclass(frozen=True, slots=True)
class Predicted:
    """One evaluation and how it ended."""

    evaluation: Evaluation
    ended: Ended[tuple[Predictions, dict[str, str]]]
    """The predictions, and what really ran."""


def prepare_sets(plan: Plan, workspace: Workspace, progress: Progress) -> Sets:
    """Decode and resize both splits on every path, once."""
    data = plan.experiment.content.data
    samples: dict[Split, Samples] = {"train": data.training(), "eval": data.evaluation()}
    prepared: dict[tuple[str, Split], Ended[Prepared]] = {}
    for path in plan.experiment.paths:
        for split, chosen in samples.items():
            prepared[path.name, split] = _prepare(path, split, chosen, workspace, progress)
    return Sets(samples["train"], samples["eval"], prepared)


def _prepare(
    path: Preprocess, split: Split, samples: Samples, workspace: Workspace, progress: Progress
) -> Ended[Prepared]:
    if reason := path.missing():
        return Skipped(reason)
    with progress.stage("prepare", len(samples), f"{path.name} {split}") as stage:
        return attempt(
            lambda: prepare(samples, path, workspace, split=split, progress=stage.reach)
        )


def shared_indices(plan: Plan, sets: Sets, split: Split) -> list[int]:
    """The samples every usable path decoded: a pair must be trained on the same images."""
    usable = [sets.usable(path.name, split) for path in plan.experiment.paths]
    rows = [prepared.rows for prepared in usable if prepared is not None]
    samples = sets.train if split == "train" else sets.evaluation
    return [index for index in range(len(samples)) if all(each[index] >= 0 for each in rows)]


def train_models(
    plan: Plan, sets: Sets, workspace: Workspace, progress: Progress
) -> dict[str, Trained]:
    """Every training, keyed by its planned key."""
    indices = shared_indices(plan, sets, "train")
    left_out = sorted(set(range(len(sets.train))) - set(indices))
    trained = {}
    for planned in plan.trainings:
        training = _without(planned, [sets.train.ids[index] for index in left_out])
        ended = _train(training, plan, sets, indices, workspace, progress)
        trained[planned.key] = Trained(training, ended, len(indices))
    return trained


def _without(training: Training, left_out: Sequence[str]) -> Training:
    if not left_out:
        return training
    return replace(training, parts={**training.parts, "without": list(left_out)})


def _train(
    training: Training,
    plan: Plan,
    sets: Sets,
    indices: Sequence[int],
    workspace: Workspace,
    progress: Progress,
) -> Ended[Checkpoint]:
    from alignkit.train import train

    if training.skipped:
        return Skipped(training.skipped)
    if unusable := sets.unusable(training.preprocess.name):
        return unusable
    prepared = sets.usable(training.preprocess.name, "train")
    assert prepared is not None
    recipe = plan.experiment.content.train
    with progress.stage("train", recipe.epochs, f"{training.preprocess.name} seed {training.seed}") as stage:
        return attempt(
            lambda: train(
                training, recipe, sets.train, prepared, indices, workspace, progress=stage.reach
            )
        )


def predict_cells(
    plan: Plan,
    trained: dict[str, Trained],
    sets: Sets,
    workspace: Workspace,
    progress: Progress,
) -> dict[str, Predicted]:
    """Every evaluation, keyed by its planned key; one session for all paths of a model."""
    predicted: dict[str, Predicted] = {}
    with progress.stage("predict", len(plan.evaluations), "every cell") as stage:
        for group in _by_session(plan.evaluations):
            model = trained[group[0].training.key]
            for planned, ended in _predict_group(group, model, sets, plan, workspace):
                predicted[planned.key] = ended
                stage.advance()
    return predicted


def _by_session(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    groups: dict[tuple[str, str, str], list[Evaluation]] = {}
    for evaluation in evaluations:
        runtime = evaluation.runtime
        key = (evaluation.training.key, runtime.name, runtime.precision)
        groups.setdefault(key, []).append(evaluation)
    return list(groups.values())
