"""`Folder`: the user's own labelled images, with a folder for each class.

Either ``ROOT/train/<class>/…`` and ``ROOT/eval/<class>/…`` (or ``val``, ``validation``, ``test``),
or ``ROOT/<class>/…`` divided here by a seed; nothing is moved or written. `UndividedFolder` is the
same folder where no training image is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.datasets import Dataset
from alignkit.datasets.image_files import check_name, choose, image_files, is_image
from alignkit.datasets.listed_images import ImageFile, list_files, read_image
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import ConfigError, DataError
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split

_EVAL_DIRS = ("eval", "val", "validation", "test")
Labelled: TypeAlias = dict[str, list[str]]
"""Class → paths of its images, relative to the data set's root, sorted."""


@dataclass(frozen=True, slots=True)
class Folder(Dataset):
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

    def undivided(self) -> Dataset:
        """Return the folder with all images of the evaluation folder, or of a flat root."""
        return UndividedFolder(**{each.name: getattr(self, each.name) for each in fields(self)})

    def choice(self) -> str:
        """Name the evaluation folder, or the share."""
        if dirs := self._dirs():
            return f"those of {self._root / dirs['eval']}"
        return f"{self.eval_share:g} of each class, drawn by seed {self.seed}"

    def class_names(self) -> tuple[str, ...]:
        """List the class folders; nothing if the root is not on this machine."""
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
        labelled = self._splits()[split]
        return _content_key(labelled, list_files(self._root, names_of(labelled)))

    def version(self) -> str:
        """Say that the files alone decide the samples."""
        return "the files as they are"

    def notes(self) -> Iterator[str]:
        """Name content that is in both splits, and images that lie in no class folder."""
        splits = self._splits()
        train, evaluation = names_of(splits["train"]), names_of(splits["eval"])
        hashes = [each.sha256 for each in list_files(self._root, train + evaluation)]
        trained = dict(zip(hashes[: len(train)], train, strict=True))
        both = [
            f"{escaped_name(name)} = {escaped_name(trained[digest])}"
            for name, digest in zip(evaluation, hashes[len(train) :], strict=True)
            if digest and digest in trained  # a file that cannot be read has no content
        ]
        if both:
            yield f"evaluation images that are training images too: {len(both)}, {listed(both)}"
        yield from strays(self._root, (self._dirs() or {"train": ""}).values())

    @property
    def _root(self) -> Path:
        return self.root.expanduser()

    def _dirs(self) -> dict[Split, str] | None:
        return split_dirs(self._root, self.train_dir, self.eval_dir)

    def _splits(self) -> dict[Split, Labelled]:
        dirs = self._dirs()
        splits: dict[Split, Labelled]
        if dirs is None:
            splits = divide(images_by_class(self._root), self.eval_share, self.seed)
        else:
            splits = {split: images_by_class(self._root, name) for split, name in dirs.items()}
            same_classes(splits["train"], splits["eval"], dirs)
        return {split: limited(each, self.limit, self.seed) for split, each in splits.items()}

    def _samples(self, split: Split) -> Samples:
        return labelled_samples(self._root, self._splits()[split])


@dataclass(frozen=True, slots=True)
class UndividedFolder(Folder):
    """A `Folder` without training images: given models are only evaluated."""

    def choice(self) -> str:
        """Name the folder whose images are all evaluated."""
        directory = (self._dirs() or {"eval": ""})["eval"]
        return f"all of {self._root / directory}, as nothing is trained"

    def _dirs(self) -> dict[Split, str] | None:
        dirs = split_dirs(self._root, self.train_dir, self.eval_dir, trains=False)
        return {"eval": dirs["eval"]} if dirs else None

    def _splits(self) -> dict[Split, Labelled]:
        dirs = self._dirs()
        whole = images_by_class(self._root, dirs["eval"] if dirs else "")
        return {"train": {}, "eval": limited(whole, self.limit, self.seed)}


def labelled_samples(root: Path, labelled: Labelled) -> Samples:
    """Return the images of ``labelled`` as samples, class by class."""
    from alignkit.samples import Samples

    names = tuple(names_of(labelled))
    files = list_files(root, names)
    return Samples(
        ids=tuple(map(escaped_name, names)),
        labels=tuple(labels_of(labelled)),
        classes=tuple(sorted(labelled)),
        read=lambda index: read_image(root, names[index], files[index]),
        fingerprint=_content_key(labelled, files),
    )


def _content_key(labelled: Labelled, files: Sequence[ImageFile]) -> str:
    identities = [each.identity for each in files]
    return content_key([sorted(labelled), labels_of(labelled), names_of(labelled), identities])


