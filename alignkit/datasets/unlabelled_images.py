"""`Images`: unlabelled images, to compare preprocessing stacks and given models on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NoReturn, TypeAlias

from alignkit.datasets import Dataset
from alignkit.datasets.byte_store import place_text, url_of
from alignkit.datasets.image_files import image_files
from alignkit.datasets.image_source import ARCHIVES, OpenedSource, open_source
from alignkit.datasets.listed_images import FileReads, ImageFile, list_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.store_options import Storage, require_public
from alignkit.errors import ConfigError, DataError, NothingCompared
from alignkit.plugins import option_added_later
from alignkit.samples import HeldImages, JoinedReads, Samples, Split, Truth, choose
from alignkit.stored_file import irregular
from alignkit.workspace import content_key

ImageSource: TypeAlias = str | Path | bytes | Iterable[str | Path | bytes] | Samples
"""Images as a function takes them: a folder, files, encoded images, or a data set's samples."""


@dataclass(frozen=True, slots=True)
class Images(Dataset):
    """Every image of a folder and the folders in it, or the files named, or a list of both.

    A named file is taken whatever its suffix.
    """

    labelled: ClassVar[bool] = False
    truth: ClassVar[Truth] = "none"

    root: Path | tuple[Path, ...]
    """Folder or image file, or a list of them; or a URL such as s3://bucket/photos, tar shards
    (shards-{000..099}.tar), Parquet files (*.parquet), or a folder of Dataset.save_to_disk."""
    limit: int | None = None
    """Greatest number of images, chosen by ``seed``."""
    seed: int = 0
    """Seed of the choice by ``limit``."""
    storage: Storage | None = option_added_later(default=None)  # noqa: RUF009 - it is a field
    """Options of the URL's file system in fsspec, as ``endpoint_url`` or ``anon``; no secret."""

    def __post_init__(self) -> None:
        if not self.root and isinstance(self.root, tuple):
            raise ConfigError("root: name a folder or an image")
        for root in (self.root,) if isinstance(self.root, Path) else self.root:
            require_public(url_of(root), self.storage)
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit: {self.limit}; 1 or more, or none")

    def training(self) -> NoReturn:
        """Raise `DataError`: images without labels cannot train a model."""
        raise DataError("'images' has no labels to train on; use 'folder' with class folders")

    def evaluation(self) -> Samples:
        """Return each image once, in sorted order, with its path below their common folder as id.

        Raise `NothingCompared` if there is none.
        """
        return self.drawn()[0]

    def drawn(self) -> tuple[Samples, int]:
        """Return `evaluation`, and from how many images ``limit`` drew them."""
        if source := self._source():
            names, images = self._limited(source.images.names)
            hashed = source.hashed(names)
            key = content_key([names, hashed.identities()])
            return Samples(tuple(map(escaped_name, names)), (), (), hashed, key), images
        folder, names, images = self._found()
        files = list_files(folder, names)
        samples = Samples(
            ids=tuple(map(escaped_name, names)),
            labels=(),
            classes=(),
            read=FileReads(folder, names, files),
            fingerprint=_content_key(names, files),
        )
        return samples, images

    def counts(self) -> tuple[int, int]:
        """Return ``(0, images)``."""
        source = self._source()
        return 0, len(self._limited(source.images.names)[0] if source else self._found()[1])

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over names and contents; unchanged files are not read again."""
        if split == "train":
            self.training()
        if self._source():
            return self.evaluation().fingerprint
        folder, names, _ = self._found()
        return _content_key(names, list_files(folder, names))

    def version(self) -> str:
        """Say that the files alone decide the samples."""
        return "the files as they are"

    def _source(self) -> OpenedSource | None:
        """Open a root that is a URL or an archive; `ConfigError` if there are others beside it."""
        roots = (self.root,) if isinstance(self.root, Path) else self.root
        if len(roots) == 1:
            return open_source(roots[0], self.storage)
        for root in roots:
            if url_of(root) or root.suffix in ARCHIVES:
                raise ConfigError(
                    f"{place_text(root)} is one of {len(roots)} places; name it alone"
                )
        return None

    def _limited(self, names: Sequence[str]) -> tuple[tuple[str, ...], int]:
        """Draw ``limit`` names; return them sorted, and the number of all."""
        if self.limit is None:
            return tuple(names), len(names)
        return tuple(sorted(choose(names, self.limit, self.seed))), len(names)

    def _found(self) -> tuple[Path, tuple[str, ...], int]:
        """Return the folder of all images, the paths of the drawn ones, and the number of all."""
        roots = (self.root,) if isinstance(self.root, Path) else self.root
        if len(roots) == 1 and roots[0].expanduser().is_dir():
            folder = roots[0].expanduser()
            names = image_files(folder)
        else:
            files = sorted({file for root in roots for file in _files(root.expanduser())})
            folder = _common_folder(files)
            names = [file.relative_to(folder).as_posix() for file in files]
        if not names:
            raise NothingCompared(f"no images in {', '.join(str(root) for root in roots)}")
        return folder, *self._limited(names)


@dataclass(frozen=True, slots=True)
class CalibratedData(Dataset):
    """A data set that is only evaluated; where it is asked for training images, it has others.

    They need no labels: an engine takes its scales from them.
    """

    data: Dataset
    images: Images

    @property
    def truth(self) -> Truth:
        """Kind of the knowledge of each evaluation image."""
        return self.data.truth

    @property
    def held_out(self) -> bool:
        """Whether the classes are identities."""
        return self.data.held_out

    def training(self) -> Samples:
        """Return the images that calibrate."""
        return self.images.evaluation()

    def evaluation(self) -> Samples:
        """Return the images of the data set."""
        return self.data.evaluation()

    def counts(self) -> tuple[int, int]:
        """Count the images that calibrate, and those of the data set."""
        return self.images.counts()[1], self.data.counts()[1]

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over the images that calibrate, or over those of the data set."""
        return (self.images if split == "train" else self.data).fingerprint("eval")

    def choice(self) -> str:
        """Say which images are evaluated."""
        return self.data.choice()

    def class_names(self) -> tuple[str, ...]:
        """Return the classes of evaluation."""
        return self.data.class_names()

    def unnamed(self) -> str:
        """Say why there are no classes."""
        return self.data.unnamed()

    def version(self) -> str:
        """Describe the dependencies of the data set."""
        return self.data.version()

    def first_look(self) -> Iterable[str]:
        """Return what may be wrong with the first annotation."""
        return self.data.first_look()

    def notes(self) -> Iterable[str]:
        """Return the remarks on the data set."""
        return self.data.notes()


