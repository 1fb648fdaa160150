"""Tasks, some images each, and the workers that have them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from alignkit.isolation.worker import Encoded
from alignkit.isolation.worker_process import WorkerProcess

_Result = TypeVar("_Result")

BYTES_A_TASK = 64 << 20
"""A task takes no further image once it has this many encoded bytes."""


def next_images(images: Iterator[Encoded], most: int) -> tuple[Encoded, ...]:
    """Take the images of a task; their number and bytes alone decide where it ends.

    So the tasks, and the order of float sums, are the same on every machine.
    """
    some: list[Encoded] = []
    held = 0
    while len(some) < most and held < BYTES_A_TASK and (image := next(images, None)):
        some.append(image)
        held += len(image.data)
    return tuple(some)


@dataclass(frozen=True, slots=True, eq=False)
class ImageTask(Generic[_Result]):
    """Some images, and the place of their result."""

    images: tuple[Encoded, ...]
    results: list[_Result | None]
    place: int = 0
    unspoilt: bool = False
    """Whether it needs a worker that no other image may have damaged."""
    need: int = field(init=False)
    """Bytes for its images, which are worked on one after the other."""
    held: int = field(init=False)
    """Encoded bytes."""

    def __post_init__(self) -> None:
        # once: they are asked for whenever a task may be handed out
        object.__setattr__(self, "need", max(image.need for image in self.images))
        object.__setattr__(self, "held", sum(len(image.data) for image in self.images))


@dataclass(slots=True, eq=False)
class ImageWorker(Generic[_Result]):
    process: WorkerProcess
    ready: bool = False
    tasks: deque[ImageTask[_Result]] = field(default_factory=deque)
    """The task it works on, and those that lie ready."""
    used: bool = False
    condemned: str = ""
    """Reason why it was killed, if it was."""
    certain: bool = False
    """Whether its current image is to blame, whatever came before."""

    @property
    def need(self) -> int:
        """Bytes for its tasks, which it works on one after the other."""
        return max((task.need for task in self.tasks), default=0)

    def end(self) -> None:
        """Kill its process, and release what belongs to this one."""
        self.process.kill()
        self.process.close()
