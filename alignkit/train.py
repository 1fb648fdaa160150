"""Training → Checkpoint.

For one seed every path's training gets the same initial weights, the same sample order, the same
augmentation draws and the same dropout masks; only the pixels differ. Each is a function of the
seed, the epoch and the sample ids alone, so a training that was killed continues after its last
whole epoch and ends with the weights it would have had, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from alignkit.checkpoint import Checkpoint
from alignkit.errors import TrainingError
from alignkit.workspace import Workspace, write_atomically

if TYPE_CHECKING:
    from alignkit.experiment import Recipe
    from alignkit.plan import Training
    from alignkit.prepare import Prepared
    from alignkit.samples import Samples


def train(
    training: Training,
    recipe: Recipe,
    samples: Samples,
    prepared: Prepared,
    indices: Sequence[int],
    workspace: Workspace,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Checkpoint:
    """Train one model, or give the stored one, or go on with the unfinished one.

    ``indices`` are the samples that every path decoded, ascending; where some are left out,
    ``training.parts`` must say so. ``progress`` is called after every epoch with (done, total).
    Raises `TrainingError` if the loss or a weight is not finite, and `MissingDependency` if the
    recipe's device is not here.
    """
    folder = workspace.stored("trainings", training.key)
    if folder is None:
        _train(training, recipe, samples, prepared, indices, workspace, progress)
        folder = workspace.stored("trainings", training.key)
        assert folder is not None
    height, width = training.preprocess.size
    return Checkpoint(
        model=recipe.model,
        classes=len(samples.classes),
        height=height,
        width=width,
        weights=folder / "weights.pt",
        key=training.key,
    )


def _train(
    training: Training,
    recipe: Recipe,
    samples: Samples,
    prepared: Prepared,
    indices: Sequence[int],
    workspace: Workspace,
    progress: Callable[[int, int], None] | None,
) -> None:
    from alignkit.fit import fit
    from alignkit.training_images import TrainingImages

    if len(indices) < 2:
        raise TrainingError(
            f"{training.label}: every path decoded only {len(indices)} training images; needs two"
        )
    images = TrainingImages(
        pixels=prepared.pixels,
        rows=prepared.rows[list(indices)],
        labels=[samples.labels[index] for index in indices],
        ids=[samples.ids[index] for index in indices],
        normalise=training.preprocess.normalise,
    )
    fitted = fit(
        recipe,
        images,
        classes=len(samples.classes),
        seed=training.seed,
        label=training.label,
        unfinished=workspace.unfinished("trainings", training.key) / "state.pt",
        progress=progress,
    )
    with workspace.store("trainings", training.key, training.parts, training.label) as folder:
        write_atomically(folder / "weights.pt", fitted.weights)
        write_atomically(folder / "log.json", json.dumps(fitted.log, indent=1, allow_nan=False))


def read_log(checkpoint: Checkpoint) -> dict[str, Any]:
    """The ``log.json`` beside the weights.

    ``epochs`` holds one `alignkit.record.Epoch` for each, as a mapping; ``images``, ``threads``,
    ``device`` and ``library`` say what it ran on; ``initial_weights`` and ``order`` are hashes that
    the two sides of a matched pair share; ``resumed_after`` lists the epochs after which it was
    continued by another process.
    """
    log: dict[str, Any] = json.loads(checkpoint.weights.with_name("log.json").read_text())
    return log
