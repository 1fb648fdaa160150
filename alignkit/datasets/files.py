"""The user's image files: found, chosen and read, never written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from alignkit.errors import DataError

_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tga", ".tif",
     ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif", ".heic", ".heif"}
)  # fmt: skip
"""Suffixes of image files, in any case; the decoders decide whether a file can be decoded."""


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
    try:
        return (root / name).read_bytes()
    except OSError as error:
        raise DataError(unreadable(root / name, error)) from error


def unreadable(path: Path, error: OSError) -> str:
    """Explain why a file cannot be read."""
    if path.is_symlink() and not path.exists():
        return f"cannot read {path}: a link to {path.readlink()}, which is not there; remove it"
    return f"cannot read {path}: {error.strerror}; make it readable or remove it"
