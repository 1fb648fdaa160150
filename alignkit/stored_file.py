"""Files that alignkit stores: written atomically, hashed, sealed if they are read back.

A sealed file is a JSON object whose first field is ``"sha256"``: 64 hex digits, the SHA-256 of the
file's bytes with these 64 digits written as zeros. A seal moves with its file and finds damage and
edits. It is no signature: whoever changes a file on purpose can seal it again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alignkit.errors import WorkspaceError

# of a document in one line, in many, or of several documents, a line each
_SEAL = re.compile(rb'\{\s*"sha256":\s*"([0-9a-f]{64})",\s*')
_BLANK = b"0" * 64
GREATEST = 1 << 29
"""Bytes of a sealed file; the record of a thousand cells has about a tenth."""


class DamagedError(Exception):
    """A difference between a stored file and what was written."""

    def __init__(self, reason: str, file: Path | None = None) -> None:
        super().__init__(reason)
        self.file = file


class NoSealError(DamagedError):
    """A file does not begin with a seal."""


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


def sealed(text: str) -> str:
    """Seal a JSON object's text, or that of JSON lines of which the first is an object."""
    opening = re.match(r"\{(\s*)", text)
    if opening is None or text[opening.end()] == "}":
        raise ValueError("only an object with a field is sealed, not an empty one or a list")
    space = opening[1]
    head = f'{{{space}"sha256": "'.encode()
    rest = f'",{space or " "}{text[opening.end() :]}'.encode()
    digest = hashlib.sha256(head + _BLANK + rest).hexdigest()
    return (head + digest.encode() + rest).decode()


def unsealed(data: bytes, file: Path | None = None) -> bytes:
    """Return the bytes of a sealed file without the seal.

    Raises `NoSealError` if there is none, `DamagedError` if they are not those that were sealed.
    """
    found = _SEAL.match(data)
    if found is None:
        raise NoSealError("it has no seal: it is damaged, or an older alignkit wrote it", file)
    digest = hashlib.sha256(data[: found.start(1)])
    digest.update(_BLANK)
    # a view: a copy of a record may have a hundred megabytes
    digest.update(memoryview(data)[found.end(1) :])
    if digest.hexdigest() != found[1].decode():
        raise DamagedError("it is not as alignkit wrote it", file)
    return b"{" + data[found.end() :]


def read_bytes(path: Path) -> bytes:
    """Read a file; raises `DamagedError` for anything but a regular file of at most `GREATEST`."""
    # a pipe or a device would be read for ever
    if path.exists() and not path.is_file():
        raise DamagedError("it is not a file", path)
    if (size := path.stat().st_size) > GREATEST:
        raise DamagedError(f"it has {size} bytes, more than any document", path)
    return path.read_bytes()


def read_sealed(path: Path) -> bytes:
    """Read a sealed file, without its seal; raises as `read_bytes` and `unsealed`."""
    return unsealed(read_bytes(path), path)
