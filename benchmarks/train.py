"""Cost of matched training relative to a bare PyTorch loop on the same cached tensors.

Both train small-cnn on the same random pixels and alternate, so that a busy machine slows both:

    python benchmarks/train.py [--images 1200] [--side 48] [--epochs 4] [--rounds 5] [--augment]

The matched side also gathers from a memory map, normalises, checks for NaN, logs, and writes a
resumable state after every epoch. Target: at most 1.05 times the bare loop's time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from figures import Figure, show
from torch import nn

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.experiment.train_option import Augment, Recipe
from alignkit.models.architectures import build_model
from alignkit.plan.work import Training
from alignkit.preprocess import Preprocess, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.torch_settings import available_threads
from alignkit.train.fit import fit
from alignkit.train.training_images import PixelSource, TrainingImages


def bare_loop(images: torch.Tensor, labels: torch.Tensor, recipe: Recipe) -> float:
    """Time the shortest loop that trains the same model on float tensors in memory."""
    model = build_model("small-cnn", 10, *images.shape[2:]).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate)
    began = time.perf_counter()
    for _ in range(recipe.epochs):
        for chosen in torch.randperm(len(images)).split(recipe.batch_size):
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return time.perf_counter() - began


def matched(images: TrainingImages, recipe: Recipe, folder: Path) -> float:
    """Time alignkit's loop."""
    state = folder / "state.pt"
    state.unlink(missing_ok=True)
    began = time.perf_counter()
    path = Preprocess("benchmark", OpenCVDecoder(), Resize(OpenCVResizer(), (48, 48)))
    fit(Training(path, seed=0, parts={}), recipe, images, [*"0123456789"], state)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=1200)
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--augment", action="store_true", help="flip and crop on the matched side")
    given = parser.parse_args()
    torch.set_num_threads(available_threads())
    random = np.random.default_rng(0)
    shape = (given.images, given.side, given.side, 3)
    augment = Augment(flip=0.5, crop=4) if given.augment else Augment()
    recipe = Recipe(epochs=given.epochs, augment=augment)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "pixels.npy", random.integers(0, 256, shape, np.uint8))
        pixels = np.load(Path(folder) / "pixels.npy", mmap_mode="r")
        images = TrainingImages(
            (PixelSource(pixels, np.arange(given.images), Normalise()),),
            labels=random.integers(0, 10, given.images).tolist(),
            ids=[f"image-{number}" for number in range(given.images)],
        )
        cached = torch.from_numpy(Normalise()(pixels)).to(memory_format=torch.channels_last)
        labels = torch.tensor(images.labels)
        once = recipe.model_copy(update={"epochs": 1})
        bare_loop(cached, labels, once)
        matched(images, once, Path(folder))
        ratios = []
        for number in range(given.rounds):
            bare = bare_loop(cached, labels, recipe)
            ours = matched(images, recipe, Path(folder))
            ratios.append(ours / bare)
            print(f"round {number + 1}: bare {bare:.2f} s, matched {ours:.2f} s, {ratios[-1]:.3f}")
        print(f"{torch.get_num_threads()} threads")
    show([Figure("matched training / bare PyTorch loop, time", ratios, at_most=1.05)])


if __name__ == "__main__":
    main()
