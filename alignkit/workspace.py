"""Place the files of a run; write them atomically; hash their content.

::

    reports/
        .cache/<kind>/<key>/          finished work under its content hash, shared by experiments
            key.json                  the parts of the key, so that a change can be explained, the
                                      time it took, and the files' SHA-256 of a kind of `HASHED`
        <experiment>/<run>/           one run: record.json, index.html, summary.md, arrays
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from alignkit.errors import WorkspaceError
from alignkit.progress import Progress
from alignkit.rank import ALONE, Rank

WorkKind = Literal["prepared", "trainings", "exports", "engines", "cells", "spreads", "comparisons"]
HASHED: tuple[WorkKind, ...] = ("exports", "engines")
"""Kinds that are verified when they are read: a runtime loads them without a check of its own."""

_T = TypeVar("_T")
logger = logging.getLogger(__name__)


class DamagedError(Exception):
    """A difference between stored work and what was written."""


def content_key(parts: Any) -> str:
    """Compute the SHA-256 of the canonical JSON of ``parts``, in hex."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Compute the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write below ``path`` into a `WorkspaceError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise WorkspaceError(
                f"no room to write {path} ({error.strerror}); free some space and run the same "
                "command again: finished work is kept"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise WorkspaceError(
                f"cannot write {path} ({error.strerror}); choose another folder with --reports DIR"
            ) from error
        raise


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that readers see the old content or the new, even after a crash."""
    data = content.encode() if isinstance(content, str) else content
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@dataclass(frozen=True, slots=True)
class Finished:
    """A stored artefact, as its ``key.json`` describes it."""

    folder: Path
    label: str
    """The work in words."""
    parts: dict[str, Any]
    """Everything that its key was made of."""
    seconds: float | None
    """How long `Workspace.store` was held open for it; ``None`` if that was not noted."""
    files: dict[str, str] | None
    """SHA-256 of each file as it was written, for the kinds of `HASHED`."""
    stored: float
    """POSIX time at which it was stored."""

    def verify(self, kind: WorkKind) -> None:
        """Raise `DamagedError` if its files are not those that were written."""
        if kind in HASHED and _hashes(self.folder) != self.files:
            raise DamagedError("its files are not those that were written")

    def bytes(self) -> int:
        """Return the size on disk."""
        return sum(file.stat().st_size for file in self.folder.rglob("*"))


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that holds every run of every experiment."""

    root: Path

    def _folder(self, kind: WorkKind, key: str) -> Path:
        return self.root / ".cache" / kind / key

    def stored(self, kind: WorkKind, key: str) -> Path | None:
        """Return the finished artefact's folder; ``None`` if there is none."""
        folder = self._folder(kind, key)
        return folder if (folder / "key.json").exists() else None

    def recall(self, kind: WorkKind, key: str, read: Callable[[Path], _T]) -> _T | None:
        """Read a finished artefact from its folder; return ``None`` if there is none.

        One that is damaged is discarded: ``read`` raises `DamagedError`, or the files of a kind of
        `HASHED` are not those that were written.
        """
        if (folder := self.stored(kind, key)) is None:
            return None
        label = ""
        try:
            finished = _finished(folder)
            label = finished.label
            finished.verify(kind)
            return read(folder)
        # a reader of stored JSON, arrays or tables meets damage as one of these
        except (DamagedError, FileNotFoundError, ValueError, KeyError, TypeError) as damage:
            logger.warning("%s: %s is damaged and is made again (%s)", label, folder, damage)
            self.discard(kind, key)
            return None

    def keep(
        self,
        kind: WorkKind,
        parts: dict[str, Any],
        label: str,
        make: Callable[[Path], None],
        read: Callable[[Path], _T],
    ) -> _T:
        """Read the artefact that ``parts`` is the key of; ``make`` fills its folder if need be.

        Work that was just made is read from its folder too, so that a repeated run sees the same.
        """
        key = content_key(parts)
        if (known := self.recall(kind, key, read)) is None:
            with self.store(kind, key, parts, label) as filling:
                make(filling)
            known = self.recall(kind, key, read)
        if known is None:
            raise WorkspaceError(f"{label}: it is damaged right after it was written")
        return known

    def run_folder(self, experiment: str, run: str) -> Path:
        """Return the folder of a run's record and report."""
        return self.root / experiment / run[:12]

    def unfinished(self, kind: WorkKind, key: str) -> Path:
        """Make a folder for parts of unfinished work (checkpoints by epoch); it survives a kill."""
        folder = self.root / ".cache" / "unfinished" / f"{kind}-{key}"
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def store(self, kind: WorkKind, key: str, parts: Any, label: str) -> Iterator[Path]:
        """Give an empty folder to fill; it becomes the artefact ``key`` at once, or not at all.

        ``parts`` is everything that the key was made of; ``label`` names the work in words, the
        same for every key that a changed option gives it.
        """
        folder = self._folder(kind, key)
        with explained(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".filling-"))
            began = time.monotonic()
            try:
                yield temporary
                seconds = round(time.monotonic() - began, 3)
                content = {"label": label, "parts": parts, "seconds": seconds}
                if kind in HASHED:
                    content["files"] = _hashes(temporary)
                (temporary / "key.json").write_text(json.dumps(content, indent=1, sort_keys=True))
                try:
                    temporary.rename(folder)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    # another process finished the same work first, and its result stands
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(self.root / ".cache" / "unfinished" / f"{kind}-{key}", ignore_errors=True)

    def discard(self, kind: WorkKind, key: str) -> None:
        """Forget an artefact, if there is one; later readers find it gone at once."""
        folder = self._folder(kind, key)
        if not folder.exists():
            return
        with explained(folder):
            doomed = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".discarded-"))
            with suppress(FileNotFoundError):  # another process discarded it first
                folder.rename(doomed / key)
        shutil.rmtree(doomed, ignore_errors=True)

    def finished(self, kind: WorkKind) -> list[Finished]:
        """List the stored artefacts of a kind, oldest first."""
        found = []
        for file in (self.root / ".cache" / kind).glob("[!.]*/key.json"):
            try:
                found.append(_finished(file.parent))
            except DamagedError as error:
                raise WorkspaceError(f"{file} is damaged; delete {file.parent}") from error
        return sorted(found, key=lambda each: each.stored)

    @contextmanager
    def lock(self, folder: Path) -> Iterator[None]:
        """Hold a run's folder for this process; raises `WorkspaceError` if another holds it."""
        from filelock import FileLock, Timeout

        try:
            with explained(folder):
                folder.mkdir(parents=True, exist_ok=True)
                # a soft lock would outlive a process that is killed
                held = FileLock(folder / ".lock", fallback_to_soft=False).acquire(blocking=False)
        except Timeout as error:
            raise WorkspaceError(
                f"another alignkit is running in {folder}; wait for it, or give this one "
                "another folder with --reports DIR"
            ) from error
        with held:
            yield


@dataclass(frozen=True, slots=True)
class Context:
    """Tools that every stage of a run shares, without configuration."""

    workspace: Workspace
    progress: Progress
    rank: Rank = ALONE


def _finished(folder: Path) -> Finished:
    file = folder / "key.json"
    try:
        written = json.loads(file.read_text())
        # work of an older alignkit has no seconds, and only the kinds of `HASHED` have files
        facts = written["label"], written["parts"], written.get("seconds"), written.get("files")
    except (ValueError, KeyError) as error:
        raise DamagedError(f"key.json: {type(error).__name__}: {error}") from error
    return Finished(folder, *facts, file.stat().st_mtime)


def _hashes(folder: Path) -> dict[str, str]:
    """Hash every file of an artefact except its ``key.json``: relative path → SHA-256."""
    files = [each for each in folder.rglob("*") if each.is_file() and each.name != "key.json"]
    return {str(each.relative_to(folder)): file_sha256(each) for each in sorted(files)}
