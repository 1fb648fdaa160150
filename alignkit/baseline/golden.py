"""`GoldenStore`: compressed arrays beside a baseline, named by the SHA-256 of their content.

With them a machine without a GPU can measure the distance of its pixels from a GPU's; the lines of
the baseline only say whether the two are equal.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import BaselineError
from alignkit.stored_file import open_regular, write_atomically

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Pixels

_GREATEST = 1 << 30
"""Bytes of an array: twice the greatest image that a path decodes by default."""


def array_sha256(array: Pixels | Batch) -> str:
    """Return the SHA-256 hex of dtype, shape and values in C order."""
    import numpy as np

    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class GoldenStore:
    """A folder of arrays."""

    root: Path

    def put(self, array: Pixels | Batch) -> str:
        """Store an array, unless it is stored already, and return its hash."""
        import numpy as np

        sha256 = array_sha256(array)
        path = self._path(sha256)
        if not path.exists():
            packed = io.BytesIO()
            np.savez_compressed(packed, array=array)
            write_atomically(path, packed.getvalue())
        return sha256

    def get(self, sha256: str) -> Pixels | Batch | None:
        """Read an array; ``None`` if it is not stored.

        Raises `BaselineError` if the file's content does not match its name.
        """
        path = self._path(sha256)
        try:
            array = _unpacked(path)
        except FileNotFoundError:
            return None
        # RuntimeError: it is encrypted, or compressed by an unknown method
        except (
            OSError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error
        ) as error:  # fmt: skip
            raise _damaged(path, "it holds no array") from error
        if array_sha256(array) != sha256:
            raise _damaged(path, "it holds another array than its name says")
        return array

    def __contains__(self, sha256: str) -> bool:
        return self._path(sha256).exists()

    def _path(self, sha256: str) -> Path:
        return self.root / f"{sha256}.npz"


def _unpacked(path: Path) -> Pixels | Batch:
    """Read the array of an ``.npz``; its sizes are believed only within bounds."""
    import numpy as np

    with open_regular(path) as file, zipfile.ZipFile(file) as packed:
        member = packed.getinfo("array.npy")
        if member.file_size > _GREATEST:
            raise ValueError(f"{member.file_size} bytes are too many")
        data = io.BytesIO(packed.read(member))
    np.lib.format.read_magic(data)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(data)
    # no pickle, which could run code: the file comes from a repository
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != member.file_size - data.tell():
        raise ValueError(f"it does not hold {shape} of {dtype}")
    array: Pixels | Batch = np.frombuffer(data.read(), dtype).reshape(
        shape, order="F" if fortran else "C"
    )
    return array


def _damaged(path: Path, reason: str) -> BaselineError:
    return BaselineError(
        f"golden tensor {path} is damaged ({reason}); restore it, or delete it and record it "
        "again: alignkit baseline record FILE --golden STAGE"
    )
