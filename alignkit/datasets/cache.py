"""Cache of the data sets: images made here, and hashes of the user's files.

It lies in the user's cache folder, or in ``ALIGNKIT_CACHE_DIR``, and may be deleted at any time:
everything in it can be made again.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alignkit.errors import WorkspaceError

logger = logging.getLogger(__name__)


def cache_root() -> Path:
    """Return the cache folder; it need not exist yet."""
    import platformdirs

    return Path(os.environ.get("ALIGNKIT_CACHE_DIR") or platformdirs.user_cache_dir("alignkit"))


def made_once(folder: Path, *, damage: Callable[[Path], str], make: Callable[[Path], None]) -> Path:
    """Return ``folder``, filled by ``make`` if it is absent or ``damage`` names a fault in it.

    It appears whole or not at all, however the process ends. If several processes need it, one
    makes it and the others wait. Raise `WorkspaceError` if the cache cannot be written.
    """
    if folder.exists() and not damage(folder):
        return folder
    with _locked(folder):
        if folder.exists():
            if not (fault := damage(folder)):  # the process that held the lock has made it
                return folder
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
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    from filelock import FileLock

    with explained_cache():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock", fallback_to_soft=False):
            yield


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
