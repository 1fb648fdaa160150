"""A control that could not be made is one that failed: the run's record is written all the same."""

from __future__ import annotations

from collections.abc import Callable

from alignkit.outcome import Measured, capture
from alignkit.record import Control


def attempted(name: str, check: Callable[[], tuple[Control, ...]]) -> tuple[Control, ...]:
    """What ``check`` finds, or the error it ended in as a failed control of this name."""
    ended = capture(check)
    if isinstance(ended, Measured):
        return ended.value
    return (
        Control(
            name=name,
            expected="the check can be made",
            observed=f"it ended in an error: {ended.message}",
            passed=False,
            traceback=ended.traceback,
        ),
    )
