"""`GoldenStore`: arrays kept beside a baseline, compressed, named by the SHA-256 of what they hold.

With them a machine without a GPU can measure how far its pixels lie from what a GPU gave; the
baseline's lines alone say only whether they are the same.
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
    """SHA-256 hex over dtype, shape and values in C order."""
    import numpy as np

    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class GoldenStore:
    """A folder of arrays."""

    root: Path

    def put(self, array: Pixels | Batch) -> str:
        """Keep an array and return its hash; an array that is there already is left alone."""
        import numpy as np

        sha256 = array_sha256(array)
        path = self._path(sha256)
        if not path.exists():
            packed = io.BytesIO()
            np.savez_compressed(packed, array=array)
            write_atomically(path, packed.getvalue())
        return sha256

    def get(self, sha256: str) -> Pixels | Batch | None:
        """The array; ``None`` if it is not kept here.

        Raises `BaselineError` if what is kept is not what its name says.
        """
        import numpy as np

        path = self._path(sha256)
        try:
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


def _damaged(path: Path, what: str) -> BaselineError:
    return BaselineError(
        f"golden tensor {path} is damaged ({what}); restore it, or delete it and record it again: "
        "alignkit baseline record FILE --golden STAGE"
    )
