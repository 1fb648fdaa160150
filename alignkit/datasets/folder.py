"""`Folder`: the user's own labelled images, with a folder for each class.

Either ``ROOT/train/<class>/…`` and ``ROOT/eval/<class>/…`` (or ``val``, ``validation``, ``test``),
or ``ROOT/<class>/…`` divided here by a seed; nothing is moved or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.datasets.cache import content_hashes
from alignkit.datasets.files import read_image
from alignkit.datasets.layout import (
    Labelled,
    divide,
    images_by_class,
    labels_of,
    limited,
    listed,
    names_of,
    same_classes,
    split_dirs,
    strays,
)
from alignkit.errors import ConfigError
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split


@dataclass(frozen=True, slots=True)
class Folder:
    """Images below ``root``; class names are those of their folders, in sorted order."""

    root: Path
    train_dir: str = "train"
    eval_dir: str = ""
    """By default the first that exists of ``eval``, ``val``, ``validation``, ``test``."""
    eval_share: float = 0.25
    """Share of each class for evaluation, where ``root`` holds the class folders itself."""
    seed: int = 0
    """Seed of the division, and of the choice by ``limit``."""
    limit: int | None = None
    """Greatest number of images of each split, spread evenly over the classes."""

    def __post_init__(self) -> None:
        if not 0 < self.eval_share < 1:
            raise ConfigError(f"eval_share: {self.eval_share}; between 0 and 1, e.g. 0.25")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit: {self.limit}; 1 or more, or none")

    def training(self) -> Samples:
        """Return the images of the training folder, or of the larger part."""
        return self._samples("train")

    def evaluation(self) -> Samples:
        """Return the images of the evaluation folder, or of the smaller part."""
        return self._samples("eval")

    def counts(self) -> tuple[int, int]:
        """Count the images of the two splits; lists folders, reads no file."""
        splits = self._splits()
        return len(names_of(splits["train"])), len(names_of(splits["eval"]))

    def fingerprint(self, split: Split | None = None) -> str:
        """Compute the SHA-256 hex over paths, labels and contents; reread only changed files."""
        splits = self._splits()
        if split is None:
            return content_key(
                [_content_key(self._root, splits[each]) for each in ("train", "eval")]
            )
        return _content_key(self._root, splits[split])

    def version(self) -> str:
        """Say that the files alone decide the samples."""
        return "the files as they are"

    def notes(self) -> Iterator[str]:
        """Name content that is in both splits, and images that lie in no class folder."""
        splits = self._splits()
        train, evaluation = names_of(splits["train"]), names_of(splits["eval"])
        hashes = content_hashes(self._root, train + evaluation)
        trained = dict(zip(hashes[: len(train)], train, strict=True))
        both = [
            f"{name} = {trained[digest]}"
            for name, digest in zip(evaluation, hashes[len(train) :], strict=True)
            if digest in trained
        ]
        if both:
            yield f"evaluation images that are training images too: {len(both)}, {listed(both)}"
        dirs = split_dirs(self._root, self.train_dir, self.eval_dir) or {"train": ""}
        yield from strays(self._root, dirs.values())

    @property
    def _root(self) -> Path:
        return self.root.expanduser()

    def _splits(self) -> dict[Split, Labelled]:
        dirs = split_dirs(self._root, self.train_dir, self.eval_dir)
        splits: dict[Split, Labelled]
        if dirs is None:
            splits = divide(images_by_class(self._root), self.eval_share, self.seed)
        else:
            splits = {split: images_by_class(self._root, name) for split, name in dirs.items()}
            same_classes(splits["train"], splits["eval"], dirs)
        return {split: limited(each, self.limit, self.seed) for split, each in splits.items()}

    def _samples(self, split: Split) -> Samples:
        return labelled_samples(self._root, self._splits()[split])


def labelled_samples(root: Path, labelled: Labelled) -> Samples:
    """Return the images of ``labelled`` as samples, class by class."""
    from alignkit.samples import Samples

    names = tuple(names_of(labelled))
    return Samples(
        ids=names,
        labels=tuple(labels_of(labelled)),
        classes=tuple(sorted(labelled)),
        read=lambda index: read_image(root, names[index]),
        fingerprint=_content_key(root, labelled),
    )


def _content_key(root: Path, labelled: Labelled) -> str:
    names = names_of(labelled)
    return content_key([sorted(labelled), labels_of(labelled), names, content_hashes(root, names)])
