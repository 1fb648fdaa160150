"""Annotated images: the shared part of the readers of COCO, VOC, YOLO, mask and label files.

A reader gives the `Part` of each source that it finds: a file, a list or a folder. The division
into training and evaluation, the limit, the samples and their fingerprint follow here.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from alignkit.datasets import Dataset
from alignkit.datasets.image_files import image_files
from alignkit.datasets.labelled import in_both_splits, listed
from alignkit.datasets.listed_images import FileReads, list_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import ConfigError, DataError, NothingCompared
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.annotations import Annotation
    from alignkit.samples import Samples, Split

TRAIN_SET = "train"
EVAL_SETS = ("val", "valid", "validation", "eval", "test")
"""Usual names of the evaluation set, the first that exists is taken."""


@dataclass(frozen=True, slots=True)
class Part:
    """The images of one source, each with its annotation."""

    classes: tuple[str, ...]
    names: tuple[str, ...]
    """Paths relative to the root, with ``/``; each once, sorted."""
    annotations: tuple[Annotation, ...]
    identities: tuple[str, ...]
    """Text or hash of each annotation, which changes whenever the annotation does."""
    notes: tuple[str, ...] = ()

    def of(self, chosen: Collection[str]) -> Self:
        """Select the images with these names, in the order of this part."""
        rows = [row for row, name in enumerate(self.names) if name in chosen]
        return replace(
            self,
            names=tuple(self.names[row] for row in rows),
            annotations=tuple(self.annotations[row] for row in rows),
            identities=tuple(self.identities[row] for row in rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated(Dataset):
    """Images below ``root`` with annotations; a reader of a format extends it."""

    root: Path
    """Folder of the images."""
    eval_share: float = 0.25
    """Share of the images for evaluation where nothing names training images; 1 evaluates all, and
    training images are not looked for."""
    seed: int = 0
    """Seed of the division, and of the choice by ``limit``."""
    limit: int | None = None
    """Greatest number of images of each split."""

    def __post_init__(self) -> None:
        if not 0 < self.eval_share <= 1:
            raise ConfigError(f"eval_share: {self.eval_share}; above 0 and up to 1, e.g. 0.25")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit: {self.limit}; 1 or more, or none")

    @abstractmethod
    def sources(self) -> tuple[Any, Any]:
        """Return the sources of training and of evaluation; the first may be ``None``."""

    @abstractmethod
    def part(self, source: Any) -> Part:
        """Read a source; raise `DataError` for one that is damaged."""

    @abstractmethod
    def named(self, source: Any) -> str:
        """Name a source as notes and messages do."""

    def training(self) -> Samples:
        """Return the images of the training source, or of the larger part."""
        return self._samples("train")

    def evaluation(self) -> Samples:
        """Return the images of the evaluation source, or of the smaller part."""
        return self._samples("eval")

    def undivided(self) -> Self:
        """Return the data set that evaluates all images of the evaluation source."""
        return replace(self, eval_share=1.0)

    def choice(self) -> str:
        """Name the evaluation source, or the share."""
        train, evaluation = self.sources()
        named = self.named(evaluation)
        if self.eval_share == 1:
            return f"all of {named}, as nothing is trained"
        if train is None:
            return f"{self.eval_share:g} of {named}, drawn by seed {self.seed}"
        return f"those of {named}"

    def class_names(self) -> tuple[str, ...]:
        """Return the classes of the evaluation source; nothing if it is not on this machine."""
        if not self.folder.exists():
            return ()
        return self.part(self.sources()[1]).classes

    def counts(self) -> tuple[int, int]:
        """Count the images of the two splits."""
        parts = self._parts()
        return len(parts["train"].names), len(parts["eval"].names)

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over paths, annotations and contents.

        Annotations count as they are understood: a file with the same boxes in other spaces or
        another order of keys is the same data.
        """
        return self._key(self._parts()[split])

    def version(self) -> str:
        """Say that the files alone decide the samples."""
        return "the files as they are"

    def notes(self) -> Iterator[str]:
        """Name annotations that were corrected, and content that is in both splits."""
        train, evaluation = self.sources()
        for source in (evaluation, *([train] if train and self.eval_share < 1 else [])):
            for note in self.part(source).notes:
                yield f"{self.named(source)}: {note}"
        parts = self._parts()
        yield from in_both_splits(self.folder, parts["train"].names, parts["eval"].names)

    @property
    def folder(self) -> Path:
        """The folder below which the images lie, that their names begin at."""
        return self.root.expanduser()

    def _parts(self) -> dict[Split, Part]:
        train, evaluation = self.sources()
        whole = self.part(evaluation)
        if not whole.names:
            raise NothingCompared(f"no images in {self.named(evaluation)}")
        parts: dict[Split, Part]
        if self.eval_share == 1:
            parts = {"train": whole.of(()), "eval": whole}
        elif train is None:
            parts = self._divided(whole)
        else:
            parts = {"train": self.part(train), "eval": whole}
            self._require_apart(parts, {"train": self.named(train), "eval": self.named(evaluation)})
        return {split: self._limited(each) for split, each in parts.items()}

    def _divided(self, whole: Part) -> dict[Split, Part]:
        from alignkit.samples import choose

        if len(whole.names) < 2:
            raise DataError(f"{self.folder}: one image cannot be in both splits; add some")
        count = round(len(whole.names) * self.eval_share)
        chosen = choose(whole.names, min(max(count, 1), len(whole.names) - 1), self.seed)
        return {"train": whole.of({*whole.names} - chosen), "eval": whole.of(chosen)}

    def _limited(self, part: Part) -> Part:
        from alignkit.samples import choose

        return part if self.limit is None else part.of(choose(part.names, self.limit, self.seed))

    def _require_apart(self, parts: dict[Split, Part], named: dict[Split, str]) -> None:
        train, evaluation = parts["train"], parts["eval"]
        if train.classes != evaluation.classes:
            raise DataError(
                f"the classes of {named['train']} are not those of {named['eval']}: "
                f"{listed([*train.classes])}; {listed([*evaluation.classes])}"
            )
        if both := sorted({*train.names} & {*evaluation.names}):
            raise DataError(
                f"{len(both)} images are in {named['train']} and in {named['eval']}, the first "
                f"{escaped_name(both[0])}; remove them from one, or write 'eval_share: 1' if no "
                "training images are needed"
            )

    def _key(self, part: Part) -> str:
        files = [each.identity for each in list_files(self.folder, part.names)]
        return content_key([self.truth, part.classes, part.names, files, part.identities])

    def _samples(self, split: Split) -> Samples:
        from alignkit.samples import Samples

        part, folder = self._parts()[split], self.folder
        files = list_files(folder, part.names)
        return Samples(
            ids=tuple(map(escaped_name, part.names)),
            labels=(),
            classes=part.classes,
            read=FileReads(folder, part.names, files),
            fingerprint=self._key(part),
            annotations=part.annotations,
        )


