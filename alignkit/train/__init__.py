"""Training → `Checkpoint`: images, augmentation, epochs, state and logs.

For one seed every path's training has the same initial weights, the same sample order, the same
augmentation draws and the same dropout masks; only the pixels differ. Each is a function of the
seed, the epoch and the sample ids alone, so a training that was killed continues after its last
whole epoch and ends with the same weights as without the kill, bit for bit.

`train_models` runs the trainings of a plan, each when it is asked for. Finished work is stored at
once, and a failure is a value too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from alignkit.models.checkpoint import Checkpoint
from alignkit.outcome import Outcome, Skipped, capture
from alignkit.plan.plan_keys import training_parts
from alignkit.rank import ALONE, Rank
from alignkit.stored_file import write_atomically
from alignkit.workspace import Context, Workspace, content_key

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from alignkit.experiment.train_option import Recipe
    from alignkit.plan import Plan
    from alignkit.plan.work import Evaluation, Training
    from alignkit.prepare import Prepared
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.record import Epoch
    from alignkit.samples import Samples
    from alignkit.train.fit import Fitted
    from alignkit.train.training_images import TrainingImages


EMBEDDING = "embedding"
"""Name of the output of a model that gives embeddings."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One training and its outcome."""

    training: Training
    ended: Outcome[Checkpoint]
    images: int
    """Number of training images: those that every path decoded."""


def train_chosen(
    plan: Plan, chosen: Sequence[Evaluation], context: Context
) -> tuple[Plan, Sets, dict[str, Outcome[Checkpoint]]]:
    """Prepare and train what some evaluations of a plan need; stored work is not repeated.

    Return the plan of these alone, its images, and how each training ended, by its key.
    """
    from alignkit.plan.plan_keys import rekey_for_images
    from alignkit.plan.required_models import require_own_models
    from alignkit.prepare.prepared_sets import prepare_sets

    trainings = {each.training.key: each.training for each in chosen}
    own = replace(plan, trainings=tuple(trainings.values()), evaluations=tuple(chosen))
    require_own_models(own)
    train, evaluation = own.samples("train"), own.samples("eval")
    sets = prepare_sets(own.experiment.paths, train, evaluation, context, trains=own.trains)
    used = [sets.train.ids[index] for index in sets.trained_on]
    own = rekey_for_images(own, used, len(sets.train))
    return own, sets, {each.training.key: each.ended for each in train_models(own, sets, context)}


def train_models(
    plan: Plan, sets: Sets, context: Context, folder: Path | None = None
) -> Iterator[Trained]:
    """Run each training of the plan, on the images that every usable path decoded.

    A training begins when it is asked for, so that a caller can use a model before the next one is
    trained. Their logs grow in a run's ``folder``.
    """
    for each in plan.trainings:
        ended = _train(each, plan.experiment.recipe, sets, context, folder)
        yield Trained(each, ended, len(sets.trained_on))


def _without_training(
    training: Training, sets: Sets, workspace: Workspace
) -> Outcome[Checkpoint] | None:
    """Return the user's model, or the reason against a training; ``None`` if one is to be run."""
    if training.skipped:
        return Skipped(training.skipped)
    if (given := training.given) is not None:
        from alignkit.models.model_fit import given_checkpoint

        classes, size = sets.evaluation.classes, training.preprocess.size
        return capture(lambda: given_checkpoint(given.fetched(workspace), classes, size))
    reasons = (sets.unusable(path.name) for path in training.paths)
    return next((each for each in reasons if each), None)


def _train(
    training: Training, recipe: Recipe, sets: Sets, context: Context, folder: Path | None
) -> Outcome[Checkpoint]:
    from alignkit.train.training_log import growing_log

    if (ended := _without_training(training, sets, context.workspace)) is not None:
        return ended
    usable = (sets.usable(path.name, "train") for path in training.paths)
    prepared, *others = (each for each in usable if each is not None)
    title = training.title
    with (
        context.progress.stage("train", recipe.epochs, title) as stage,
        growing_log(training, folder) as log,
    ):

        def report(epoch: Epoch) -> None:
            log(epoch)
            stage.note(_noted(epoch))
            stage.advance()

        return capture(
            lambda: train(
                training,
                recipe,
                prepared,
                samples=sets.train,
                indices=sets.trained_on,
                workspace=context.workspace,
                progress=report,
                others=others,
                rank=context.rank,
            )
        )


