"""Where each file of a run lies; atomic writes; content hashes.

::

    reports/
        .cache/<kind>/<key>/          finished work under its content hash, shared by experiments
            key.json                  what the key was made of, so that a change can be explained,
                                      how long it took, and the files' SHA-256 where `HASHED`
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from alignkit.errors import WorkspaceError

Kind = Literal["prepared", "trainings", "exports", "engines", "cells", "spreads", "comparisons"]
HASHED: tuple[Kind, ...] = ("exports", "engines")
"""Read as they were written or not at all: a runtime loads them without a check of its own."""

logger = logging.getLogger(__name__)


def content_key(parts: Any) -> str:
    """SHA-256 hex of the canonical JSON of ``parts``."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_version(*names: str) -> str:
    """SHA-256 hex over the source of modules and folders of this package.

    A cached result is reused only while the code that made it is unchanged.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for name in names:
        source = root / name
        for file in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 hex of a file's bytes."""
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
    """Write a file so that a reader, or a crash, sees the old content or the new, never a part."""
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
    """Which work it was, in words."""
    parts: dict[str, Any]
    """What its key was made of."""
    seconds: float | None
    """How long `Workspace.store` was held open for it; ``None`` where that was not noted."""
    stored: float
    """When, as a POSIX time."""

    def bytes(self) -> int:
        """Size on disk."""
        return sum(file.stat().st_size for file in self.folder.rglob("*"))


def changed_parts(finished: Sequence[Finished], parts: dict[str, Any], label: str) -> str:
    """Which parts differ from the most similar work of this label; empty if there is none."""
    changes: list[list[str]] = []
    for each in finished:
        names = parts.keys() | each.parts.keys()
        if each.label == label:
            changes.append(sorted(n for n in names if parts.get(n) != each.parts.get(n)))
    changes.sort(key=len)
    return ", ".join(changes[0]) if changes else ""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that holds every run of every experiment."""

    root: Path

    def stored(self, kind: Kind, key: str) -> Path | None:
        """The finished artefact's folder; ``None`` if there is none."""
        folder = self._folder(kind, key)
        return folder if (folder / "key.json").exists() else None

    def intact(self, kind: Kind, key: str) -> Path | None:
        """As `stored`, for a kind of `HASHED`; one that is not what was written is discarded."""
        folder = self.stored(kind, key)
        if folder is None:
            return None
        written = json.loads((folder / "key.json").read_text()).get("files")
        if _hashes(folder) == written:
            return folder
        logger.warning("%s is damaged and is made again", folder)
        self.discard(kind, key)
        return None

    def run_folder(self, experiment: str, run: str) -> Path:
        """Where a run's record and report lie."""
        return self.root / experiment / run[:12]

    def unfinished(self, kind: Kind, key: str) -> Path:
        """A folder for the parts of work that goes on (checkpoints by epoch); survives a kill."""
        folder = self.root / ".cache" / "unfinished" / f"{kind}-{key}"
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def store(self, kind: Kind, key: str, parts: Any, label: str) -> Iterator[Path]:
        """Give an empty folder to fill; it becomes the artefact ``key`` at once, or not at all.

        ``parts`` is what the key was made of; ``label`` says in words which work this is, the same
        for every key that a changed option gives it.
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

    def discard(self, kind: Kind, key: str) -> None:
        """Forget an artefact, whole or damaged; it is gone at once for every reader to come."""
        folder = self._folder(kind, key)
        with explained(folder):
            doomed = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".discarded-"))
            with suppress(FileNotFoundError):  # another process discarded it first
                folder.rename(doomed / key)
        shutil.rmtree(doomed, ignore_errors=True)

    def finished(self, kind: Kind) -> list[Finished]:
        """Every stored artefact of a kind, oldest first."""
        found = []
        for file in (self.root / ".cache" / kind).glob("[!.]*/key.json"):
            try:
                stored = json.loads(file.read_text())
                facts = stored["label"], stored["parts"], stored.get("seconds")
            except (ValueError, KeyError) as error:
                raise WorkspaceError(f"{file} is damaged; delete {file.parent}") from error
            found.append(Finished(file.parent, *facts, file.stat().st_mtime))
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

    def _folder(self, kind: Kind, key: str) -> Path:
        return self.root / ".cache" / kind / key


def _hashes(folder: Path) -> dict[str, str]:
    """Relative path → SHA-256 of every file of an artefact but its ``key.json``."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return {
        str(each.relative_to(folder)): file_sha256(each)
        for each in files
        if each.name != "key.json"
    }