def sets_of(parent: Path, train_set: str, eval_set: str) -> tuple[str | None, str]:
    """Find the folders of the two sets in ``parent``.

    The evaluation set is ``""`` for ``parent`` itself, if it has no such folder and none is asked
    for; the training set is ``None`` without its folder. Raise `DataError` without the evaluation
    set that was asked for.
    """
    found = [name for name in ((eval_set,) if eval_set else EVAL_SETS) if (parent / name).is_dir()]
    if not found:
        if eval_set or (parent / train_set).is_dir():
            wanted = eval_set or "val, valid, validation, eval or test"
            raise DataError(f"{parent} has no folder {wanted}; name one with 'eval_set'")
        return None, ""
    return train_set if (parent / train_set).is_dir() else None, found[0]


def by_stem(root: Path, directory: str) -> dict[str, str]:
    """Map the path of each image in ``root/directory`` without suffix, relative to it, to its name.

    Names are relative to ``root``. Raise `DataError` without the folder, and for two images of one
    stem: a file of that stem could annotate either.
    """
    folder = root / directory
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; name the one that holds the images")
    found: dict[str, str] = {}
    for each in image_files(folder):
        name = f"{directory}/{each}" if directory not in ("", ".") else each
        stem = os.path.splitext(each)[0]  # noqa: PTH122 - a Path for each costs more than the walk
        if stem in found:
            pair = f"{escaped_name(found[stem])} and {escaped_name(name)}"
            raise DataError(f"{root} has {pair}, of which one file would annotate both; rename one")
        found[stem] = name
    return found


def require_files(folder: Path, names: Sequence[str], listing: str) -> None:
    """Raise `DataError` if ``listing`` names images that are not in ``folder``."""
    absent = [name for name in names if not os.path.lexists(folder / name)]
    if absent:
        raise DataError(
            f"{listing} names {len(names)} images, and {len(absent)} are not in {folder}, the "
            f"first {escaped_name(absent[0])}; correct the folder, or remove their entries"
        )
