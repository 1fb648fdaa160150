"""Files that a data set makes once, in its folder of the cache, and verifies each time."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from alignkit.datasets import Dataset
from alignkit.datasets.image_files import explained_cache, made_once
from alignkit.errors import ConfigError, DataError
from alignkit.plugins import Plugin
from alignkit.stored_file import DamagedError, file_sha256, read_sealed, sealed
from alignkit.version import DATA_LAYERS, code_version
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split

Contents: TypeAlias = Callable[[], Iterable[tuple[str, bytes]]]
"""Makes each file's name, relative to the folder with ``/``, and its content."""


def made_files(folder: Path, fingerprint: str, contents: Contents) -> Path:
    """Return ``folder`` with these files; make them if it is absent or one of them was changed.

    ``fingerprint`` names the set: a folder with another one counts as damaged. Raise
    `WorkspaceError` if the cache cannot be written.
    """
    return made_once(
        folder,
        damage=partial(_damage, fingerprint=fingerprint),
        make=partial(_make, fingerprint, contents),
    )


@dataclass(frozen=True, slots=True)
class MadeReads:
    """Images that were made in a folder of the cache."""

    folder: Path
    names: tuple[str, ...]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image, or raise as `read_made`."""
        return read_made(self.folder / self.names[index])

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        return replace(self, names=tuple(self.names[index] for index in indices))


def read_made(file: Path) -> bytes:
    """Read a file that was made; raise `DataError` if it is there no more."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(
            f"{file.parent} was removed or damaged meanwhile ({error.strerror}); run the command "
            "again"
        ) from error


def _make(fingerprint: str, contents: Contents, folder: Path) -> None:
    with explained_cache():
        folder.mkdir()
        hashes = []
        for name, content in contents():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            hashes.append((name, file_sha256(file)))
        # last: a folder without it counts as damaged
        index = {"fingerprint": fingerprint, "files": hashes}
        (folder / "index.json").write_text(sealed(json.dumps(index)))


def _damage(folder: Path, fingerprint: str) -> str:
    """Describe the damage to a cached set; empty if every file is as it was written."""
    try:
        index = json.loads(read_sealed(folder / "index.json"))
        if index["fingerprint"] != fingerprint:
            return "index.json is that of other images"
        for name, expected in index["files"]:
            if file_sha256(folder / name) != expected:
                return f"{name} was changed"
    except DamagedError as error:
        return f"index.json: {error}"
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return ""


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
