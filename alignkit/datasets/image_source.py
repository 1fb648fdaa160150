"""Roots that are no folder of image files: a URL, tar shards, or Parquet files."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from alignkit.datasets import LISTINGS
from alignkit.datasets.byte_store import (
    ByteStore,
    FolderStore,
    StoredFile,
    stored_images,
    url_of,
)
from alignkit.datasets.image_files import image_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.store_options import Storage
from alignkit.datasets.stored_objects import stored_objects
from alignkit.datasets.stored_places import (
    THREADS,
    HashedReads,
    ImageSource,
    Taken,
    hashed,
    store_of,
)
from alignkit.datasets.tar_shards import tar_shards
from alignkit.errors import ConfigError, DataError, NothingCompared, UnreadableImage
from alignkit.limits import parsed_json

ARCHIVES = (".tar", ".parquet", ".arrow")
_SPLITS, _STATE = "dataset_dict.json", "state.json"
"""Files that `datasets` writes beside Arrow files."""
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST_SHARDS = 1_000_000


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """The images of a root, and its name."""

    images: ImageSource
    place: str
    """Name of the root, in messages and as the key of kept hashes."""
    taken: Taken

    def hashed(self, names: Sequence[str] | None = None) -> HashedReads:
        """Hash the named images, by default all, in the order of ``names``; each is hashed once."""
        if names is None:
            return hashed(self.images, self.place, range(len(self.images.names)), self.taken)
        row = {name: row for row, name in enumerate(self.images.names)}
        return hashed(self.images, self.place, [row[name] for name in names], self.taken)


def open_source(root: Path, storage: Storage | None = None) -> OpenedSource | None:
    """List the images of a URL, tar shards or Parquet files; return ``None`` for other roots.

    ``storage`` are options of the URL's file system.
    A command lists each root once: see `alignkit.datasets.listed_once`. Raise `DataError` for a
    source that is not there or is damaged, and `ConfigError` for a URL with credentials.
    """
    opened = LISTINGS.get()
    options = json.dumps(storage or {}, sort_keys=True)
    if opened is None:
        return _opened(root, options)
    if not (known := opened.get((root, options))) and (known := _opened(root, options)):
        opened[root, options] = known
    return cast("OpenedSource | None", known)


def _opened(root: Path, options: str) -> OpenedSource | None:
    url = url_of(root)
    text = url or os.fspath(root.expanduser())
    folder, _, name = text.rpartition("/")
    if name.endswith((".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")):
        raise DataError(
            f"{text} is compressed, so that no image of it can be read alone; unpack it"
        )
    if name.endswith(ARCHIVES):
        if url is None and Path(text).is_dir():
            return None
        store = store_of(folder or ("/" if text.startswith("/") else "."), options)
        return _archives(store, _expanded(store, name), f"{store.name}/{name}")
    if url:
        return _below_url(store_of(url, options))
    return _in_folder(Path(text))


def _below_url(store: ByteStore) -> OpenedSource:
    listing = store.listing()
    if not stored_images(listing) and (archives := _archive_names(store, listing)):
        return _archives(store, {name: listing[name] for name in archives}, store.name)
    return _source(stored_objects(store, listing), store.name)


def _source(images: ImageSource, place: str) -> OpenedSource:
    if not images.names:
        raise NothingCompared(f"no images in {place}")
    return OpenedSource(images, place, Taken(len(images.names)))


def _in_folder(folder: Path) -> OpenedSource | None:
    """Open the archives of a folder that has no image files."""
    if not folder.is_dir():
        return None
    store = FolderStore(folder)
    try:
        files = sorted(os.listdir(folder))  # noqa: PTH208 - a Path for each would cost more
    except OSError as error:
        raise DataError(f"cannot list {folder}: {error.strerror}") from error
    archives = _archive_names(store, files)
    if not archives or image_files(folder):
        return None
    return _archives(store, {name: store.status(name) for name in archives}, store.name)


def _archive_names(store: ByteStore, files: Collection[str]) -> list[str]:
    """Name the archives among files; of a data set that was saved to disk, those of its state.

    Other Arrow files there hold the same images: `datasets` keeps what ``map`` returns beside them.
    """
    if _SPLITS in files:
        raise DataError(
            f"{store.name} holds splits of Hugging Face datasets; name the folder of one"
        )
    archives = [name for name in files if name.endswith(ARCHIVES) and not name.startswith(".")]
    if _STATE not in files or not any(name.endswith(".arrow") for name in archives):
        return archives
    try:
        state = parsed_json(store.read(_STATE))
        named = [str(each["filename"]) for each in state["_data_files"]]
    except (ValueError, KeyError, TypeError, UnreadableImage) as error:
        raise DataError(
            f"{store.name}/{_STATE} names no files ({error}); save the data set again"
        ) from None
    if absent := [name for name in named if name not in archives]:
        raise DataError(
            f"{store.name}/{_STATE} names {escaped_name(absent[0])}, which is not there; copy the "
            "folder again"
        )
    return named


def _archives(store: ByteStore, files: Mapping[str, StoredFile], place: str) -> OpenedSource:
    kinds = {os.path.splitext(each)[1] for each in files}  # noqa: PTH122 - names of a store
    if len(kinds) > 1:
        raise DataError(
            f"{place} holds {' and '.join(sorted(kinds))} files; name those of one kind"
        )
    images: ImageSource
    if kinds == {".tar"}:
        images = tar_shards(store, files)
    else:
        from alignkit.datasets.parquet_images import parquet_images

        images = parquet_images(store, files)
    return _source(images, place)


def _expanded(store: ByteStore, name: str) -> dict[str, StoredFile]:
    """Look up the files of ``shard-{000..099}.tar`` or of ``*.parquet``, in order."""
    from concurrent.futures import ThreadPoolExecutor

    if found := _RANGE.search(name):
        first, last = found.groups()
        if not int(first) <= int(last) < int(first) + _MOST_SHARDS:
            raise ConfigError(f"root: {name}: write the lower number first, as in {{000..099}}")
        numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        names = [name[: found.start()] + each + name[found.end() :] for each in numbers]
        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(names, pool.map(store.status, names), strict=True))
    if "*" in name or "?" in name:
        listed = store.listing().items()
        files = {each: file for each, file in listed if fnmatch.fnmatchcase(each, name)}
        if not files:
            raise DataError(f"no file in {store.name} is named like {name}")
        return files
    return {name: store.status(name)}
