"""Images that a data set composes: decided by its options, made once, kept in the cache."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from alignkit.datasets import Dataset
from alignkit.errors import ConfigError
from alignkit.plugins import Plugin
from alignkit.version import DATA_LAYERS, code_version
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split

LIBRARIES = ("scikit-learn", "numpy", "pillow")
"""Distributions that decide the bytes of the images."""
MOST_MADE = 1_000_000
"""Greatest number of images of a split."""


@dataclass(frozen=True, slots=True)
class MadeImages(Dataset):
    """Training and evaluation images that follow from a seed; a recipe extends it."""

    least: ClassVar[int] = 1
    """Fewest images of a split."""

    train: int
    """Training images."""
    eval: int
    """Evaluation images."""
    seed: int = 0
    """Seed of everything; another one makes other images."""

    def __post_init__(self) -> None:
        for name, count in (("train", self.train), ("eval", self.eval)):
            if not self.least <= count <= MOST_MADE:
                per_class = " (one per class)" if self.least > 1 else ""
                raise ConfigError(
                    f"{name}: {count} images; from {self.least}{per_class} to {MOST_MADE:,}"
                )
        self.require_seed()

    def require_seed(self) -> None:
        """Raise `ConfigError` for a seed below 0."""
        if self.seed < 0:
            raise ConfigError(f"seed: {self.seed}; 0 or more")

    @abstractmethod
    def samples(self, split: Split) -> Samples:
        """Return the images of a split; make them first if they are not in the cache."""

    def training(self) -> Samples:
        """Return the training images; make them first if they are not in the cache."""
        return self.samples("train")

    def evaluation(self) -> Samples:
        """Return the evaluation images; make them first if they are not in the cache."""
        return self.samples("eval")

    def counts(self) -> tuple[int, int]:
        """Return the number of images of each split."""
        return self.train, self.eval

    def count(self, split: Split) -> int:
        """Return the number of images of one split."""
        train, evaluation = self.counts()
        return train if split == "train" else evaluation

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over the options, the code and the libraries' versions."""
        return self.images_key(split)

    def images_key(self, split: Split) -> str:
        """Compute the key of the images' bytes."""
        return content_key(
            {
                "split": split,
                "count": self.count(split),
                "seed": self.seed,
                "code": code_version(DATA_LAYERS),
                "libraries": self.version(),
            }
        )

    def version(self) -> str:
        """Return ``scikit-learn 1.8.0, numpy 2.4.1, pillow 12.0.0``."""
        return ", ".join(Plugin("", distributions=(name,)).version() for name in LIBRARIES)
