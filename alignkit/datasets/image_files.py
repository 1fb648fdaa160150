"""The user's image files: found, never written; and the data sets' cache.

The cache holds images made here, and hashes of the user's files. It lies in the user's cache
folder, or in ``ALIGNKIT_CACHE_DIR``, and may be deleted at any time: everything in it can be made
again.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alignkit.datasets.regular_file import escaped_name, is_utf8
from alignkit.errors import DataError, WorkspaceError

logger = logging.getLogger(__name__)

_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tga", ".tif",
     ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif", ".heic", ".heif"}
)  # fmt: skip
"""Suffixes of image files, in any case; the decoders decide whether a file can be decoded."""


def image_files(folder: Path) -> list[str]:
    """List the paths of all images below a folder, relative to it, with ``/``, sorted.

    Links are followed; hidden files and folders are left out. A folder with the name of an image
    is listed as one unless it holds images. Pipes and devices with such names are listed too: the
    reader of each learns why it cannot be read. Raise `DataError` for a folder that cannot be
    listed.
    """
    images: list[str] = []
    named: list[str] = []
    entered: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot list {escaped_name(error.filename)}: {error.strerror}") from error

    for path, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        status = os.stat(path)  # noqa: PTH116 - a Path for each folder would cost more than the walk
        if (status.st_dev, status.st_ino) in entered:  # a link to a folder that contains it
            folders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        # os.walk enters the folders that remain in this list, in its order
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(path, folder).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        images += [prefix + name for name in files if is_image(name)]
        named += [prefix + name for name in folders if is_image(name)]
    images.sort()
    empty = [name for name in named if not _any_below(name, images)]
    return sorted(images + empty)


def _any_below(folder: str, images: list[str]) -> bool:
    place = bisect_left(images, f"{folder}/")
    return place < len(images) and images[place].startswith(f"{folder}/")


def is_image(name: str) -> bool:
    """Tell whether a file's name is that of an image."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122


def check_name(name: str, folder: Path) -> None:
    """Raise `DataError` for the name of a class that is not UTF-8."""
    if not is_utf8(name):
        raise DataError(f"the name of {escaped_name(name)} in {folder} is not UTF-8; rename it")


def cache_root() -> Path:
    """Return the cache folder; it need not exist yet."""
    import platformdirs

    return Path(os.environ.get("ALIGNKIT_CACHE_DIR") or platformdirs.user_cache_dir("alignkit"))


def made_once(folder: Path, *, damage: Callable[[Path], str], make: Callable[[Path], None]) -> Path:
    """Return ``folder``, filled by ``make`` if it is absent or ``damage`` names a fault in it.

    It appears whole or not at all, however the process ends. If several processes need it, one
    makes it and the others wait. Raise `WorkspaceError` if the cache cannot be written.
    """
    from filelock import FileLock

    if folder.exists() and not damage(folder):
        return folder
    with explained_cache():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # a soft lock would outlive a process that was killed
        with FileLock(folder.parent / f"{folder.name}.lock", fallback_to_soft=False):
            _make_whole(folder, damage, make)
    return folder


def _make_whole(folder: Path, damage: Callable[[Path], str], make: Callable[[Path], None]) -> None:
    if folder.exists():
        if not (fault := damage(folder)):  # the process that held the lock has made it
            return
        logger.warning("%s is damaged (%s) and is made again", folder, fault)
    for leftover in folder.parent.glob(f".{folder.name}-*"):  # of processes that were killed
        shutil.rmtree(leftover)
    # beside the folder, so that the rename stays within one file system
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    make(making / "new")
    if folder.exists():
        folder.rename(making / "damaged")
    (making / "new").rename(folder)
    shutil.rmtree(making)


@contextmanager
def explained_cache() -> Iterator[None]:
    """Turn an operating system's refusal to write the cache into a `WorkspaceError`."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(
            f"cannot write the cache {cache_root()} ({error.strerror}); set ALIGNKIT_CACHE_DIR to "
            "a folder that can be written and has space"
        ) from error
