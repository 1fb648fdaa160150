"""Plan → Memory: what a run keeps in memory, at most, and what there is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.torch_settings import usable_cpus
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.plan import Plan

WIDEST = 4
"""Bytes of a value as float32; a path that gives ``uint8`` takes a quarter."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Upper bounds, in bytes."""

    workers: int
    """Images that workers have prepared and nobody has written yet."""
    caches: int
    """Prepared pixels of every path and split: files, mapped; what does not fit is read again."""
    batch: int
    """One batch as the model takes it."""
    available: int | None
    """Now, in this container; ``None`` where the system does not say."""

    @property
    def fits(self) -> bool | None:
        """Whether all stays in memory; ``None`` where it is not known how much there is."""
        if self.available is None:
            return None
        return self.workers + self.caches + self.batch <= self.available


def memory(plan: Plan) -> Memory:
    """Of a run of the whole plan; nothing is read or made."""
    from alignkit.prepare import pixel_identity

    height, width = plan.reference.size
    image = height * width * 3 * WIDEST
    distinct = {content_key(pixel_identity(each)) for each in plan.preprocesses}
    images = sum(plan.data.counts())
    sizes = (plan.recipe.batch_size, plan.batch_size)
    return Memory(
        workers=worker_bytes(
            image, batch=IMAGES_A_TASK, workers=usable_cpus(), prefetch=TASKS_A_WORKER
        ),
        caches=images * len(distinct) * image,
        batch=max(sizes) * image,
        available=available_bytes(),
    )


def worker_bytes(image: int, *, batch: int, workers: int, prefetch: int = 2) -> int:
    """Bytes that loader workers hold ready: image × batch × workers × batches each is ahead.

    ``prefetch`` is 2 by default in a ``DataLoader`` too. Batches of 32 images, 512×512 in float32,
    each with an int64 mask, in 8 workers:

    >>> worker_bytes(512 * 512 * (3 * 4 + 8), batch=32, workers=8, prefetch=1)
    1342177280
    """
    return image * batch * workers * prefetch


def available_bytes() -> int | None:
    """What the system could give now without swapping, or the control group's rest if it is less.

    ``None`` where there is no ``/proc/meminfo``.
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limits = [rest for rest in (_group_rest(),) if rest is not None]
    return min([*free, *limits], default=None)


def _group_rest(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    try:
        limit, used = (
            (group / f"memory.{name}").read_text().strip() for name in ("max", "current")
        )
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used))
