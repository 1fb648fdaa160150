"""Encoded images in memory that two processes share, so that handing them over waits for nobody.

Sent through a socket, they would stop both processes for as long as it takes to copy them.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Lost: TypeAlias = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One image to work on."""

    id: str
    data: bytes
    lost: Lost = ()
    """Paths, by index, that are not to be tried on this image, and how each failed: a worker died
    of it. `EVERYTHING` stands for the whole image."""


EVERYTHING = -1
Entry: TypeAlias = tuple[str, int, Lost]
"""What is sent of an image: its id, its length in bytes, and its lost paths."""


class SharedImages:
    """A file in memory that one side writes images into and the other reads them from."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory: mmap.mmap | None = None

    def write(self, images: Sequence[Encoded]) -> list[Entry]:
        """Put images in, over what was there."""
        memory = self._mapped(sum(len(image.data) for image in images), grow=True)
        position = 0
        for image in images:
            memory[position : position + len(image.data)] = image.data
            position += len(image.data)
        return [(image.id, len(image.data), image.lost) for image in images]

    def read(self, entries: Sequence[Entry]) -> tuple[Encoded, ...]:
        """Take out what was put in; bytes of one's own."""
        memory = self._mapped(sum(length for _, length, _ in entries), grow=False)
        images, position = [], 0
        for name, length, lost in entries:
            images.append(Encoded(name, memory[position : position + length], lost))
            position += length
        return tuple(images)

    def close(self) -> None:
        """Let go of the memory."""
        if self._memory is not None:
            self._memory.close()
        os.close(self._descriptor)

    def _mapped(self, size: int, *, grow: bool) -> mmap.mmap:
        if self._memory is None or len(self._memory) < size:
            if grow:
                os.ftruncate(self._descriptor, max(size, mmap.PAGESIZE))
            if self._memory is not None:
                self._memory.close()
            self._memory = mmap.mmap(self._descriptor, 0)
        return self._memory
