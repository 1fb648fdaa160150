"""Files and folders that appear whole or not at all, however the process ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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

    It is hidden beside ``target``, as a rename does not cross file systems. One that a killed
    process left is deleted first. Raise `ConfigError` while another process writes the same target,
    and `WorkspaceError` if it cannot be written.
    """
    from filelock import FileLock, Timeout

    making = target.with_name(f".{target.name}.making")
    # a soft lock would outlive a process that is killed
    lock = FileLock(f"{making}.lock", blocking=False, fallback_to_soft=False)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock:
            try:
                _delete(making)
                require_new(target)  # another process may have been quicker
                yield making
                require_new(target)
                making.rename(target)
            finally:  # nothing half-written stays, after Ctrl-C either
                _delete(making)
                # as long as it is held: whoever opened it sees that it is gone
                Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout as error:
        raise ConfigError(
            f"another process is writing {target}; wait for it, or name another place"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        fault = f"{error.filename}: {reason}" if error.filename else reason
        raise WorkspaceError(
            f"{target} was not written: {fault}; see to it and run the same command again"
        ) from error


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
