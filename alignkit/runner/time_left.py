"""`TimedProgress`: a display of a run that also says how long the whole of it has left.

The plan says which work is left, and the work that this and earlier runs stored says at what pace
it goes. While some kind of work was never measured here, the time is a lower bound and names it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from alignkit.plan.forecast import KINDS, Forecast
from alignkit.progress import Progress, ProgressStage, duration

_PAUSE = 5.0
"""Seconds between two estimates, at least."""
_SHARE = 50
"""An estimate takes at most one part in so many of the run's time."""


@dataclass(slots=True)
class TimedProgress:
    """A display that passes everything on, and estimates the time left as work ends."""

    inner: Progress
    expect: Callable[[], Forecast]
    """Forecasts the work that is not stored yet."""
    at_least: bool = False
    """Whether there is work besides, which it does not forecast."""
    clock: Callable[[], float] = time.monotonic
    _expected: Forecast | None = None
    _at: float = 0.0
    """The time of the last estimate."""
    _next: float = -math.inf
    _said: float = -math.inf

    @contextmanager
    def stage(self, name: str, total: int, detail: str = "") -> Iterator[ProgressStage]:
        """Show a stage; estimate the time left when it ends, and as it advances."""
        with self.inner.stage(name, total, detail) as stage:
            yield _TimedStage(stage, self)
        self.estimate()

    def note(self, text: str) -> None:
        """Show a line of its own."""
        self.inner.note(text)

    def left(self, text: str) -> None:
        """Show the time left."""
        self.inner.left(text)

    def estimate(self) -> None:
        """Forecast the work that is left, unless that was done a moment ago."""
        began = self.clock()
        if began < self._next:
            return
        self._expected, self._at = self.expect(), self.clock()
        self._next = self._at + max(_PAUSE, _SHARE * (self._at - began))
        self.say()

    def say(self) -> None:
        """Show the last estimate, less the time since then, once a second."""
        now = self.clock()
        if self._expected is not None and now >= self._said + 1:
            self._said = now
            self.inner.left(time_left(self._expected, now - self._at, at_least=self.at_least))


@dataclass(slots=True)
class _TimedStage:
    inner: ProgressStage
    progress: TimedProgress

    def advance(self, n: int = 1) -> None:
        self.inner.advance(n)
        self.progress.say()

    def note(self, text: str) -> None:
        self.inner.note(text)


def time_left(expected: Forecast, since: float = 0.0, *, at_least: bool = False) -> str:
    """Say how long the work takes that is not stored yet; empty if nothing is known to be left.

    The record comes after it, and is a stage with a time of its own.

    ``since`` is the time in seconds that some of it has already taken. ``at_least`` says that there
    is work besides, which the forecast does not have.
    """
    known = max(0.0, (expected.known.seconds or 0.0) - since)
    if not known:
        return ""
    if not expected.unknown and not at_least:
        return f"about {duration(known)} left in all"
    missing = ", ".join(KINDS[each] for each in expected.unknown)
    more = f"; not measured here yet: {missing}" if missing else ""
    return f"more than {duration(known)} left in all{more}"
