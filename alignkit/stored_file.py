"""Files that alignkit stores: written atomically, hashed, sealed if they are read back.

Only regular files are opened for reading: to open a pipe or a device may never return.

A sealed file is a JSON object whose first field is ``"sha256"``: 64 hex digits, the SHA-256 of the
file's bytes with these 64 digits written as zeros. A seal moves with its file and finds damage and
edits. It is no signature: whoever changes a file on purpose can seal it again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

from alignkit.errors import ConfigError, WorkspaceError
from alignkit.limits import DOCUMENT_BYTES, InputLimit
from alignkit.plugins import did_you_mean
from alignkit.removed import instead_of

Stamp: TypeAlias = tuple[int, int, int]
"""Size, mtime and ctime in nanoseconds. While they are equal, a value read from the file holds."""

# of a document in one line, in many, or of several documents, a line each
_SEAL = re.compile(rb'\{\s*"sha256":\s*"([0-9a-f]{64})",\s*')
_BLANK = b"0" * 64
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST),
    *(errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO),
)


class DamagedError(Exception):
    """A difference between a stored file and what was written."""

    def __init__(self, reason: str, file: Path | None = None) -> None:
        super().__init__(reason)
        self.file = file


class NoSealError(DamagedError):
    """A file does not begin with a seal."""


def open_regular(path: Path, most: InputLimit | None = None) -> BufferedReader:
    """Open a regular file, or a link to one, for reading.

    Raise `OSError` for anything else, and for a file beyond the limit ``most``.
    """
    _require_regular(path, path.stat())  # without opening it: some devices act when they are opened
    # it may have been replaced since
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_regular(path, os.fstat(descriptor), most)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(path: Path, status: os.stat_result, most: InputLimit | None = None) -> None:
    if reason := irregular(status):
        raise OSError(errno.EINVAL, reason, os.fspath(path))
    if most is not None and (fault := most.fault(status.st_size)):
        raise OSError(errno.EFBIG, f"it has {fault}", os.fspath(path))


def irregular(status: os.stat_result) -> str:
    """Name the kind of a file that is not regular; return an empty text for a regular one."""
    if stat.S_ISREG(status.st_mode):
        return ""
    return f"not a regular file: {_KINDS.get(stat.S_IFMT(status.st_mode), 'of an unknown kind')}"


def read_regular(path: Path, most: InputLimit = DOCUMENT_BYTES) -> bytes:
    """Read a regular file within the limit ``most``; raise `OSError` for any other."""
    with open_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # it may grow while it is read


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file's status."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def file_sha256(path: Path, most: InputLimit | None = None) -> str:
    """Compute the SHA-256 of a file's bytes, in hex; raise `OSError` as `open_regular`."""
    with open_regular(path, most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def explained(
    path: Path,
    instead: str = "choose another folder with --reports DIR",
    *,
    within: Path | None = None,
) -> Iterator[None]:
    """Turn an operating system's refusal to write ``path`` into a `WorkspaceError`.

    ``instead`` is the next step if it may not be written at all. With ``within``, errors of files
    outside this folder stay as they are: whoever fills ``path`` uses other files too.
    """
    try:
        yield
    except OSError as error:
        if within and not _of_folder(error, within.absolute()):
            raise
        if error.errno in _NO_ROOM:
            raise WorkspaceError(
                f"no room to write {path} ({error.strerror}); free some space and run the same "
                "command again: finished work is kept"
            ) from error
        if error.errno in _REFUSED:
            raise WorkspaceError(f"cannot write {path} ({error.strerror}); {instead}") from error
        raise


def _of_folder(error: OSError, folder: Path) -> bool:
    """Tell whether an error is that of a folder, of a file in it, or of a folder that holds it."""
    if not isinstance(error.filename, str | bytes):
        return error.errno in _NO_ROOM  # a write does not name its file
    file = Path(os.fsdecode(error.filename)).absolute()
    return file.is_relative_to(folder) or folder.is_relative_to(file)


def write_atomically(path: Path, content: bytes | str, *, synced: bool = True) -> None:
    """Write a file so that readers see the old content or the new, even after a crash.

    Without ``synced`` that does not hold after a power failure: it is for files that are verified
    by a hash before they are used. A link is replaced, and its target stays. Raise
    `WorkspaceError` for a device, FIFO or folder.
    """
    data = content.encode() if isinstance(content, str) else content
    with explained(path):
        if path.exists():
            _require_regular(path, path.stat())
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Names of what results are printed to; its descriptor need not be 1."""


def output_paths(
    texts: Sequence[str],
    kinds: Collection[str],
    *,
    folders: Collection[str] = (),
    once: Collection[str] = (),
) -> list[tuple[str, Path]]:
    """Parse ``--out KIND=PATH``; raise `ConfigError` for another kind or without a path.

    Also for stdout, ``-``, as the path of one of the kinds that are ``folders``, and for a second
    path of a kind that is written ``once``.
    """
    found: list[tuple[str, Path]] = []
    for text in texts:
        kind, equals, path = text.partition("=")
        if kind not in kinds:
            gone = instead_of(f"--out {kind}")
            raise ConfigError(f"--out {text}: no kind {kind!r}{gone or did_you_mean(kind, kinds)}")
        if not equals or not path:
            raise ConfigError(f"--out {text}: write it as KIND=PATH, for example {kind}=FILE")
        if kind in folders and path == "-":
            raise ConfigError(f"--out {text}: {kind} is a folder and cannot be printed; name one")
        if kind in once and kind in dict(found):
            raise ConfigError(f"--out {text}: {kind} is written once; leave out one of the two")
        found.append((kind, Path(path)))
    return found


def _printed_to() -> list[int]:
    try:
        return [sys.stdout.fileno(), 1, 2]
    except OSError:  # replaced by a test or a notebook
        return [1, 2]


def _is(descriptor: int, status: os.stat_result) -> bool:
    return os.path.samestat(status, os.fstat(descriptor))


def write_output(path: Path, content: bytes | str) -> None:
    """Write a file that a user named: a link's target, or into a device or FIFO.

    Text for stdout, ``-``, or for the file that this process prints to follows what it printed.
    """
    data = content.encode() if isinstance(content, str) else content
    with explained(path, "name another file"):
        if str(path.readlink() if path.is_symlink() else path) in _STDOUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
            return
        status = path.stat() if path.exists() else None
        streams = [each for each in _printed_to() if status and _is(each, status)]
        if status is None or (stat.S_ISREG(status.st_mode) and not streams):
            write_atomically(Path(os.path.realpath(path)), data)
            return
        sys.stdout.flush()
        target = os.dup(streams[0]) if streams else os.open(path, os.O_WRONLY | os.O_NOCTTY)
        with os.fdopen(target, "wb") as file:
            file.write(data)


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
    """Read a file; raises `DamagedError` for anything but a regular file within its limit."""
    try:
        return read_regular(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EFBIG):
            raise
        begin = "it is " if error.errno == errno.EINVAL else ""
        raise DamagedError(f"{begin}{error.strerror}", path) from None


def read_sealed(path: Path) -> bytes:
    """Read a sealed file, without its seal; raises as `read_bytes` and `unsealed`."""
    return unsealed(read_bytes(path), path)
