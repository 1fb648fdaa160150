"""`Identities`: the user's images of persons, products or other things to tell apart.

They are read where they lie, in each form that the field uses: a folder for each identity, a list
``path label``, shards of Base64, or a ``.bin`` file of pairs. Without training images of their own,
the identities are divided by a seed, so that none is both trained on and evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from alignkit.datasets import Dataset
from alignkit.datasets.base64_shards import SHARD_LIST, read_shards, shards_size
from alignkit.datasets.identity_images import IdentityImages, in_order, same_bytes_in_both
from alignkit.datasets.identity_list import files_of, read_list
from alignkit.datasets.labelled import images_by_class, labels_of, names_of, split_dirs
from alignkit.datasets.pairs_file import read_pairs
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.verification_bin import SUFFIXES, read_bin
from alignkit.errors import ConfigError, DataError
from alignkit.samples import choose
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.annotations import Pairs
    from alignkit.samples import Samples, Split, Truth

IdentityForm = Literal["folder", "list", "base64", "bin"]
ListColumn = Literal["image", "label"]
LIST = "label.txt"
"""Name of the list of a folder, as PLSC has it."""
_LISTS = (".txt", ".lst", ".list", ".tsv", ".csv")
_NAMED_AT_ONCE = 1 << 30
"""Bytes of shards up to which their identities are read before a run, in some seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities(Dataset):
    """Images of identities, or pairs of images; those evaluated are not trained on."""

    held_out: ClassVar[bool] = True

    root: Path
    """Evaluation images: a folder of folders, a list of 'path label', a folder or file of Base64
    shards, or a .bin file."""
    train_root: Path | None = None
    """The same of training images; by default ``root`` is divided by identities."""
    images: Path | None = None
    """Folder at which the paths of a list begin; by default the list's."""
    pairs: Path | None = None
    """File of the pairs to verify: LFW's pairs.txt, or lines 'first second 1' and 'first second
    0'."""
    format: Literal["auto", "folder", "list", "base64", "bin"] = "auto"
    """By default it follows from the name: .bin, .txt, or a folder with file_list.txt or
    label.txt."""
    columns: tuple[ListColumn, ListColumn] = ("image", "label")
    """Order in the lines of a list or a shard."""
    eval_share: float = 0.25
    """Share of the identities for evaluation, without ``train_root``; 1 evaluates all."""
    seed: int = 0
    """Seed of the division, and of the choice by ``limit``."""
    limit: int | None = None
    """Greatest number of images of each split; identities and pairs are taken whole."""

    def __post_init__(self) -> None:
        if not 0 < self.eval_share <= 1:
            raise ConfigError(f"eval_share: {self.eval_share}; above 0 and up to 1, e.g. 0.25")
        if self.limit is not None and self.limit < 2:
            raise ConfigError(f"limit: {self.limit}; 2 (a pair) or more, or none")
        if {*self.columns} != {"image", "label"}:
            raise ConfigError("columns: [image, label] or [label, image]")

    @property
    def truth(self) -> Truth:
        """Return ``none`` for a .bin file, which knows pairs and no identities."""
        return "none" if self._form(self.root) == "bin" else "class"

    @property
    def training_truth(self) -> Truth:
        """Return ``none`` if the training images are those of a .bin file."""
        return "none" if self._form(self.train_root or self.root) == "bin" else "class"

    def training(self) -> Samples:
        """Return the images of the training identities."""
        return self._samples("train")

    def evaluation(self) -> Samples:
        """Return the images of the evaluation identities, with the pairs if there are some."""
        return self._samples("eval")

    def undivided(self) -> Self:
        """Return the data set that evaluates all identities of ``root``."""
        return replace(self, eval_share=1.0, train_root=None)

    def choice(self) -> str:
        """Name the source, or the share of the identities."""
        if self._divides:
            return f"{self.eval_share:g} of the identities, drawn by seed {self.seed}"
        return f"all of {self.root}"

    def class_names(self) -> tuple[str, ...]:
        """Return the evaluated identities, unless `unnamed` says why not."""
        return self._named("eval")

    def trained_names(self) -> tuple[str, ...]:
        """Return the training identities, unless `unnamed` says why not."""
        return self._named("train")

    def unnamed(self) -> str:
        """Name the first source whose identities are not known here."""
        return next(filter(None, map(self._unnamed, (self.root, self.train_root or self.root))), "")

    def _unnamed(self, source: Path) -> str:
        path, form = source.expanduser(), self._form(source)
        if not path.exists():
            return f"{source} is not there"
        if form == "bin":
            return f"{source} has pairs of images and names no identity"
        if form == "base64" and (size := shards_size(path)) > _NAMED_AT_ONCE:
            return f"{source} has {size / 1e9:.1f} GB of shards, which a run alone reads"
        return ""

    def counts(self) -> tuple[int, int]:
        """Count the images of the two splits."""
        parts = self._parts()
        return len(parts["train"]), len(parts["eval"])

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over names, identities, pairs and contents."""
        return _key(self._parts()[split])

    def version(self) -> str:
        """Say that the files alone decide the samples."""
        return "the files as they are"

    def notes(self) -> Iterator[str]:
        """Name gaps in the labels, and identities or content that are in both splits."""
        parts = self._parts()
        yield from dict.fromkeys([*parts["train"].notes, *parts["eval"].notes])
        both = {*parts["train"].identities} & {*parts["eval"].identities}
        if both:
            yield f"identities that are trained on and evaluated: {len(both)}, such as {min(both)}"
        yield from same_bytes_in_both(parts["train"], parts["eval"])
        if self.pairs is not None and self._divides:
            known, kept = len(self._whole().pairs), len(parts["eval"].pairs)
            if kept < known:
                yield (
                    f"pairs of {self.pairs} whose images are both evaluated: {kept} of {known}; "
                    "'eval_share: 1' evaluates all where nothing is trained"
                )

    @property
    def _divides(self) -> bool:
        """Whether ``root`` is divided here."""
        alone = self.train_root is None and self.truth == "class" and self.eval_share < 1
        return alone and self._dirs() is None

    def _dirs(self) -> dict[Split, str] | None:
        root = self.root.expanduser()
        if self.train_root is not None or self._form(self.root) != "folder":
            return None
        return split_dirs(root, "train", "", trains=self.eval_share < 1)

    def _form(self, source: Path) -> IdentityForm:
        return _form_of(source) if self.format == "auto" else self.format

    def _named(self, split: Split) -> tuple[str, ...]:
        source = self.train_root if split == "train" and self.train_root else self.root
        if self._unnamed(source):
            return ()
        if self.train_root is None:
            return self._parts()[split].classes()
        # the other split may be on another machine
        whole = self._whole() if split == "eval" else self._read(self.train_root)
        return _limited(whole, self.limit, self.seed).classes()

    def _read(self, source: Path) -> IdentityImages:
        path, form = source.expanduser(), self._form(source)
        if not path.exists():
            raise DataError(f"{source} does not exist; name the images of the identities")
        if form == "bin":
            return read_bin(path)
        if form == "base64":
            return read_shards(path, self.columns)
        if form == "list":
            file = path / LIST if path.is_dir() else path
            return read_list(file, (self.images or file.parent).expanduser(), self.columns)
        return _folder_images(path)

    def _whole(self) -> IdentityImages:
        return self._paired(self._read(self.root))

    def _paired(self, whole: IdentityImages) -> IdentityImages:
        if self.pairs is None:
            return whole
        return replace(whole, pairs=read_pairs(self.pairs.expanduser(), whole.names))

    def _parts(self) -> dict[Split, IdentityImages]:
        parts: dict[Split, IdentityImages]
        if dirs := self._dirs():
            parts = {split: _folder_images(self.root.expanduser(), name)
                     for split, name in dirs.items()}  # fmt: skip
            whole = parts["eval"] = self._paired(parts["eval"])
        else:
            whole = self._whole()
            parts = {"eval": whole}
        if self.train_root is not None:
            parts["train"] = self._read(self.train_root)
        elif self._divides:
            parts |= self._divided(whole)
        elif self.eval_share == 1 or "train" not in parts:
            parts["train"] = whole.take(())
        found = {split: _limited(each, self.limit, self.seed) for split, each in parts.items()}
        if whole.pairs and not found["eval"].pairs:
            raise DataError(
                f"{self.pairs or self.root}: none of its pairs has both images among those that "
                "are evaluated; write 'eval_share: 1' where nothing is trained, or name pairs of "
                "other images"
            )
        return found

    def _divided(self, whole: IdentityImages) -> dict[Split, IdentityImages]:
        known = whole.classes()
        if len(known) < 2:
            raise DataError(f"{self.root}: one identity cannot be divided; add some, or write "
                            "'eval_share: 1' if nothing is trained")  # fmt: skip
        count = min(max(round(len(known) * self.eval_share), 1), len(known) - 1)
        chosen = choose(known, count, self.seed)
        sides: dict[Split, list[int]] = {"train": [], "eval": []}
        for index, identity in enumerate(whole.identities):
            sides["eval" if identity in chosen else "train"].append(index)
        return {split: whole.take(indices) for split, indices in sides.items()}

    def _samples(self, split: Split) -> Samples:
        from alignkit.samples import Samples

        part = self._parts()[split]
        classes = part.classes()
        place = {name: index for index, name in enumerate(classes)}
        return Samples(
            ids=tuple(map(escaped_name, part.names)),
            labels=tuple(place[each] for each in part.identities),
            classes=tuple(map(escaped_name, classes)),
            read=part.reads(),
            fingerprint=_key(part),
            pairs=_pairs(part),
        )


def _form_of(source: Path) -> IdentityForm:
    path = source.expanduser()
    if path.is_dir():
        if (path / SHARD_LIST).exists():
            return "base64"
        return "list" if (path / LIST).exists() else "folder"
    if path.suffix.lower() in SUFFIXES:
        return "bin"
    return "list" if path.suffix.lower() in _LISTS else "base64"


def _folder_images(root: Path, directory: str = "") -> IdentityImages:
    labelled = images_by_class(root, directory)
    order = sorted(labelled)
    return files_of(root, names_of(labelled), [order[each] for each in labels_of(labelled)])


def _key(part: IdentityImages) -> str:
    return content_key([part.classes(), part.names, part.identities, part.contents(), part.pairs])


def _pairs(part: IdentityImages) -> Pairs | None:
    if not part.pairs:
        return None
    import numpy as np

    from alignkit.annotations import Pairs

    first, second, same, fold = zip(*part.pairs, strict=True)
    return Pairs(
        np.array(first, np.int64), np.array(second, np.int64), np.array(same, np.bool_),
        np.array(fold, np.int64),
    )  # fmt: skip


def _limited(whole: IdentityImages, limit: int | None, seed: int) -> IdentityImages:
    """Take up to ``limit`` images: whole pairs if there are some, else whole identities."""
    if limit is None or len(whole) <= limit:
        return whole
    groups: dict[str, list[int]] = {}
    for at, pair in enumerate(whole.pairs):
        groups[str(at)] = [pair.first, pair.second]
    if not whole.pairs:
        for index, identity in enumerate(whole.identities):
            groups.setdefault(identity, []).append(index)
    taken: set[int] = set()
    # ever more groups in an order by their hashes, until the next one is too many
    for group in _in_hash_order(in_order({*groups}), seed):
        if len(taken | {*groups[group]}) > limit:
            break
        taken |= {*groups[group]}
    if not taken:
        raise DataError(f"limit: {limit} images do not hold one identity; raise it")
    return whole.take(sorted(taken))


def _in_hash_order(names: tuple[str, ...], seed: int) -> list[str]:
    import hashlib

    return sorted(names, key=lambda each: hashlib.sha256(f"{seed}/{each}".encode()).digest())
