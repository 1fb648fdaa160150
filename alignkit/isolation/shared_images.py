"""Images and results in memory that two processes share, so that neither waits for the other.

Through a socket, both processes would wait for as long as the copy takes.
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
    """Paths, by index, that a worker died of with this image and that are not tried again, with the
    reason of each. `EVERYTHING` means the whole image."""
    given: Any = None
    """Anything else that the work needs to know of this image; can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # bytes alone would travel in the pickle, which goes through the socket
        return Encoded, (self.id, pickle.PickleBuffer(self.data), self.lost, self.given)


EVERYTHING = -1
Pickled: TypeAlias = tuple[bytes, list[int]]
"""A value as it is sent: its pickle, and the length in bytes of each of its arrays."""


class SharedMemory:
    """A file in memory for one value at a time, written by either side and read by the other."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory: mmap.mmap | None = None

    def write(self, value: object) -> Pickled:
        """Write the arrays and the encoded images of a value, over the previous ones."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        lengths = [view.nbytes for view in views]
        memory = self._mapped(sum(lengths))
        for (start, stop), view in zip(_places(lengths), views, strict=True):
            memory[start:stop] = view
        return pickled, lengths

    def read(self, pickled: bytes, lengths: list[int]) -> Any:
        """Read the value that was written, as read-only copies."""
        memory = self._mapped(sum(lengths))
        copies = [memory[start:stop] for start, stop in _places(lengths)]
        return pickle.loads(pickled, buffers=copies)  # noqa: S301 - our own

    def close(self) -> None:
        """Release the memory."""
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
    """Return (start, stop) of parts that lie one behind the other."""
    return list(pairwise(accumulate(lengths, initial=0)))
