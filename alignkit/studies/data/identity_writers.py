"""Writers of images of identities, one for each form that `Identities` reads.

Each says which labels, names and pairs its form cannot hold, before anything is written, and writes
one image at a time, its bytes as they are.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from alignkit.datasets.base64_shards import SHARD_LIST, shard_names, write_shards
from alignkit.datasets.identities import LIST
from alignkit.datasets.identity_images import IdentityImages, ImagePair, folds_in_order
from alignkit.datasets.image_files import is_image
from alignkit.datasets.labelled import EVAL_DIRS
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.verification_bin import MOST_PAIRS, write_bin
from alignkit.errors import ConfigError, DataError
from alignkit.limits import LABEL_CHARACTERS
from alignkit.preprocess.image_header import ImageFormat, image_format

PAIRS = "pairs.txt"
"""Name of the file of pairs beside the images of identities."""
_LONGEST_NAME = 255
"""Bytes of a file's name, on nearly every file system."""
_RESERVED = ("train", *EVAL_DIRS, LIST, SHARD_LIST, PAIRS)
_SUFFIXES: dict[ImageFormat, str] = {
    "JPEG": ".jpg",
    "PNG": ".png",
    "GIF": ".gif",
    "BMP": ".bmp",
    "WebP": ".webp",
    "TIFF": ".tif",
    "JPEG 2000": ".jp2",
    "HEIF": ".heif",
    "other": "",
}
Read = Callable[[int], bytes]
"""Index of an image → its bytes."""


@dataclass(frozen=True, slots=True)
class Content:
    """Images to write, all of which can be read."""

    images: IdentityImages
    digests: tuple[str, ...]
    """SHA-256 of each image's bytes, in hex."""
    begin: Path
    """Folder at which the names of the images begin."""
    files: bool
    """Whether the names are those of files, and not of places in a shard."""


class IdentityWriter(Protocol):
    """A writer of one form."""

    def unheld(self, label: str) -> str:
        """Say why the form cannot hold a label; return an empty text if it can."""
        ...

    def names(self, content: Content) -> list[str]:
        """Name the images as the written form will; raise `DataError` if it cannot hold them."""
        ...

    def write(self, target: Path, content: Content, names: Sequence[str], read: Read) -> None:
        """Write the form, without pairs unless it holds nothing else."""
        ...


class FolderWriter:
    """Writer of a folder for each identity."""

    def unheld(self, label: str) -> str:
        """Refuse labels that are no name of a folder, or of one that is not an identity's."""
        if label in _RESERVED:
            return "a folder of that name, or a file, has a meaning of its own"
        if label.startswith("."):
            return "hidden folders are not read"
        if found := re.search(r"[/\\\0]", label):
            return f"a folder's name has no {escaped_name(found[0])}"
        long = len(os.fsencode(label)) > _LONGEST_NAME
        return f"a folder's name has at most {_LONGEST_NAME} bytes" if long else ""

    def names(self, content: Content) -> list[str]:
        """Keep the names of files; number others as LFW does, ``ann/ann_0001.jpg``."""
        labels = content.images.identities
        if len({*labels}) < 2:
            raise DataError("folders are read from two identities on, and there is one")
        if content.files:
            below = _inside(content)
            short = [_after(name, label) for name, label in zip(below, labels, strict=True)]
            chosen = short if len({*zip(labels, short, strict=True)}) == len(labels) else below
            names = [f"{label}/{name}" for label, name in zip(labels, chosen, strict=True)]
        else:
            names, counts, read = [], Counter[str](), content.images.reads()
            for index, label in enumerate(labels):
                counts[label] += 1
                suffix = _suffix(read(index))
                names.append(f"{label}/{label}_{counts[label]:04d}{suffix}")
        _refuse(names, "folder", _unseen, "'--to list' or '--to base64' holds them")
        return names

    def write(self, target: Path, content: Content, names: Sequence[str], read: Read) -> None:  # noqa: ARG002
        """Write a file for each image."""
        _write_files(target, names, read)


class ListWriter:
    """Writer of a list, ``label.txt``, and the images that it names, below ``images/``."""

    def unheld(self, label: str) -> str:
        """Refuse labels with a space, as the last one of a line divides it."""
        if re.search(r"\s", label):
            return "the label of a line has no space"
        return _too_long(label)

    def names(self, content: Content) -> list[str]:
        """Keep the names of files; number others, a thousand in a folder."""
        if content.files:
            below = _inside(content)
            kept = all(name.startswith("images/") for name in below)
            names = below if kept else [f"images/{name}" for name in below]
        else:
            read = content.images.reads()
            names = [
                f"images/{index // 1000:04d}/{index:07d}{_suffix(read(index))}"
                for index in range(len(content.images))
            ]
        _refuse(names, "list", _not_in_a_line, "rename the files, or '--to base64' holds them")
        return names

    def write(self, target: Path, content: Content, names: Sequence[str], read: Read) -> None:
        """Write a file for each image, and the list."""
        _write_files(target, names, read)
        lines = zip(names, content.images.identities, strict=True)
        with (target / LIST).open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{name} {label}\n" for name, label in lines)