def split_dirs(
    root: Path, train_dir: str, eval_dir: str, *, trains: bool = True
) -> dict[Split, str] | None:
    """Find the folders of the two splits below ``root``; ``None`` if it holds the class folders.

    Raise `DataError` if only one of the two is there. Unless ``trains``, the evaluation folder may
    be there alone.
    """
    if not root.is_dir():
        kind = "is not a folder" if root.exists() else "does not exist"
        raise DataError(f"{root} {kind}; name the folder that holds the images")
    evals = [name for name in ((eval_dir,) if eval_dir else _EVAL_DIRS) if (root / name).is_dir()]
    wanted = f"{eval_dir}/" if eval_dir else "eval/, val/, validation/ or test/"
    if (root / train_dir).is_dir():
        if evals:
            return {"train": train_dir, "eval": evals[0]}
        raise DataError(
            f"{root} has {train_dir}/ but no {wanted}; name it with 'eval_dir', or give "
            f"{root / train_dir} as 'root' to have it divided"
        )
    # a root whose only folders are such as eval/ lacks its training folder; they are no classes
    alone = evals and (eval_dir or {path.name for path in _folders(root)} <= {*_EVAL_DIRS})
    if alone and not trains:
        return {"eval": evals[0]}
    if alone or eval_dir or train_dir != "train":
        raise DataError(
            f"{root} has no {train_dir}/; name the training folder with 'train_dir' ('models:' "
            "need none, unless int8 or 'advise' takes images from it)"
        )
    return None


def has_classes(root: Path) -> bool:
    """Tell whether the folders below ``root`` can be classes."""
    return len(_folders(root)) > 1


def images_by_class(root: Path, directory: str = "") -> Labelled:
    """List the images of every class folder in ``root/directory``.

    Raise `DataError` if there is no class folder, only one, or one without images.
    """
    parent = root / directory
    prefix = f"{directory}/" if directory else ""
    images = {
        name: [f"{prefix}{name}/{file}" for file in image_files(parent / name)]
        for name in class_folders(parent)
    }
    if empty := [name for name, files in images.items() if not files]:
        raise DataError(f"no images in {listed(empty)} of {parent}; add some or remove the folder")
    return images


def class_folders(parent: Path) -> list[str]:
    """List the names of the class folders, sorted; raise `DataError` if there are fewer than 2."""
    names = sorted(path.name for path in _folders(parent))
    if not names:
        raise DataError(
            f"{parent} has no class folders; each class's images belong in a folder of its name"
        )
    if len(names) == 1:
        raise DataError(f"{parent} has one class only, {names[0]}; a classifier needs two")
    return names


def same_classes(train: Labelled, evaluation: Labelled, dirs: dict[Split, str]) -> None:
    """Raise `DataError` if a class is in one split only."""
    only_train = sorted(train.keys() - evaluation.keys())
    only_eval = sorted(evaluation.keys() - train.keys())
    facts = [
        f"{listed(names)} only in {directory}/"
        for names, directory in ((only_train, dirs["train"]), (only_eval, dirs["eval"]))
        if names
    ]
    if facts:
        raise DataError(f"the two splits have different classes: {'; '.join(facts)}")


def divide(whole: Labelled, share: float, seed: int) -> dict[Split, Labelled]:
    """Split each class by a seed, with at least one image on each side."""
    if few := [name for name, files in whole.items() if len(files) < 2]:
        raise DataError(f"{listed(few)}: one image only, which cannot be in both splits; add some")
    divided: dict[Split, Labelled] = {"train": {}, "eval": {}}
    for name, files in whole.items():
        # every class must be both trained and evaluated
        count = min(max(round(len(files) * share), 1), len(files) - 1)
        chosen = choose(files, count, seed)
        divided["train"][name] = [file for file in files if file not in chosen]
        divided["eval"][name] = [file for file in files if file in chosen]
    return divided


def limited(whole: Labelled, limit: int | None, seed: int) -> Labelled:
    """Take up to ``limit`` images, spread over the classes as evenly as their sizes allow."""
    if limit is None:
        return whole
    if limit < len(whole):
        raise DataError(
            f"limit: {limit} images cannot cover {len(whole)} classes; at least one each"
        )
    # smallest classes first, so that the larger ones share what a small one cannot fill
    left, shares = limit, {}
    for place, name in enumerate(sorted(whole, key=lambda each: (len(whole[each]), each))):
        shares[name] = min(len(whole[name]), left // (len(whole) - place))
        left -= shares[name]
    taken = {name: choose(files, shares[name], seed) for name, files in whole.items()}
    return {name: [file for file in whole[name] if file in taken[name]] for name in whole}


def names_of(labelled: Labelled) -> list[str]:
    """List the samples in order: class by class."""
    return [name for label in sorted(labelled) for name in labelled[label]]


def labels_of(labelled: Labelled) -> list[int]:
    """List the labels of the samples in the order of `names_of`."""
    return [index for index, label in enumerate(sorted(labelled)) for _ in labelled[label]]


def strays(root: Path, directories: Iterable[str]) -> Iterator[str]:
    """Report images that lie beside the class folders and belong to none."""
    for directory in directories:
        folder = root / directory
        count = sum(is_image(path.name) and path.is_file() for path in folder.iterdir())
        if count:
            where = directory or root.name
            yield f"images in {where} that lie in no class folder, and are not used: {count}"


def listed(names: list[str]) -> str:
    """Return ``a, b, c and 4 more``: the first five names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"


def _folders(parent: Path) -> list[Path]:
    try:
        folders = [each for each in parent.iterdir() if each.is_dir()]
    except OSError as error:
        raise DataError(f"cannot list {parent}: {error.strerror}") from error
    # hidden folders hold a program's files, not classes
    shown = [each for each in folders if not each.name.startswith(".")]
    for each in shown:
        check_name(each.name, parent)
    return shown
