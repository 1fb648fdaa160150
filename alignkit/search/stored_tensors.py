"""Stored tensors of a folder: ``.npy`` files, and the entries of ``.npz`` archives.

They were written elsewhere, so that a header is believed only as far as the bytes behind it go, and
nothing but a regular file is opened.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError
from alignkit.limits import TENSOR_BYTES, OverLimit, require_deflate
from alignkit.stored_file import open_regular

_NUMBERS = "fiub"
"""Kinds of dtype that hold real numbers; truth values, as of a mask, are 0 and 1."""
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""Signature, and the lengths of name and extra field, before an entry of an archive."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""A third version exists for the names of fields, and an image has none."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor; nothing of it is kept in memory."""

    file: Path
    entry: zipfile.ZipInfo | None = None
    """Its place in an archive; ``None`` for a file of its own."""

    def shape(self) -> tuple[tuple[int, ...], str]:
        """Return shape and dtype, from the header alone. Raises `DataError` as `read` does."""
        with _opened(self) as (stream, size):
            shape, _, dtype = _header(stream, size)
        return shape, str(dtype)

    def read(self) -> npt.NDArray[np.generic]:
        """Read the tensor. Raises `DataError` naming the file if it holds no real numbers."""
        with _opened(self) as (stream, size):
            shape, fortran, dtype = _header(stream, size)
            expected = math.prod(shape) * dtype.itemsize
            content = stream.read(expected)
            if len(content) < expected:
                raise EOFError(f"it ends after {len(content)} of {expected} bytes")
        values = np.frombuffer(content, dtype)
        return values.reshape(shape, order="F" if fortran else "C")


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Find the tensors by name, with the suffix ``.npy``.

    Raises `DataError` for a bad archive, and for two tensors of one name.
    """
    tensors = [
        (escaped_name(file.relative_to(folder).as_posix()), StoredTensor(file))
        for file in sorted(folder.rglob("*.npy"))
    ]
    for file in sorted(folder.rglob("*.npz")):
        with _refused(file), open_regular(file) as stream, zipfile.ZipFile(stream) as archive:
            # the list of an archive is read once, however many tensors it holds
            entries = archive.infolist()
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            tensors.append((f"{name}.npy", StoredTensor(file, entry)))
    found: dict[str, StoredTensor] = {}
    for name, tensor in tensors:
        if name in found:
            files = " and ".join(escaped_name(os.fspath(e.file)) for e in (found[name], tensor))
            raise DataError(
                f"two tensors have the name {escaped_name(name)}, in {files}; keep one for each "
                "image"
            )
        found[name] = tensor
    return found


@contextmanager
def _opened(tensor: StoredTensor) -> Iterator[tuple[IO[bytes], int]]:
    """Open a tensor for reading, with its number of bytes."""
    entry = tensor.entry
    with _refused(tensor.file, entry), open_regular(tensor.file) as stream:
        if entry is None:
            yield stream, os.fstat(stream.fileno()).st_size
            return
        require_deflate(entry)
        _seek(stream, entry)
        with zipfile.ZipExtFile(stream, "r", entry) as unpacked:
            yield cast("IO[bytes]", unpacked), entry.file_size


def _seek(stream: IO[bytes], entry: zipfile.ZipInfo) -> None:
    """Go to the bytes of an entry: behind its own header, as APPNOTE.TXT 4.3.7 lays it out."""
    if entry.flag_bits & 0x1:
        raise RuntimeError("it is encrypted")
    stream.seek(entry.header_offset)
    header = stream.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size:
        raise EOFError("the archive ends before it")
    signature, name, extra = _LOCAL_HEADER.unpack(header)
    if signature != b"PK\3\4":
        raise zipfile.BadZipFile("the archive changed, or its list of entries is wrong")
    stream.seek(name + extra, os.SEEK_CUR)


@contextmanager
def _refused(file: Path, entry: zipfile.ZipInfo | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
    # an archive may be encrypted (RuntimeError) or packed by a method that is missing here
    except (
        *(ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, KeyError),
        OverLimit,
    ) as error:
        reason = " ".join(str(error).split()) or "it is empty"
    else:
        return
    within = f", {escaped_name(entry.filename)}" if entry else ""
    raise DataError(
        f"{escaped_name(os.fspath(file))}{within} holds no tensor: {reason}; record it again, or "
        "delete it"
    )


def _header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read shape, whether Fortran-ordered, and dtype; raise `ValueError` if they cannot be."""
    if not size:
        raise EOFError("the file is empty")
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"numbers of dtype {dtype}, expected real ones")
    needed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or needed > size:
        raise ValueError(f"its header announces {shape} {dtype}, and the file is shorter")
    TENSOR_BYTES.require(needed)
    return shape, fortran, dtype
