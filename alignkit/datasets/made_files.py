"""Files that a data set makes once, in its folder of the cache, and verifies each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias

from alignkit.datasets.image_files import explained_cache, made_once
from alignkit.errors import DataError
from alignkit.stored_file import DamagedError, file_sha256, read_sealed, sealed

Contents: TypeAlias = Callable[[], Iterable[tuple[str, bytes]]]
"""Makes each file's name, relative to the folder with ``/``, and its content."""


def made_files(folder: Path, fingerprint: str, contents: Contents) -> Path:
    """Return ``folder`` with these files; make them if it is absent or one of them was changed.

    ``fingerprint`` names the set: a folder with another one counts as damaged. Raise
    `WorkspaceError` if the cache cannot be written.
    """
    return made_once(
        folder,
        damage=partial(_damage, fingerprint=fingerprint),
        make=partial(_make, fingerprint, contents),
    )


@dataclass(frozen=True, slots=True)
class MadeReads:
    """Images that were made in a folder of the cache."""

    folder: Path
    names: tuple[str, ...]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image, or raise as `read_made`."""
        return read_made(self.folder / self.names[index])

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        return replace(self, names=tuple(self.names[index] for index in indices))


def read_made(file: Path) -> bytes:
    """Read a file that was made; raise `DataError` if it is there no more."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(
            f"{file.parent} was removed or damaged meanwhile ({error.strerror}); run the command "
            "again"
        ) from error


def _make(fingerprint: str, contents: Contents, folder: Path) -> None:
    with explained_cache():
        folder.mkdir()
        hashes = []
        for name, content in contents():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            hashes.append((name, file_sha256(file)))
        # last: a folder without it counts as damaged
        index = {"fingerprint": fingerprint, "files": hashes}
        (folder / "index.json").write_text(sealed(json.dumps(index)))


def _damage(folder: Path, fingerprint: str) -> str:
    """Describe the damage to a cached set; empty if every file is as it was written."""
    try:
        index = json.loads(read_sealed(folder / "index.json"))
        if index["fingerprint"] != fingerprint:
            return "index.json is that of other images"
        for name, expected in index["files"]:
            if file_sha256(folder / name) != expected:
                return f"{name} was changed"
    except DamagedError as error:
        return f"index.json: {error}"
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return ""
