"""`Scratch`: memory for intermediate arrays, kept from one image to the next."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt


class Scratch(threading.local):
    """Reused memory by name: page faults of a fresh array cost more than the work on an image.

    Each thread has its own memory, which grows as needed and is freed as the thread ends.
    """

    def __init__(self) -> None:
        self._memory: dict[str, npt.NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a C-contiguous array of arbitrary values, valid until the name is used again."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)


SCRATCH = Scratch()
