"""Images and results in memory that two processes share: handing them over waits for nobody.

Sent through a socket, they would stop both processes for as long as it takes to copy them.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

Lost: TypeAlias = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One image to work on."""

    id: str
    data: bytes
    lost: Lost = ()
    """Paths, by index, that are not to be tried on this image, and how each failed: a worker died
    of it. `EVERYTHING` stands for the whole image."""
    given: Any = None
    """Whatever else the work needs to know of this image; can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # bytes alone would travel in the pickle, which goes through the socket
        return Encoded, (self.id, pickle.PickleBuffer(self.data), self.lost, self.given)


EVERYTHING = -1
Stored: TypeAlias = tuple[bytes, list[int]]
"""What is sent of a value: its pickle, and the length in bytes of each of its arrays."""


class SharedMemory:
    """A file in memory for one value at a time, written by either side and read by the other."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory: mmap.mmap | None = None

    def write(self, value: object) -> Stored:
        """Put the arrays and the encoded images of a value in, over what was there."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        lengths = [view.nbytes for view in views]
        memory = self._mapped(sum(lengths))
        for (start, stop), view in zip(_places(lengths), views, strict=True):
            memory[start:stop] = view
        return pickled, lengths

    def read(self, pickled: bytes, lengths: list[int]) -> Any:
        """Take out what was put in: copies, which cannot be written to."""
        memory = self._mapped(sum(lengths))
        copies = [memory[start:stop] for start, stop in _places(lengths)]
        return pickle.loads(pickled, buffers=copies)  # noqa: S301 - our own

    def close(self) -> None:
        """Let go of the memory."""
        if self._memory is not None:
            self._memory.close()
        os.close(self._descriptor)

    def _mapped(self, size: int) -> mmap.mmap:
        if self._memory is None or len(self._memory) < size:
            if os.fstat(self._descriptor).st_size < max(size, mmap.PAGESIZE):
                os.ftruncate(self._descriptor, max(size, mmap.PAGESIZE))
            if self._memory is not None:
                self._memory.close()
            self._memory = mmap.mmap(self._descriptor, 0)
        return self._memory


def _places(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(start, stop) of parts that lie one behind the other."""
    return list(pairwise(accumulate(lengths, initial=0)))
