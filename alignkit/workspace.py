"""Place the files of a run, and keep finished work under the hash of all that it depends on.

::

    reports/
        .cache/<kind>/<key>/          finished work under its content hash, shared by experiments
            key.json                  the parts of the key, so that a change can be explained, the
                                      time it took, the SHA-256 of each file, and its own
        <experiment>/<run>/           one run: record.json, index.html, summary.md, arrays

A file is hashed when it is stored, and verified before this process reads it for the first time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from alignkit.errors import WorkspaceError
from alignkit.progress import Progress
from alignkit.rank import ALONE, Rank
from alignkit.stored_file import DamagedError, explained, file_sha256, read_sealed, sealed

WorkKind = Literal[
    "made", "prepared", "trainings", "exports", "engines", "cells", "spreads", "comparisons", "lots"
]
_KEY = "key.json"
# a file that was written by another version of its reader ends as one of the last four
_DAMAGE = (
    *(DamagedError, FileNotFoundError, PermissionError, IsADirectoryError),
    *(ValueError, KeyError, TypeError, RecursionError),
)

_T = TypeVar("_T")
logger = logging.getLogger(__name__)


def content_key(parts: Any) -> str:
    """Compute the SHA-256 of the canonical JSON of ``parts``, in hex."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Finished:
    """A stored artefact, as its ``key.json`` describes it."""

    folder: Path
    label: str
    """The work in words."""
    parts: dict[str, Any]
    """Everything that its key was made of."""
    seconds: float
    """How long `Workspace.store` was held open for it."""
    files: dict[str, str]
    """SHA-256 of each file as it was written."""
    stored: float
    """POSIX time at which it was stored."""

    @classmethod
    def read(cls, folder: Path) -> Finished:
        """Read an artefact's ``key.json``; raises `DamagedError` if it is not that of its key."""
        file = folder / _KEY
        try:
            written = json.loads(read_sealed(file))
            if content_key(written["parts"]) != folder.name:
                raise DamagedError("it is that of another key", file)
            return cls(folder, **written, stored=file.stat().st_mtime)
        except FileNotFoundError:
            raise DamagedError("it is missing", file) from None
        except OSError as error:
            raise DamagedError(f"it cannot be read: {error.strerror}", file) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DamagedError("it does not describe stored work", file) from None

    def verify(
        self, names: Collection[str] | None = None, known: Collection[Path] = ()
    ) -> set[Path]:
        """Verify the named files, by default all, except those that are ``known``; return them.

        Raises `DamagedError` if one is not what was written, or any file is missing or additional.
        """
        present = set(_files(self.folder))
        for name in sorted(present ^ self.files.keys()):
            fault = "it does not belong here" if name in present else "it is missing"
            raise DamagedError(fault, self.folder / name)
        verified = {self.folder / name for name in (self.files if names is None else names)}
        for file in sorted(verified.difference(known)):
            if file_sha256(file) != self.files[file.relative_to(self.folder).as_posix()]:
                raise DamagedError("it is not as alignkit wrote it", file)
        return verified


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that holds every run of every experiment."""

    root: Path
    _verified: set[Path] = field(default_factory=set, init=False, repr=False, compare=False)
    """Files that this process wrote or verified: each is hashed once."""

    @property
    def option(self) -> list[str]:
        """Words that name this folder on a command line; none if it is the default."""
        return [] if self.root == Path("reports") else ["--reports", str(self.root)]

    def _folder(self, kind: WorkKind, key: str) -> Path:
        return self.root / ".cache" / kind / key

    def stored(self, kind: WorkKind, key: str) -> Path | None:
        """Return an artefact's folder, damaged or not; ``None`` if there is none."""
        folder = self._folder(kind, key)
        return folder if folder.exists() else None

    def recall(
        self,
        kind: WorkKind,
        key: str,
        label: str,
        read: Callable[[Path], _T],
        files: Collection[str] | None = None,
    ) -> _T | None:
        """Read a finished artefact from its folder; return ``None`` if there is none.

        ``read`` may use ``files``, by default all of them. An artefact is discarded if one of these
        is not what was written, or ``read`` raises `DamagedError`.
        """
        if (folder := self.stored(kind, key)) is None:
            return None
        try:
            self._verified.update(Finished.read(folder).verify(files, self._verified))
            return read(folder)
        except _DAMAGE as damage:
            file = getattr(damage, "file", None) or folder
            logger.warning("%s: %s is damaged and is made again (%s)", label, file, damage)
            self.discard(kind, key)
            return None

    def keep(
        self,
        kind: WorkKind,
        parts: dict[str, Any],
        label: str,
        make: Callable[[Path], Mapping[str, str] | None],
        read: Callable[[Path], _T],
        files: Collection[str] | None = None,
    ) -> _T:
        """Recall the artefact that ``parts`` is the key of; ``make`` fills its folder if need be.

        ``make`` may return the SHA-256 of files by name, which it computed as it wrote them. Work
        that was just made is read from its folder too, so that a repeated run sees the same.
        """
        key = content_key(parts)
        if (known := self.recall(kind, key, label, read, files)) is None:
            hashes: dict[str, str] = {}
            with self.store(kind, parts, label, hashes) as filling:
                hashes.update(make(filling) or {})
            known = self.recall(kind, key, label, read, files)
        if known is None:
            raise WorkspaceError(f"{label}: it is damaged right after it was written")
        return known

    def run_folder(self, experiment: str, run: str) -> Path:
        """Return the folder of a run's record and report."""
        return self.root / experiment / run[:12]

    def has_run(self, experiment: str) -> bool:
        """Tell whether an experiment of this name has a folder of runs."""
        return (self.root / experiment).is_dir()

    def unfinished(self, kind: WorkKind, key: str) -> Path:
        """Make a folder for parts of unfinished work (checkpoints by epoch); it survives a kill."""
        folder = self._unfinished(kind, key)
        with explained(folder):
            self.keep_out_of_git()
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def store(
        self,
        kind: WorkKind,
        parts: dict[str, Any],
        label: str,
        known: Mapping[str, str] = {},
    ) -> Iterator[Path]:
        """Give an empty folder to fill; it becomes an artefact at once, or not at all.

        ``parts`` is everything that the work depends on; ``label`` names the work in words, the
        same for every key that a changed option gives it. ``known`` are hashes of files by name,
        asked for when the folder is full; the others are computed.
        """
        key = content_key(parts)
        folder = self._folder(kind, key)
        with explained(folder, within=self.root), _fill_folder(folder.parent) as filling:
            self.keep_out_of_git()
            began = time.monotonic()
            yield filling
            seconds = round(time.monotonic() - began, 3)
            hashes = {
                name: known.get(name) or file_sha256(filling / name) for name in _files(filling)
            }
            content = {"label": label, "parts": parts, "seconds": seconds, "files": hashes}
            (filling / _KEY).write_text(sealed(json.dumps(content, indent=1, sort_keys=True)))
            try:
                filling.rename(folder)
                self._verified.update(folder / name for name in hashes)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # another process finished the same work first, and its result stands
        self.discard_unfinished(kind, key)

    def discard_unfinished(self, kind: WorkKind, key: str) -> None:
        """Forget the parts of unfinished work, unless another command works on it."""
        if (folder := self._unfinished(kind, key)).exists():
            with suppress(WorkspaceError), self.lock(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _unfinished(self, kind: WorkKind, key: str) -> Path:
        return self.root / ".cache" / "unfinished" / f"{kind}-{key}"

    def keep_out_of_git(self) -> None:
        """Keep all that is stored here out of git; whoever commits a report edits the file."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / ".gitignore").exists():
            (self.root / ".gitignore").write_text("*\n")

    def discard(self, kind: WorkKind, key: str) -> None:
        """Forget an artefact, if there is one; later readers find it gone at once."""
        folder = self._folder(kind, key)
        self._verified.difference_update(
            [each for each in self._verified if folder in each.parents]
        )
        doomed = folder.with_name(f".discarded-{uuid.uuid4().hex}")
        with explained(folder), suppress(FileNotFoundError):  # another process discarded it first
            folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def finished(self, kind: WorkKind) -> list[Finished]:
        """List the stored artefacts of a kind, oldest first; a damaged ``key.json`` is left out."""
        found = []
        for file in (self.root / ".cache" / kind).glob(f"[!.]*/{_KEY}"):
            # the run that needs damaged work reports it and makes it again
            with suppress(DamagedError):
                found.append(Finished.read(file.parent))
        return sorted(found, key=lambda each: each.stored)

    @contextmanager
    def lock(self, folder: Path) -> Iterator[None]:
        """Hold a run's folder for this process; raises `WorkspaceError` if another holds it."""
        from filelock import FileLock, Timeout

        try:
            with explained(folder):
                folder.mkdir(parents=True, exist_ok=True)
                self.keep_out_of_git()
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
    engine: Any = None
    """An `alignkit.lots.LotEngine`, which the ground does not know: the workers of a cluster;
    ``None`` for the processes of this machine."""


def _files(folder: Path) -> list[str]:
    """List the relative paths of an artefact's files, except ``key.json`` and hidden files."""
    # file managers and network file systems leave hidden files of their own
    files = (each for each in folder.rglob("[!.]*") if each.is_file())
    return sorted({each.relative_to(folder).as_posix() for each in files} - {_KEY})


@contextmanager
def _fill_folder(parent: Path) -> Iterator[Path]:
    """Give an empty folder in ``parent`` to fill and rename; it is deleted if it was not renamed.

    It is ``.filling-…/work``; this process holds ``.filling-…/lock``, which the system releases
    when the process ends. Left-overs of killed processes in ``parent`` are deleted first.
    """
    from filelock import FileLock

    parent.mkdir(parents=True, exist_ok=True)
    # under one lock: a folder that nobody holds is then never one whose process is about to hold it
    with FileLock(parent.parent / ".lock", fallback_to_soft=False):
        _delete_leftovers(parent)
        filling = Path(tempfile.mkdtemp(dir=parent, prefix=".filling-"))
        # a soft lock would outlive a process that is killed
        held = FileLock(filling / "lock", fallback_to_soft=False).acquire()
    try:
        with held:
            (filling / "work").mkdir()
            yield filling / "work"
    finally:
        shutil.rmtree(filling, ignore_errors=True)


def _delete_leftovers(parent: Path) -> None:
    from filelock import FileLock, Timeout

    for each in parent.glob(".discarded-*"):
        shutil.rmtree(each, ignore_errors=True)
    for each in parent.glob(".filling-*"):
        lock = FileLock(each / "lock", fallback_to_soft=False)
        # a process that is alive fills it, or has just deleted it
        with suppress(Timeout, FileNotFoundError), lock.acquire(blocking=False):
            shutil.rmtree(each, ignore_errors=True)
