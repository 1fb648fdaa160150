"""Growth of a process's memory over epochs, as every document stores it."""

from __future__ import annotations

from alignkit.record.stored import Count, Estimate, Real, Stored


class MemoryGrowth(Stored):
    """The slope of a series of readings, and what it shows."""

    held: tuple[Count, ...]
    """Bytes that the process and its workers held at the end of each epoch after the warm-up."""
    slope: Estimate
    """Bytes an epoch, over all of them: Theil and Sen."""
    halves: tuple[Estimate, Estimate]
    """Bytes an epoch, over the first and the second half; a middle epoch belongs to both."""
    floor: Real | None
    """Bytes an epoch that a process which keeps nothing may rise by here: the high end of its
    interval, and at least 1 MB over all epochs. A smaller leak is not seen. ``None`` if that
    interval is not known."""
    leak: bool | None
    """``None`` if it is not known."""
    reason: str
    """Why it is one, why none is shown, or why that is not known."""
