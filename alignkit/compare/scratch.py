"""Memory used again: the page faults of a fresh array as large as an image cost more than what is
computed into it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt


class Scratch(threading.local):
    """Arrays by name, grown as needed; each thread has its own, and loses them as it ends."""

    def __init__(self) -> None:
        self._memory: dict[str, npt.NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A C-contiguous array with anything in it, valid until the name is asked for again."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)