def listed_images(source: ImageSource) -> list[str | Path | bytes]:
    """List folders, files and encoded images; raise `ConfigError` for anything else."""
    if isinstance(source, str | Path | bytes):
        return [source]
    kinds = "a folder, files, encoded images as bytes, or a data set's samples"
    if not isinstance(source, Iterable):
        raise ConfigError(f"images: {type(source).__name__} is no images; give {kinds}")
    listed = list(source)
    for place, each in enumerate(listed):
        if not isinstance(each, str | Path | bytes):
            raise ConfigError(
                f"images: entry {place} is {type(each).__name__}, which is no image; give {kinds} "
                "(pixels that are decoded already have no file to decode)"
            )
    return listed


def images_from(source: ImageSource) -> Samples:
    """Return the samples of folders, files, encoded images, or a mix of them.

    An encoded image is named ``image 0``, ``image 1``, … by its place in the list, a file by its
    path below the common folder of all. Raises `ConfigError` for anything else, `NothingCompared`
    if there are none and `DataError` for a file that does not exist.
    """
    if isinstance(source, Samples):
        return source
    listed = listed_images(source)
    files = tuple(Path(each) for each in listed if not isinstance(each, bytes))
    if not listed:
        raise NothingCompared("there are no images; nothing was compared")
    if len(files) == len(listed):
        return Images(files).evaluation()
    return _mixed(listed)


def _mixed(listed: Sequence[str | Path | bytes]) -> Samples:
    """Return the samples of encoded images and of files, in their order; each file once."""
    found: dict[str, bytes | Path] = {}
    for place, each in enumerate(listed):
        if isinstance(each, bytes):
            found[f"image {place}"] = each
        else:
            found |= {str(file): file for file in _files(Path(each).expanduser())}
    paths = [each for each in found.values() if isinstance(each, Path)]
    folder = _common_folder(paths)
    below = [each.relative_to(folder).as_posix() for each in paths]
    files = list_files(folder, below)
    held: list[bytes] = []
    names, identities, places = [], [], []
    for key, each in found.items():
        if isinstance(each, bytes):
            places.append((0, len(held)))
            held.append(each)
            names.append(key)
            identities.append(hashlib.sha256(each).hexdigest())
        else:
            row = len(places) - len(held)
            places.append((1, row))
            names.append(below[row])
            identities.append(files[row].identity)
    reads = JoinedReads(
        (HeldImages(tuple(held)), FileReads(folder, tuple(below), files)), tuple(places)
    )
    fingerprint = content_key([names, identities])
    return Samples(tuple(map(escaped_name, names)), (), (), reads, fingerprint)


def _common_folder(files: Sequence[Path]) -> Path:
    return Path(os.path.commonpath([file.parent for file in files])) if files else Path()


def _content_key(names: Sequence[str], files: Sequence[ImageFile]) -> str:
    return content_key([names, [each.identity for each in files]])


def _files(root: Path) -> list[Path]:
    path = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would rename links
    if path.is_dir():
        return [path / name for name in image_files(path)]
    if not path.exists():
        raise DataError(f"{root} does not exist; name a folder or an image")
    if reason := irregular(path.stat()):
        raise DataError(f"{root} is {reason}; name a folder or an image")
    return [path]
