"""Each stage of a run over a whole plan: values in, values out, finished work stored at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from alignkit.backends import Builder, FileSession, Session
from alignkit.build import Source, build_engine, calibration_of
from alignkit.cell import Ended, Failed, Measured, Skipped, attempt
from alignkit.checkpoint import Checkpoint
from alignkit.compare.comparison import Comparison, compare_stored
from alignkit.datasets import Split
from alignkit.export import export_onnx
from alignkit.given.onnx_file import in_one_file
from alignkit.inputs import Tensors
from alignkit.plan import Evaluation, Plan, Training
from alignkit.predict import (
    Answer,
    cell_parts,
    forget_answer,
    open_session,
    predict,
    stored_answer,
)
from alignkit.predict_share import shared_session
from alignkit.prepare import Prepared, prepare
from alignkit.preprocess import Preprocess
from alignkit.progress import Progress, advancing
from alignkit.rank import ALONE, Rank
from alignkit.record.cell import BuildSpread
from alignkit.samples import Samples
from alignkit.spread import measure_spread, spread_stored
from alignkit.workspace import Workspace

EXPORT_CHECKED = 16
"""Real images an ONNX export is checked with."""

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


@dataclass(frozen=True, slots=True)
class Predicted:
    """One evaluation and how it ended."""

    evaluation: Evaluation
    ended: Ended[Answer]
    builds: BuildSpread | None = None
    """Where several are asked for, on the path the model was trained with."""

    @property
    def seed(self) -> int:
        """The training's."""
        return self.evaluation.training.seed


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


def train_models(
    plan: Plan, sets: Sets, workspace: Workspace, progress: Progress, rank: Rank = ALONE
) -> tuple[Trained, ...]:
    """Every training of the plan, on the images that every usable path decoded."""
    usable = (sets.usable(path.name, "train") for path in plan.experiment.paths)
    decoded = [prepared.rows >= 0 for prepared in usable if prepared is not None]
    indices = np.flatnonzero(np.logical_and.reduce(decoded)) if decoded else np.zeros(0, np.int64)
    return tuple(
        Trained(each, _train(each, plan, sets, indices, workspace, progress, rank), len(indices))
        for each in plan.trainings
    )


def _train(
    training: Training,
    plan: Plan,
    sets: Sets,
    indices: npt.NDArray[np.int64],
    workspace: Workspace,
    progress: Progress,
    rank: Rank,
) -> Ended[Checkpoint]:
    from alignkit.train import train

    if training.skipped:
        return Skipped(training.skipped)
    if (given := training.given) is not None:
        return attempt(lambda: given.checkpoint(sets.evaluation.classes, training.preprocess.size))
    for path in training.paths:
        if unusable := sets.unusable(path.name):
            return unusable
    usable = (sets.usable(path.name, "train") for path in training.paths)
    prepared, *others = (each for each in usable if each is not None)
    recipe = plan.experiment.content.train
    with progress.stage("train", recipe.epochs, training.label.removeprefix("train ")) as stage:
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
                progress=lambda epoch: stage.advance(),  # noqa: ARG005 - one step an epoch
                others=others,
                rank=rank,
            )
        )


def predict_cells(
    plan: Plan,
    trained: Sequence[Trained],
    sets: Sets,
    workspace: Workspace,
    progress: Progress,
    rank: Rank = ALONE,
) -> tuple[Predicted, ...]:
    """Every evaluation of the plan; a session serves all paths of a model, and is then closed."""
    models = {each.training.key: each for each in trained}
    ended: dict[str, Ended[Answer]] = {}  # identical paths share keys, and what came of them
    spreads: dict[str, BuildSpread] = {}
    with progress.stage("predict", len(plan.evaluations), "every cell") as stage:
        for group in _by_session(plan.evaluations):
            stage.note(group[0].label)
            model = models[group[0].training.key]
            for predicted in _predict(group, model, sets, plan, workspace, rank):
                ended[predicted.evaluation.key] = predicted.ended
                if predicted.builds:
                    spreads[predicted.evaluation.key] = predicted.builds
                stage.advance()
    return tuple(
        Predicted(each, ended[each.key], spreads.get(each.key)) for each in plan.evaluations
    )


