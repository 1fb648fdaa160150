"""Files and folders that appear whole or not at all, however the process ends."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alignkit.errors import ConfigError, WorkspaceError


def require_new(target: Path) -> None:
    """Raise `ConfigError` if there is anything of that name."""
    if os.path.lexists(target):
        raise ConfigError(
            f"{target} exists, and nothing is overwritten; name a folder or file that does not"
        )


@contextmanager
def appearing_whole(target: Path) -> Iterator[Path]:
    """Give a path to fill, which becomes ``target`` as the block ends and is deleted if it fails.

    It lies in a hidden folder beside ``target``, as a rename does not cross file systems. Those of
    killed processes are deleted first. Raise `WorkspaceError` if it cannot be written.
    """
    from filelock import FileLock

    prefix = f".{target.name}.making-"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _delete_leftovers(target.parent, prefix)
        making = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))
        try:
            # a soft lock would outlive a process that is killed
            with FileLock(making / "lock", fallback_to_soft=False):
                yield making / "whole"
                require_new(target)  # another process may have been quicker
                (making / "whole").rename(target)
        finally:  # nothing half-written stays, after Ctrl-C either
            shutil.rmtree(making)
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        raise WorkspaceError(
            f"{target} was not written: {fault}; see to it and run the same command again"
        ) from error


def _delete_leftovers(parent: Path, prefix: str) -> None:
    from filelock import FileLock, Timeout

    for each in parent.glob(f"{glob.escape(prefix)}*"):
        lock = FileLock(each / "lock", fallback_to_soft=False)
        # a live process fills it or has just deleted it, or it is that of another user
        with suppress(Timeout, FileNotFoundError, PermissionError), lock.acquire(blocking=False):
            shutil.rmtree(each)
