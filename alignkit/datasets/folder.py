"""`Folder`: the user's own labelled images, with a folder for each class.

Either ``ROOT/train/<class>/…`` and ``ROOT/eval/<class>/…`` (or ``val``, ``validation``, ``test``),
or ``ROOT/<class>/…`` divided here by a seed; nothing is moved or written. `UndividedFolder` is the
same folder where no training image is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.datasets import Dataset
from alignkit.datasets.byte_store import url_of
from alignkit.datasets.image_source import OpenedSource, open_source
from alignkit.datasets.labelled import (
    EVAL_DIRS,
    TO_CALIBRATE,
    Labelled,
    class_folders,
    divide,
    images_by_class,
    in_both_splits,
    labelled_key,
    labelled_samples,
    labels_of,
    limited,
    names_of,
    same_classes,
    same_content,
    split_dirs,
    strays,
)
from alignkit.datasets.listed_images import list_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.store_options import Storage, require_public
from alignkit.errors import ConfigError, DataError
from alignkit.plugins import option_added_later
from alignkit.samples import Samples, Split
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split


def source_dirs(
    source: OpenedSource, train_dir: str, eval_dir: str, *, trains: bool = True
) -> dict[Split, str] | None:
    """Find the folders of the splits among the names; ``None`` if there are none.

    Images with labels of their own have none. Raise `DataError` if only one of the two is there.
    """
    if source.images.labels:
        return None
    tops = {name.partition("/")[0] for name in source.images.names if "/" in name}
    evals = [name for name in ((eval_dir,) if eval_dir else EVAL_DIRS) if name in tops]
    if train_dir in tops and evals:
        if trains and train_dir == evals[0]:
            raise DataError(
                f"{train_dir}/ of {source.place} is both the training and the evaluation folder; "
                f"name two, or, {TO_CALIBRATE}"
            )
        return {"train": train_dir, "eval": evals[0]}
    alone = bool(evals) and (bool(eval_dir) or tops <= {*EVAL_DIRS})
    if alone and not trains:
        return {"eval": evals[0]}
    if alone or train_dir in tops or eval_dir or train_dir != "train":
        raise DataError(
            f"{source.place} has {'no' if evals else 'only'} {train_dir}/; name the folders of "
            f"both splits with 'train_dir' and 'eval_dir' ({TO_CALIBRATE})"
        )
    return None


def source_classes(source: OpenedSource, directory: str = "") -> Labelled:
    """Return the images of each class: by their labels, or by the folder that holds them."""
    images = source.images
    labelled: Labelled = {name: [] for name in images.classes}
    if images.labels:
        for name, label in zip(images.names, images.labels, strict=True):
            labelled[label].append(name)
    else:
        prefix = f"{directory}/" if directory else ""
        for name in images.names:
            label, inside, _ = name.removeprefix(prefix).partition("/")
            if name.startswith(prefix) and inside:
                labelled.setdefault(label, []).append(name)
        labelled = dict(sorted(labelled.items()))
    if len(labelled) < 2:
        raise DataError(
            f"{source.place}: a classifier needs two classes, and there are {len(labelled)}; each "
            "class's images belong in a folder of its name, or have labels (.cls, .json, or a "
            "column 'label')"
        )
    return labelled


def source_splits(
    source: OpenedSource, dirs: dict[Split, str] | None, share: float, seed: int, limit: int | None
) -> dict[Split, Labelled]:
    """Return both splits: those of the folders, or a division by the seed."""
    splits: dict[Split, Labelled]
    if dirs is None:
        splits = divide(source_classes(source), share, seed)
    else:
        splits = {split: source_classes(source, name) for split, name in dirs.items()}
        same_classes(splits["train"], splits["eval"], dirs)
    return {split: limited(each, limit, seed) for split, each in splits.items()}


def source_samples(source: OpenedSource, labelled: Labelled) -> Samples:
    """Return the images of ``labelled`` as samples, like `labelled_samples` of a folder."""
    names = names_of(labelled)
    hashed = source.hashed(names)
    key = content_key([[*labelled], labels_of(labelled), names, hashed.identities()])
    return Samples(
        ids=tuple(map(escaped_name, names)),
        labels=tuple(labels_of(labelled)),
        classes=tuple(labelled),
        read=hashed,
        fingerprint=key,
    )


def source_notes(source: OpenedSource, splits: dict[Split, Labelled]) -> Iterator[str]:
    """Name content that is in both splits, and images that are in neither for want of a class."""
    train, evaluation = names_of(splits["train"]), names_of(splits["eval"])
    if train:
        hashes = source.hashed([*train, *evaluation]).identities()
        yield from same_content(train, evaluation, hashes)
    bare = [name for name in source.images.names if "/" not in name]
    if bare and not source.images.labels:
        yield f"images in {source.place} that lie in no class folder, and are not used: {len(bare)}"


@dataclass(frozen=True, slots=True)
class Folder(Dataset):
    """Images below ``root``; class names are those of their folders, in sorted order."""

    root: Path
    """Folder with one folder per class, or with train and eval folders that hold them; or a URL of
    one, tar shards with .cls or .json, Parquet or save_to_disk with a column 'label'."""
    train_dir: str = "train"
    """Folder below ``root`` with the training images."""
    eval_dir: str = ""
    """By default the first that exists of ``eval``, ``val``, ``validation``, ``test``."""
    eval_share: float = 0.25
    """Share of each class for evaluation, where ``root`` holds the class folders itself."""
    seed: int = 0
    """Seed of the division, and of the choice by ``limit``."""
    limit: int | None = None
    """Greatest number of images of each split, spread evenly over the classes."""
    storage: Storage | None = option_added_later(default=None)  # noqa: RUF009 - it is a field
    """Options of the URL's file system in fsspec, as ``endpoint_url`` or ``anon``; no secret."""

    def __post_init__(self) -> None:
        if not 0 < self.eval_share < 1:
            raise ConfigError(f"eval_share: {self.eval_share}; between 0 and 1, e.g. 0.25")
        require_public(url_of(self.root), self.storage)
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit: {self.limit}; 1 or more, or none")

    def training(self) -> Samples:
        """Return the images of the training folder, or of the larger part."""
        return self._samples("train")

    def evaluation(self) -> Samples:
        """Return the images of the evaluation folder, or of the smaller part."""
        return self._samples("eval")

    def undivided(self) -> Dataset:
        """Return the folder with all images of the evaluation folder, or of a flat root."""
        return UndividedFolder(**{each.name: getattr(self, each.name) for each in fields(self)})

    def choice(self) -> str:
        """Name the evaluation folder, or the share."""
        if dirs := self._dirs():
            return f"those of {self._place()}/{dirs['eval']}"
        return f"{self.eval_share:g} of each class, drawn by seed {self.seed}"

    def class_names(self) -> tuple[str, ...]:
        """List the class folders; nothing if the root is not on this machine."""
        source = open_source(self.root, self.storage)
        if source:
            dirs = self._dirs(source)
            return tuple(source_classes(source, dirs["eval"] if dirs else ""))
        if not self._root.exists():
            return ()
        dirs = self._dirs()
        return tuple(class_folders(self._root / (dirs["eval"] if dirs else "")))

    def counts(self) -> tuple[int, int]:
        """Count the images of the two splits; lists folders, reads no file."""
        splits = self._splits()
        return len(names_of(splits["train"])), len(names_of(splits["eval"]))

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over paths, labels and contents; reread only changed files."""
        source = open_source(self.root, self.storage)
        if source:
            return source_samples(source, self._splits(source)[split]).fingerprint
        labelled = self._splits()[split]
        return labelled_key(labelled, list_files(self._root, names_of(labelled)))

    def version(self) -> str:
        """Say that the files alone decide the samples."""
        return "the files as they are"

    def notes(self) -> Iterator[str]:
        """Name content that is in both splits, and images that lie in no class folder."""
        if source := open_source(self.root, self.storage):
            yield from source_notes(source, self._splits(source))
            return
        splits = self._splits()
        train, evaluation = names_of(splits["train"]), names_of(splits["eval"])
        yield from in_both_splits(self._root, train, evaluation)
        yield from strays(self._root, (self._dirs() or {"train": ""}).values())

    @property
    def _root(self) -> Path:
        return self.root.expanduser()

    def _place(self) -> str:
        return url_of(self.root) or str(self._root)

    def _dirs(self, source: OpenedSource | None = None) -> dict[Split, str] | None:
        if source := source or open_source(self.root, self.storage):
            return source_dirs(source, self.train_dir, self.eval_dir)
        return split_dirs(self._root, self.train_dir, self.eval_dir)

    def _splits(self, source: OpenedSource | None = None) -> dict[Split, Labelled]:
        source = source or open_source(self.root, self.storage)
        dirs = self._dirs(source)
        if source:
            return source_splits(source, dirs, self.eval_share, self.seed, self.limit)
        splits: dict[Split, Labelled]
        if dirs is None:
            splits = divide(images_by_class(self._root), self.eval_share, self.seed)
        else:
            splits = {split: images_by_class(self._root, name) for split, name in dirs.items()}
            same_classes(splits["train"], splits["eval"], dirs)
        return {split: limited(each, self.limit, self.seed) for split, each in splits.items()}

    def _samples(self, split: Split) -> Samples:
        if source := open_source(self.root, self.storage):
            return source_samples(source, self._splits(source)[split])
        return labelled_samples(self._root, self._splits()[split])


@dataclass(frozen=True, slots=True)
class UndividedFolder(Folder):
    """A `Folder` without training images: given models are only evaluated."""

    def choice(self) -> str:
        """Name the folder whose images are all evaluated."""
        directory = (self._dirs() or {"eval": ""})["eval"]
        place = f"{self._place()}/{directory}".rstrip("/")
        return f"all of {place}, as nothing is trained"

    def _dirs(self, source: OpenedSource | None = None) -> dict[Split, str] | None:
        if source := source or open_source(self.root, self.storage):
            dirs = source_dirs(source, self.train_dir, self.eval_dir, trains=False)
            return {"eval": dirs["eval"]} if dirs else None
        dirs = split_dirs(self._root, self.train_dir, self.eval_dir, trains=False)
        return {"eval": dirs["eval"]} if dirs else None

    def _splits(self, source: OpenedSource | None = None) -> dict[Split, Labelled]:
        source = source or open_source(self.root, self.storage)
        dirs = self._dirs(source)
        directory = dirs["eval"] if dirs else ""
        whole = (
            source_classes(source, directory) if source else images_by_class(self._root, directory)
        )
        return {"train": {}, "eval": limited(whole, self.limit, self.seed)}
