"""Classes and splits of a URL, of tar shards or of Parquet files, as `Folder` has them."""

from __future__ import annotations

from collections.abc import Iterator

from alignkit.datasets.image_source import OpenedSource
from alignkit.datasets.labelled import (
    EVAL_DIRS,
    TO_CALIBRATE,
    Labelled,
    divide,
    labels_of,
    limited,
    names_of,
    same_classes,
    same_content,
)
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError
from alignkit.samples import Samples, Split
from alignkit.workspace import content_key


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
