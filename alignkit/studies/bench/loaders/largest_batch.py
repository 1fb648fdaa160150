"""The largest batch of a loader that fits into a given memory.

Each batch is tried in a process of its own, with all the batches that the loader makes ahead. The
size is doubled until one does not fit, then the range between is halved. The limit holds for the
process and its workers together: how much they hold is looked at every 20 ms, and a process above
the limit is ended. A limit of addresses (``ulimit -v``) would count what is reserved and never
used, of every process for itself; a control group counts the same as here, and needs rights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alignkit.outcome import Failed, Measured
from alignkit.record.loader_facts import LargestBatch
from alignkit.serve.cpu_use import held_bytes
from alignkit.studies.bench.loaders.loader_process import LoaderProcess, of_batch
from alignkit.text.numbers import megabytes

if TYPE_CHECKING:
    from alignkit.studies.bench.loaders.loader_kinds import LoaderOption

LARGEST_TRIED = 8192
"""Batch from which on the search ends: larger ones are of no use, and take long to fill."""
_NEAR = 16
"""The search ends within this part of the batch that fits."""
_NO_MEMORY = re.compile(
    r"MemoryError|bad_alloc|out of memory|not enough memory|can't allocate memory"
    r"|Cannot allocate memory|killed by signal: (Killed|Bus error)|crashed: SIGBUS"
)
"""Words of Python, C++, this room, torch and the system for memory that ran out. A bus error is
that of shared memory, of which a container may have 64 MB."""
Trial = Callable[[int], "Measured[None] | Failed"]


class TrialFailed(Exception):  # noqa: N818 - an outcome of the search
    """A batch failed for another reason than memory."""


@dataclass(slots=True)
class _Search:
    attempt: Trial
    tried: list[int] = field(default_factory=list)
    reason: str = ""

    def fits(self, batch: int) -> bool:
        self.tried.append(batch)
        ended = self.attempt(batch)
        if isinstance(ended, Measured):
            return True
        if not _NO_MEMORY.search(ended.message):
            raise TrialFailed(f"a batch of {batch} failed: {ended.message}")
        self.reason = ended.message
        return False


def largest_batch(
    attempt: Trial, limit: int, first: int, most: int = LARGEST_TRIED
) -> LargestBatch:
    """Search the largest batch that ``attempt`` loads; raises `TrialFailed` for other failures.

    ``limit`` is the memory in bytes, ``first`` the batch to begin with.
    """
    search = _Search(attempt)
    fits, exceeds = 0, None
    batch = min(first, most)
    while search.fits(batch):
        fits = batch
        if batch == most:
            break
        batch = min(2 * batch, most)
    else:
        exceeds = batch
    while exceeds is not None and exceeds - fits > max(1, fits // _NEAR):
        middle = (fits + exceeds) // 2
        if search.fits(middle):
            fits = middle
        else:
            exceeds = middle
    return LargestBatch(
        limit=limit,
        fits=fits or None,
        exceeds=exceeds,
        reason=search.reason or f"larger batches than {most:,} are not tried",
        tried=tuple(search.tried),
    )


def attempt_in_process(option: LoaderOption, limit: int, cpus: Sequence[int]) -> Trial:
    """Return the trial of a batch: a process that fills its queues, ended above the limit."""

    def watch(pid: int) -> str:
        held = held_bytes(pid) or 0
        return f"out of memory: it held {megabytes(held)}" if held > limit else ""

    def attempt(batch: int) -> Measured[None] | Failed:
        with LoaderProcess(cpus) as process:
            opened = process.open(of_batch(option, batch))
            return opened if isinstance(opened, Failed) else process.fill(watch)

    return attempt
