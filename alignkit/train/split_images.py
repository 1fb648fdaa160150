"""`SplitImages`: a training's images, without those that are held out to score its epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import TrainingError
from alignkit.train.training_draws import held_out, held_out_identities

if TYPE_CHECKING:
    from alignkit.experiment.train_option import Recipe
    from alignkit.plan.work import Training
    from alignkit.train.training_images import TrainingImages


@dataclass(frozen=True, slots=True)
class SplitImages:
    """Images to train on, and those held out."""

    rest: TrainingImages
    held_out: TrainingImages | None
    """Scored after every epoch and never trained on, along the first path."""
    classes: Sequence[str]
    """Names of the labels of ``rest``; of an embedding, the identities that are trained on."""


def split_images(
    training: Training, recipe: Recipe, images: TrainingImages, classes: Sequence[str]
) -> SplitImages:
    """Hold out images of every class or, for an embedding, whole identities.

    Raise `TrainingError` if the share of ``holdout`` is too small to score on, or an embedding has
    fewer than two identities to train on.
    """
    if recipe.identities:
        return _split_identities(training, recipe, images, classes)
    if not recipe.holdout:
        return SplitImages(images, None, classes)
    held = held_out(recipe.holdout, seed=training.seed, labels=images.labels, ids=images.ids)
    if not len(held):
        raise TrainingError(
            f"{training.label}: train.holdout {recipe.holdout:g} of {len(images)} images is none "
            "of any class; raise it"
        )
    rest = np.setdiff1d(np.arange(len(images)), held)
    return SplitImages(images.take(rest), images.take(held, paths=1), classes)


def _split_identities(
    training: Training, recipe: Recipe, images: TrainingImages, classes: Sequence[str]
) -> SplitImages:
    """Hold out identities; number the others that have images from 0."""
    labels = np.asarray(images.labels)
    present, counts = np.unique(labels, return_counts=True)
    names = [classes[label] for label in present]
    drawn = held_out_identities(recipe.holdout, seed=training.seed, names=names)
    kept = np.setdiff1d(np.arange(len(present)), drawn)
    if len(kept) < 2:
        raise TrainingError(
            f"{training.label}: {len(kept)} identities to train on; an embedding needs two or more"
        )
    if recipe.holdout and (len(drawn) < 2 or counts[drawn].max() < 2):
        raise TrainingError(
            f"{training.label}: train.holdout {recipe.holdout:g} of {len(present)} identities is "
            f"{len(drawn)}; raise it to two or more, of which one has two images"
        )
    place = np.full(len(classes), -1)
    place[present[kept]] = np.arange(len(kept))
    places = place[labels]
    chosen = places >= 0
    rest = replace(images.take(np.flatnonzero(chosen)), labels=places[chosen].tolist())
    held = images.take(np.flatnonzero(~chosen), paths=1) if recipe.holdout else None
    return SplitImages(rest, held, [names[index] for index in kept])