def _by_session(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    groups: dict[tuple[str, str, str], list[Evaluation]] = {}
    for evaluation in evaluations:
        runtime = evaluation.runtime
        key = (evaluation.training.key, runtime.name, runtime.precision)
        groups.setdefault(key, []).append(evaluation)
    return list(groups.values())


def _predict(
    group: Sequence[Evaluation],
    model: Trained,
    sets: Sets,
    plan: Plan,
    workspace: Workspace,
    rank: Rank,
) -> list[Predicted]:
    """The evaluations of one model in one runtime; what is stored needs no session."""
    ended: dict[str, Ended[Answer]] = {}
    to_run = []
    for evaluation in group:
        if unable := _unable(evaluation, model, sets):
            ended[evaluation.key] = unable
        elif stored := _stored(evaluation, _checkpoint(model), workspace):
            ended[evaluation.key] = Measured(stored)
        else:
            to_run.append(evaluation)
    if to_run:
        ended |= _run_session(to_run, _checkpoint(model), sets, plan, workspace, rank)
    return [
        Predicted(
            each, ended[each.key], _spread(each, ended[each.key], model, sets, plan, workspace)
        )
        for each in group
    ]


def _spread(
    evaluation: Evaluation,
    ended: Ended[Answer],
    model: Trained,
    sets: Sets,
    plan: Plan,
    workspace: Workspace,
) -> BuildSpread | None:
    runtime = evaluation.runtime
    own = evaluation.preprocess.name == evaluation.training.preprocess.name
    if runtime.builds == 1 or not own or not isinstance(ended, Measured):
        return None
    if runtime.backend.own_path or runtime.backend.live:
        return BuildSpread(builds=1, reason="what preprocesses or answers by itself is not built")
    checkpoint, first = _checkpoint(model), ended.value.predictions.logits
    inputs = tensors_of(evaluation, checkpoint, sets)
    batch_size = plan.experiment.content.evaluate.batch_size

    @contextmanager
    def build() -> Iterator[Session | FileSession]:
        with TemporaryDirectory(prefix="alignkit-") as folder:
            file = model_file(evaluation, checkpoint, sets, Workspace(Path(folder)))
            with open_session(runtime, checkpoint, file) as session:
                yield session

    return spread_stored(
        cell_parts(evaluation, checkpoint),
        runtime.builds,
        workspace,
        lambda: measure_spread(first, inputs, build, builds=runtime.builds, batch_size=batch_size),
    )


def tensors_of(evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets) -> Tensors:
    """Every image the path decoded."""
    prepared = sets.usable(evaluation.preprocess.name, "eval")
    assert prepared is not None
    decoded = np.flatnonzero(prepared.rows >= 0)
    shape = (3, checkpoint.height, checkpoint.width)
    return Tensors(prepared, decoded, evaluation.preprocess.normalise, shape)


def _stored(evaluation: Evaluation, checkpoint: Checkpoint, workspace: Workspace) -> Answer | None:
    """What an earlier run stored; what answers live is always asked again."""
    if evaluation.runtime.backend.live:
        forget_answer(evaluation, checkpoint, workspace)
    return stored_answer(evaluation, checkpoint, workspace)


def _unable(evaluation: Evaluation, model: Trained, sets: Sets) -> Skipped | Failed | None:
    if evaluation.skipped:
        return Skipped(evaluation.skipped)
    if not isinstance(model.ended, Measured):
        return model.ended
    ended = sets.prepared[evaluation.preprocess.name, "eval"]
    return None if isinstance(ended, Measured) else ended


def _checkpoint(model: Trained) -> Checkpoint:
    assert isinstance(model.ended, Measured)
    return model.ended.value


def _run_session(
    to_run: Sequence[Evaluation],
    checkpoint: Checkpoint,
    sets: Sets,
    plan: Plan,
    workspace: Workspace,
    rank: Rank,
) -> dict[str, Ended[Answer]]:
    """Open the runtime once and predict along every path; one that fails leaves the others."""
    runtime = to_run[0].runtime
    ended: dict[str, Ended[Answer]] = {}

    def work() -> None:
        file = model_file(to_run[0], checkpoint, sets, workspace)
        with (
            open_session(runtime, checkpoint, file) as session,
            shared_session(rank, session, runtime, checkpoint, file),
        ):
            for evaluation in to_run:
                one = partial(predict_one, evaluation, checkpoint, session, sets, plan, workspace)
                ended[evaluation.key] = attempt(partial(one, rank))

    opened = attempt(work)
    if isinstance(opened, Failed):
        ended |= {each.key: opened for each in to_run if each.key not in ended}
    return ended


def model_file(
    evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets, workspace: Workspace
) -> Path | None:
    """What the backend opens: the ONNX file, checked on real images, or the engine built of it.

    ``None`` for a backend that needs neither.
    """
    runtime = evaluation.runtime
    if not runtime.backend.needs_onnx:
        return None
    source = model_source(evaluation, checkpoint, sets, workspace)
    return build_engine(runtime.backend, source, runtime.precision, workspace)


def model_source(
    evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets, workspace: Workspace
) -> Source:
    """The model's ONNX file, and the training images its engine is calibrated with, if it is."""
    backend, precision = evaluation.runtime.backend, evaluation.runtime.precision
    wanted = backend.calibration(precision) if isinstance(backend, Builder) else None
    own = evaluation.training.preprocess
    calibration = calibration_of(wanted, own, sets.train, workspace) if wanted else None
    if checkpoint.format == "onnx":
        return Source(checkpoint, in_one_file(checkpoint.weights, workspace), calibration)
    prepared = sets.usable(evaluation.preprocess.name, "eval")
    assert prepared is not None
    chosen = np.flatnonzero(prepared.rows >= 0)[:EXPORT_CHECKED]
    batch = prepared.batch(chosen, evaluation.preprocess.normalise)
    return Source(checkpoint, export_onnx(checkpoint, workspace, batch), calibration)


def predict_one(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    session: Session | FileSession,
    sets: Sets,
    plan: Plan,
    workspace: Workspace,
    rank: Rank = ALONE,
) -> Answer:
    """One cell, with a session that is open."""
    prepared = sets.usable(evaluation.preprocess.name, "eval")
    assert prepared is not None
    return predict(
        evaluation,
        checkpoint,
        session,
        prepared,
        labels=sets.evaluation.labels,
        ids=sets.evaluation.ids,
        classes=sets.evaluation.classes,
        read=sets.evaluation.read,
        batch_size=plan.experiment.content.evaluate.batch_size,
        workspace=workspace,
        rank=rank,
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
