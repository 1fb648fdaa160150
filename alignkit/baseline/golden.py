"""`GoldenStore`: compressed arrays beside a baseline, named by the SHA-256 of their content.

With them a machine without a GPU can measure the distance of its pixels from a GPU's; the lines of
the baseline only say whether the two are equal.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import BaselineError
from alignkit.workspace import write_atomically

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Pixels


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
        import numpy as np

        path = self._path(sha256)
        try:
            # no pickle, which could run code: the file comes from a repository
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as packed:
                array: Pixels | Batch = packed["array"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise _damaged(path, "it holds no array") from error
        if array_sha256(array) != sha256:
            raise _damaged(path, "it holds another array than its name says")
        return array

    def _path(self, sha256: str) -> Path:
        return self.root / f"{sha256}.npz"


def _damaged(path: Path, reason: str) -> BaselineError:
    return BaselineError(
        f"golden tensor {path} is damaged ({reason}); restore it, or delete it and record it "
        "again: alignkit baseline record FILE --golden STAGE"
    )
