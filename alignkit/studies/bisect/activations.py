"""What a side computed, kept on disk: a model's activations are many times its weights."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from alignkit.studies.bisect import Values


class Activations:
    """Name of a tensor → its values; the files are removed with the object."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="alignkit-"))
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        weakref.finalize(self, shutil.rmtree, self._folder)

    def keep(self, tensor: str, values: Values) -> None:
        """Write the values of a tensor, in place of those kept before."""
        file = self._files.setdefault(tensor, self._folder / f"{len(self._files)}.npy")
        self.shapes[tensor] = values.shape
        np.save(file, values)

    def read(self, tensor: str) -> Values:
        """What was kept; `KeyError` if nothing was."""
        values: Values = np.load(self._files[tensor])
        return values
