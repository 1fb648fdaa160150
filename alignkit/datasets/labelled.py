"""Labelled image files of a folder: found by class, divided, limited, and given as samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from alignkit.datasets.image_files import check_name, image_files, is_image
from alignkit.datasets.listed_images import FileReads, ImageFile, list_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError
from alignkit.samples import Samples, Split, choose
from alignkit.workspace import content_key

EVAL_DIRS = ("eval", "val", "validation", "test")
"""Names by which an evaluation folder is found."""
_LISTED = 5
"""Images in both splits that a note names; of more it names the first."""
TO_CALIBRATE = "if you need images only to calibrate int8, name any: 'calibration: {root: DIR}'"
"""Advice to whoever has no training images and needs none for training."""
Labelled: TypeAlias = dict[str, list[str]]
"""Class → paths of its images, relative to the data set's root, sorted; classes in their order."""


def labelled_samples(root: Path, labelled: Labelled) -> Samples:
    """Return the images of ``labelled`` as samples, class by class."""
    names = tuple(names_of(labelled))
    files = list_files(root, names)
    return Samples(
        ids=tuple(map(escaped_name, names)),
        labels=tuple(labels_of(labelled)),
        classes=tuple(labelled),
        read=FileReads(root, names, files),
        fingerprint=labelled_key(labelled, files),
    )


def labelled_key(labelled: Labelled, files: Sequence[ImageFile]) -> str:
    """Compute the fingerprint of images as they were listed, in the order of `names_of`."""
    identities = [each.identity for each in files]
    return content_key([[*labelled], labels_of(labelled), names_of(labelled), identities])


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
    evals = [name for name in ((eval_dir,) if eval_dir else EVAL_DIRS) if (root / name).is_dir()]
    wanted = f"{eval_dir}/" if eval_dir else "eval/, val/, validation/ or test/"
    if (root / train_dir).is_dir():
        if evals and trains and (root / train_dir).samefile(root / evals[0]):
            raise DataError(
                f"{root / train_dir} is both the training and the evaluation folder, so that "
                f"models would be measured on what they have seen; name two, or, {TO_CALIBRATE}"
            )
        if evals:
            return {"train": train_dir, "eval": evals[0]}
        raise DataError(
            f"{root} has {train_dir}/ but no {wanted}; name it with 'eval_dir', or give "
            f"{root / train_dir} as 'root' to have it divided"
        )
    # a root whose only folders are such as eval/ lacks its training folder; they are no classes
    alone = evals and (eval_dir or {path.name for path in subfolders(root)} <= {*EVAL_DIRS})
    if alone and not trains:
        return {"eval": evals[0]}
    if alone or eval_dir or train_dir != "train":
        raise DataError(
            f"{root} has no {train_dir}/; name the training folder with 'train_dir' ('models:' "
            f"need none, unless int8 or 'advise' takes images from it; {TO_CALIBRATE})"
        )
    return None


def has_classes(root: Path) -> bool:
    """Tell whether the folders below ``root`` can be classes."""
    return len(subfolders(root)) > 1


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
    names = sorted(path.name for path in subfolders(parent))
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
        raise DataError(
            f"the two splits have different classes: {'; '.join(facts)} ({TO_CALIBRATE})"
        )


def divide(whole: Labelled, share: float, seed: int) -> dict[Split, Labelled]:
    """Split each class by a seed, with at least one image on each side."""
    if few := [name for name, files in whole.items() if len(files) < 2]:
        raise DataError(
            f"{listed(few)}: one image only, which cannot be in both splits; add some "
            f"({TO_CALIBRATE})"
        )
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
    return [name for label in labelled for name in labelled[label]]


def labels_of(labelled: Labelled) -> list[int]:
    """List the labels of the samples in the order of `names_of`."""
    return [index for index, label in enumerate(labelled) for _ in labelled[label]]


def in_both_splits(root: Path, train: Sequence[str], evaluation: Sequence[str]) -> Iterator[str]:
    """Report evaluation images whose content is a training image's too."""
    hashes = [each.sha256 for each in list_files(root, [*train, *evaluation])]
    yield from same_content(train, evaluation, hashes)


def same_content(
    train: Sequence[str], evaluation: Sequence[str], hashes: Sequence[str]
) -> Iterator[str]:
    """Report images of equal hashes; those of training images come first in ``hashes``."""
    trained = dict(zip(hashes[: len(train)], train, strict=True))
    both = [
        f"{escaped_name(name)} = {escaped_name(trained[digest])}"
        for name, digest in zip(evaluation, hashes[len(train) :], strict=True)
        if len(digest) == 64 and digest in trained  # a file that cannot be read has no content
    ]
    if both:
        some = listed(both) if len(both) <= _LISTED else f"such as {both[0]}"
        yield f"evaluation images that are training images too: {len(both)}, {some}"


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


def subfolders(parent: Path) -> list[Path]:
    """List the folders that are not hidden; raise `DataError` if they cannot be listed."""
    try:
        folders = [each for each in parent.iterdir() if each.is_dir()]
    except OSError as error:
        raise DataError(f"cannot list {parent}: {error.strerror}") from error
    # hidden folders hold a program's files, not classes
    shown = [each for each in folders if not each.name.startswith(".")]
    for each in shown:
        check_name(each.name, parent)
    return shown