@dataclass(frozen=True, slots=True)
class ShardWriter:
    """Writer of Base64 shards of consecutive images, whose sizes differ by one at most."""

    shards: int

    def unheld(self, label: str) -> str:
        """Refuse labels that a line does not give back."""
        if not label or label != label.strip() or re.search(r"[\t\n]", label):
            return "a label between a tab and the end of a line has neither, and no outer space"
        return _too_long(label)

    def names(self, content: Content) -> list[str]:
        """Name each image by its shard and line."""
        if not 0 < self.shards <= len(content.images):
            raise ConfigError(f"--shards {self.shards}: 1 to {len(content.images)}, the images")
        empty = hashlib.sha256(b"").hexdigest()
        names = [
            name
            for name, digest in zip(content.images.names, content.digests, strict=True)
            if digest == empty
        ]
        _refuse(names, "base64", lambda _: "the file is empty", "remove them")
        return shard_names(self._sizes(content))

    def write(self, target: Path, content: Content, names: Sequence[str], read: Read) -> None:
        """Write the shards and their list."""
        target.mkdir()
        images = ((read(index), content.images.identities[index]) for index in range(len(names)))
        write_shards(target, images, self._sizes(content))

    def _sizes(self, content: Content) -> list[int]:
        spread = Counter(folds_in_order(len(content.images), self.shards))
        return [spread[at] for at in range(self.shards)]


class PairsWriter:
    """Writer of a ``.bin`` file, which holds pairs in ten folds and no identities."""

    def unheld(self, label: str) -> str:  # noqa: ARG002 - it holds none
        """Refuse no label, as none is written."""
        return ""

    def names(self, content: Content) -> list[str]:
        """Return the names of the source: the file knows none."""
        pairs = in_folds(content.images.pairs)
        if not pairs:
            raise DataError("a .bin file holds pairs, and both images of none can be read")
        if len(pairs) > MOST_PAIRS:
            raise DataError(f"a .bin file is written with at most {MOST_PAIRS:,} pairs")
        if [each.fold for each in pairs] != [*folds_in_order(len(pairs))]:
            sizes = Counter(each.fold for each in pairs)
            said = ", ".join(f"{sizes[fold]}" for fold in range(max(sizes) + 1))
            raise DataError(
                f"a .bin file holds ten equal folds in order, and these have {said} pairs; write "
                "a file of pairs without folds, or with even ones"
            )
        return [*content.images.names]

    def write(self, target: Path, content: Content, names: Sequence[str], read: Read) -> None:  # noqa: ARG002
        """Write the pairs, fold by fold; an image of several pairs is written in each."""
        pairs = in_folds(content.images.pairs)
        indices = (index for each in pairs for index in (each.first, each.second))
        with target.open("xb") as file:
            write_bin(file, map(read, indices), [each.same for each in pairs])


def in_folds(pairs: Sequence[ImagePair]) -> list[ImagePair]:
    """Sort pairs by their fold; those of one fold keep their order."""
    return sorted(pairs, key=lambda each: each.fold)


def require_pair_names(pairs: Sequence[ImagePair], names: Sequence[str]) -> None:
    """Raise `DataError` if a line of a file of pairs cannot hold the name of an image."""
    used = sorted({index for each in pairs for index in (each.first, each.second)})
    _refuse([names[index] for index in used], PAIRS, _not_in_a_line, "rename the files")


def write_pairs(target: Path, pairs: Sequence[ImagePair], names: Sequence[str]) -> None:
    """Write a file of pairs, whose columns tabs divide: two names, 1 or 0, and the fold."""
    with target.open("x", encoding="utf-8", newline="\n") as file:
        for each in pairs:
            first, second = names[each.first], names[each.second]
            file.write(f"{first}\t{second}\t{int(each.same)}\t{each.fold}\n")


def _write_files(target: Path, names: Sequence[str], read: Read) -> None:
    target.mkdir()
    made: set[Path] = set()
    for index, name in enumerate(names):
        path = target / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        with path.open("xb") as file:
            file.write(read(index))


def _inside(content: Content) -> list[str]:
    """Return the names of files, from the folder that holds them all if some lie outside."""
    names = content.images.names
    if not any(name.startswith(("/", "../")) for name in names):
        return [*names]
    paths = [os.path.normpath(Path(content.begin, name).absolute()) for name in names]
    folder = os.path.commonpath([os.path.dirname(each) for each in paths])  # noqa: PTH120
    # relative_to takes //a for another place than /a
    return [os.path.relpath(each, folder).replace(os.sep, "/") for each in paths]


def _after(name: str, label: str) -> str:
    """Return what follows the folder of the label in a path, or else the file's name."""
    parts = PurePosixPath(name).parts
    return "/".join(parts[parts.index(label) + 1 :]) if label in parts[:-1] else parts[-1]


def _suffix(data: bytes) -> str:
    heif = data[8:12] in (b"avif", b"avis")
    return ".avif" if heif and data[4:8] == b"ftyp" else _SUFFIXES[image_format(data)]


def _too_long(label: str) -> str:
    fault = LABEL_CHARACTERS.fault(len(label))
    return f"it has {fault}" if fault else ""


def _unseen(name: str) -> str:
    parts = name.split("/")
    if any(each.startswith(".") for each in parts):
        return "hidden files and folders are not read"
    if not is_image(parts[-1]):
        return "images are found by their suffix, and it has none of an image"
    return _too_long_for_a_file(parts)


def _not_in_a_line(name: str) -> str:
    if name.strip() != name or len(name.splitlines()) != 1 or "\t" in name or "\\" in name:
        return "a line holds no name with a tab, line feed, backslash or outer space"
    return _too_long_for_a_file(name.split("/"))


def _too_long_for_a_file(parts: Sequence[str]) -> str:
    long = any(len(os.fsencode(each)) > _LONGEST_NAME for each in parts)
    return f"a name has at most {_LONGEST_NAME} bytes" if long else ""


def _refuse(names: Sequence[str], form: str, why: Callable[[str], str], then: str) -> None:
    faults: Iterator[tuple[str, str]] = ((name, reason) for name in names if (reason := why(name)))
    if bad := [*faults]:
        name, reason = bad[0]
        raise DataError(
            f"{form} cannot hold {len(bad)} of the images, such as {escaped_name(name)}: {reason}; "
            f"{then}"
        )
