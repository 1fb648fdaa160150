"""Plan → Memory: upper bounds of the memory a run uses, and the memory available."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.torch_settings import usable_cpus
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.plan import Plan

_WIDEST = 4
"""Bytes of a float32 value; a path of ``uint8`` pixels needs a quarter."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Upper bounds, in bytes."""

    workers: int
    """Images that workers have prepared and that are not written yet."""
    caches: int
    """Prepared pixels of every path and split: mapped files; the rest is read from disk again."""
    batch: int
    """One input batch of the model."""
    available: int | None
    """Available now, in this container; ``None`` if the system does not say."""

    @property
    def fits(self) -> bool | None:
        """Whether all stays in memory; ``None`` if the available memory is not known."""
        if self.available is None:
            return None
        return self.workers + self.caches + self.batch <= self.available


def memory(plan: Plan) -> Memory:
    """Bound the memory of a run of the whole plan; reads and makes nothing."""
    from alignkit.prepare import pixel_identity

    height, width = plan.reference.size
    image = height * width * 3 * _WIDEST
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
    """Compute the bytes that loader workers hold ready: image × batch × workers × prefetch.

    ``prefetch`` is 2 by default in a ``DataLoader`` too. Batches of 32 images, 512×512 in float32,
    each with an int64 mask, in 8 workers:

    >>> worker_bytes(512 * 512 * (3 * 4 + 8), batch=32, workers=8, prefetch=1)
    1342177280
    """
    return image * batch * workers * prefetch


def available_bytes() -> int | None:
    """Return the memory available without swapping, or that left in the control group if less.

    ``None`` without ``/proc/meminfo``.
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
