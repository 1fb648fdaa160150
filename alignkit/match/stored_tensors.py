"""Stored tensors of a folder: ``.npy`` files, and the entries of ``.npz`` archives.

They were written elsewhere, so that a header is believed only as far as the bytes behind it go, and
nothing but a regular file is opened.
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError
from alignkit.stored_file import open_regular

_LARGEST = 1 << 30
"""Bytes of one tensor: more than an image of 8192x8192 in float32."""
_NUMBERS = "fiu"
"""Kinds of dtype that hold real numbers."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""A third version exists for the names of fields, and an image has none."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor; nothing of it is kept in memory."""

    file: Path
    entry: str = ""
    """Its name in an archive."""

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
    """Find the tensors by name, with the suffix ``.npy``. Raises `DataError` for a bad archive."""
    found = {
        escaped_name(file.relative_to(folder).as_posix()): StoredTensor(file)
        for file in sorted(folder.rglob("*.npy"))
    }
    for file in sorted(folder.rglob("*.npz")):
        with _refused(file), open_regular(file) as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
        for name in names:
            plain = name.removesuffix(".npy")
            found[f"{plain}.npy"] = StoredTensor(file, name)
    return found


@contextmanager
def _opened(tensor: StoredTensor) -> Iterator[tuple[IO[bytes], int]]:
    """Open a tensor for reading, with its number of bytes."""
    with _refused(tensor.file, tensor.entry), open_regular(tensor.file) as stream:
        if not tensor.entry:
            yield stream, os.fstat(stream.fileno()).st_size
            return
        with zipfile.ZipFile(stream) as archive, archive.open(tensor.entry) as entry:
            yield entry, archive.getinfo(tensor.entry).file_size


@contextmanager
def _refused(file: Path, entry: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
    # an archive may be encrypted (RuntimeError) or packed by a method that is missing here
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split()) or "it is empty"
    else:
        return
    within = f", {escaped_name(entry)}" if entry else ""
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
    if needed > _LARGEST:
        raise ValueError(f"{needed} bytes, more than {_LARGEST}, the limit of one tensor")
    return shape, fortran, dtype
