"""A small matched case to train on: scikit-learn's digits as prepared pixels, no decoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.experiment.train_option import Augment, Recipe
from alignkit.models.checkpoint import Checkpoint
from alignkit.plan.work import Training
from alignkit.prepare import Prepared, SampleOutcome
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from alignkit.train import train
from alignkit.workspace import Workspace

SIDE = 32
RECIPE = Recipe(epochs=3, batch_size=32, augment=Augment(flip=0.3, crop=2))
PATH = Preprocess("aligned", OpenCVDecoder(), Resize(OpenCVResizer(), (SIDE, SIDE)))


@dataclass(frozen=True)
class Case:
    """One path's pixels of one split, and the training they are for."""

    samples: Samples
    prepared: Prepared
    training: Training
    recipe: Recipe = RECIPE

    @property
    def indices(self) -> np.ndarray:
        return np.arange(len(self.samples))

    def train(self, root: Path, **options) -> Checkpoint:
        arguments = {"indices": self.indices, "workspace": Workspace(root), **options}
        return train(self.training, self.recipe, self.prepared, samples=self.samples, **arguments)

    def with_recipe(self, **changes) -> Case:
        recipe = self.recipe.model_copy(update=changes)
        parts = {**self.training.parts, "recipe": recipe.model_dump(mode="json")}
        return replace(self, recipe=recipe, training=replace(self.training, parts=parts))


def digits_case(
    *, first: int = 0, count: int = 96, seed: int = 0, name: str = "aligned", shift: float = 0.0
) -> Case:
    """Digits ``first``…, tripled in size on a dark frame; ``shift`` brightens them as unrounded
    float, like a path with another resize would."""
    digits = load_digits()
    images = np.kron(digits.images[first : first + count], np.ones((1, 3, 3))) * 15
    pixels = np.zeros((count, SIDE, SIDE, 3), np.float32 if shift else np.uint8)
    pixels[:, 4:28, 4:28] = images[..., None]
    ids = tuple(f"digit-{first + number}" for number in range(count))
    samples = Samples(
        ids=ids,
        labels=tuple(int(each) for each in digits.target[first : first + count]),
        classes=tuple("0123456789"),
        read=lambda index: b"",
        fingerprint=f"{first}-{count}",
    )
    outcomes = tuple(SampleOutcome(each, "ok") for each in ids)
    prepared = Prepared(lambda: pixels + pixels.dtype.type(shift), np.arange(count), outcomes)
    training = Training(replace(PATH, name=name), seed, {"preprocess": name, "seed": seed})
    return Case(samples, prepared, training)
