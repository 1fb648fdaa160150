"""The user's image files: found, chosen, read and hashed, never written; and the data sets' cache.

The cache holds images made here, and hashes of the user's files. It lies in the user's cache
folder, or in ``ALIGNKIT_CACHE_DIR``, and may be deleted at any time: everything in it can be made
again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from alignkit.errors import DataError, WorkspaceError
from alignkit.workspace import DamagedError, file_sha256, sealed, unsealed, write_atomically

logger = logging.getLogger(__name__)

_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tga", ".tif",
     ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif", ".heic", ".heif"}
)  # fmt: skip
"""Suffixes of image files, in any case; the decoders decide whether a file can be decoded."""
SETTLED_SECONDS = 2.0
"""Age from which a file's hash is kept: a younger file may change again within one tick of its file
system's clock."""

Stamp: TypeAlias = tuple[int, int, int]
"""Size, mtime and ctime in nanoseconds; a kept hash is used only if they are unchanged."""


def image_files(folder: Path) -> list[str]:
    """List the paths of all images below a folder, relative to it, with ``/``, sorted.

    Links are followed; hidden files and folders are left out. Raise `DataError` for a folder that
    cannot be listed.
    """
    images: list[str] = []
    entered: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot list {error.filename}: {error.strerror}") from error

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
    for name in images:
        check_name(name, folder)
    return sorted(images)


def is_image(name: str) -> bool:
    """Tell whether a file's name is that of an image."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122


def check_name(name: str, folder: Path) -> None:
    """Raise `DataError` for a name that is not UTF-8: no report could show it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the name of {name!a} in {folder} is not UTF-8; rename it") from error


def choose(names: Iterable[str], count: int, seed: int) -> set[str]:
    """Choose ``count`` of the names by the order of their hashes.

    The choice is the same on every machine, and nearly the same after a name is added or removed.
    """
    ordered = sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest())
    return set(ordered[:count])


def read_image(root: Path, name: str) -> bytes:
    """Return the bytes of a file; raise `DataError` if it cannot be read."""
    with _explained_reading(root / name):
        return (root / name).read_bytes()


@contextmanager
def _explained_reading(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to read a file into a `DataError`."""
    try:
        yield
    except OSError as error:
        if path.is_symlink() and not path.exists():
            raise DataError(
                f"cannot read {path}: a link to {path.readlink()}, which is not there; remove it"
            ) from error
        raise DataError(
            f"cannot read {path}: {error.strerror}; make it readable or remove it"
        ) from error


def content_hashes(root: Path, names: Sequence[str]) -> list[str]:
    """Return the SHA-256 hex of each file's content; unchanged files are not read again.

    Raise `DataError` for a file that cannot be read.
    """
    root = root.resolve()
    kept = cache_root() / "hashes" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"
    known = _known_hashes(kept, root)
    stamps = {name: _stamp(root / name) for name in names}
    # the time of change (ctime) is compared too, as programs can set the other one back
    stale = [name for name in names if known.get(name, (None, ""))[0] != stamps[name]]
    if not stale:
        return [known[name][1] for name in names]
    fresh = dict(zip(stale, _hashed(root, stale), strict=True))
    # a younger file may change again and keep its time stamp
    settled = time.time_ns() - int(SETTLED_SECONDS * 1e9)
    keep = {name: (stamps[name], each) for name, each in fresh.items() if stamps[name][2] < settled}
    _keep_hashes(kept, root, known | keep)
    return [fresh.get(name) or known[name][1] for name in names]


def _stamp(path: Path) -> Stamp:
    with _explained_reading(path):
        status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _hashed(root: Path, names: Sequence[str]) -> list[str]:
    from concurrent.futures import ThreadPoolExecutor

    def hashed(name: str) -> str:
        with _explained_reading(root / name):
            return file_sha256(root / name)

    with ThreadPoolExecutor() as pool:  # reading and hashing release the interpreter's lock
        return list(pool.map(hashed, names))


def _known_hashes(kept: Path, root: Path) -> dict[str, tuple[Stamp, str]]:
    if not kept.exists():
        return {}
    try:
        stored = unsealed(kept)
    except (DamagedError, OSError) as error:
        fault = str(error)
    else:
        if stored["folder"] == str(root):
            files = stored["files"].items()
            return {name: ((size, m, c), digest) for name, (size, m, c, digest) in files}
        fault = f"it is that of {stored['folder']}"
    logger.warning("%s is damaged (%s); every file is hashed again", kept, fault)
    return {}


def _keep_hashes(kept: Path, root: Path, known: dict[str, tuple[Stamp, str]]) -> None:
    files = {name: (*stamp, digest) for name, (stamp, digest) in known.items()}
    try:
        write_atomically(kept, sealed({"folder": str(root), "files": files}))
    except WorkspaceError:
        logger.warning("hashes cannot be kept in %s; every file is hashed each time", kept.parent)


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