def _noted(epoch: Epoch) -> str:
    words = f"loss {epoch.loss:.3f}"
    if epoch.accuracy is not None:
        return f"{words}, accuracy {100 * epoch.accuracy:.1f} %"
    if epoch.held_out_accuracy is not None:
        return f"{words}, held-out accuracy {100 * epoch.held_out_accuracy:.1f} %"
    return words


def train(
    training: Training,
    recipe: Recipe,
    prepared: Prepared,
    *,
    samples: Samples,
    indices: npt.NDArray[np.int64],
    workspace: Workspace,
    progress: Callable[[Epoch], None] | None = None,
    others: Sequence[Prepared] = (),
    rank: Rank = ALONE,
) -> Checkpoint:
    """Train one model, return the stored one, or continue the unfinished one.

    ``indices`` are those of the ``samples`` that every path decoded, ascending. ``progress`` is
    called with every epoch, and with the earlier ones of a resumed training; ``others`` are the
    further paths of a mix. A share of the data is taken of ``indices``. Call it on rank 0, which
    calls the other ranks.
    Raise `TrainingError` if the loss or a weight is not finite or there are fewer than two images,
    `MissingDependency` if the recipe's device is not here.
    """
    used = [samples.ids[index] for index in indices]
    parts = training_parts(training, used, len(samples))
    key = content_key(parts)

    def fill(folder: Path) -> None:
        # torch is imported only where a training is run
        from alignkit.train.fit import fit
        from alignkit.train.training_images import split_images

        images = _images(training, [prepared, *others], samples, indices)
        chosen = split_images(training, recipe, images, samples.classes)
        state = workspace.unfinished(training.kind, key) / "state.pt"
        _write(fit(training, recipe, chosen, state, progress, rank=rank), recipe, folder)

    def read(folder: Path) -> Checkpoint:
        height, width = training.preprocess.size
        weights = folder / "weights.pt"
        if vector := recipe.embedding:
            return Checkpoint(
                recipe.model, 0, height, width, weights, key, outputs=(EMBEDDING,), embedding=vector
            )
        return Checkpoint(recipe.model, len(samples.classes), height, width, weights, key)

    return workspace.keep(training.kind, parts, training.label, fill, read)


def _images(
    training: Training,
    prepared: Sequence[Prepared],
    samples: Samples,
    indices: npt.NDArray[np.int64],
) -> TrainingImages:
    """Take a training's share of the images, along each of its paths."""
    from alignkit.train.training_draws import stratified
    from alignkit.train.training_images import PixelSource, TrainingImages

    ids, labels = samples.ids, samples.labels
    used = [ids[index] for index in indices]
    chosen = indices[stratified(training, [labels[index] for index in indices], used)]
    return TrainingImages(
        sources=tuple(
            PixelSource(each.pixels, each.rows[chosen], path.normalise)
            for each, path in zip(prepared, training.paths, strict=True)
        ),
        labels=[labels[index] for index in chosen],
        ids=[ids[index] for index in chosen],
    )


def _write(fitted: Fitted, recipe: Recipe, folder: Path) -> None:
    from alignkit.record import Epoch
    from alignkit.train.training_log import log_csv

    write_atomically(folder / "weights.pt", fitted.weights)
    if fitted.identities is not None:
        write_atomically(folder / "identities.pt", fitted.identities)
    if fitted.other is not None:
        name = "last.pt" if recipe.keep == "best" else "best.pt"
        write_atomically(folder / name, fitted.other)
    write_atomically(folder / "log.json", json.dumps(fitted.log, indent=1, allow_nan=False))
    write_atomically(folder / "log.csv", log_csv([Epoch(**each) for each in fitted.log["epochs"]]))
    reports = json.dumps(fitted.reports, indent=1, allow_nan=False)
    write_atomically(folder / "classification.json", reports)


def read_log(checkpoint: Checkpoint) -> dict[str, Any]:
    """Read the ``log.json`` beside the weights.

    ``epochs`` holds an `alignkit.record.Epoch` for each epoch, as a mapping; ``images``,
    ``threads``, ``device`` and ``library`` describe data and machine; ``initial_weights`` and
    ``order`` are hashes that the two sides of a matched pair share; ``resumed_after`` lists the
    epochs after which another process continued. ``held_out`` is the number of images that scored
    it, ``kept_epoch`` the epoch of these weights, ``ranks`` the number of processes. ``pretrained``
    is an `alignkit.record.path_facts.PretrainedFacts` as a mapping, or ``None``.
    """
    log: dict[str, Any] = json.loads(checkpoint.weights.with_name("log.json").read_text())
    return log
