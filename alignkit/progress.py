"""Progress of a run: live bars on a terminal, plain lines elsewhere, or nothing.

All of it goes to stderr; results go to stdout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichDisplay
    from rich.progress import TaskID

ProgressMode = Literal["auto", "plain", "none"]
QUIET_SECONDS = 30.0
"""Shortest time between two lines of a plain stage, other than its first and last."""


class ProgressStage(Protocol):
    """Work of a known number of steps."""

    def advance(self, n: int = 1) -> None:
        """Count ``n`` more steps as done."""
        ...

    def note(self, text: str) -> None:
        """Name the current step in a few words."""
        ...


class Progress(Protocol):
    """Display of stages as they begin, advance and end."""

    def stage(
        self, name: str, total: int, detail: str = ""
    ) -> AbstractContextManager[ProgressStage]:
        """Show a stage of ``total`` steps; it ends, done or not, with the ``with`` block."""
        ...

    def note(self, text: str) -> None:
        """Show a line of its own."""
        ...


def progress_for(mode: ProgressMode, stream: TextIO | None = None) -> Progress:
    """Return the display of a mode: ``auto`` is live on a terminal and plain elsewhere."""
    # read now, not as a default argument: tests and notebooks replace stderr
    stream = stream or sys.stderr
    if mode == "none":
        return NoProgress()
    return LiveProgress(stream) if mode == "auto" and stream.isatty() else PlainProgress(stream)


def advancing(stage: ProgressStage) -> Callable[[int, int], None]:
    """Return a callback (done, total) that advances a stage by the steps since its last call."""
    reached = 0

    def advance(done: int, total: int) -> None:  # noqa: ARG001 - the stage knows its total
        nonlocal reached
        stage.advance(done - reached)
        reached = done

    return advance


class NoProgress:
    """A display that shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int, detail: str = "") -> Iterator[ProgressStage]:  # noqa: ARG002
        """Yield a stage that is not shown."""
        yield _SilentStage()

    def note(self, text: str) -> None:
        """Ignore the line."""


class _SilentStage:
    def advance(self, n: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@dataclass(slots=True)
class PlainProgress:
    """Display with a line as a stage begins, one as it ends, and at most one every 30 s between."""

    stream: TextIO
    quiet_seconds: float = QUIET_SECONDS
    _open: list[_PlainStage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, total: int, detail: str = "") -> Iterator[ProgressStage]:
        """Print a stage as lines."""
        title = f"{name} {detail}".rstrip()
        self.note(f"{title}: 0 of {total}")
        stage = _PlainStage(self, title, total)
        for outer in self._open:
            outer.holds_others = True
        self._open.append(stage)
        try:
            yield stage
        except BaseException:
            self.note(f"{title}: stopped at {stage.done} of {total}")
            raise
        finally:
            self._open.remove(stage)
        self.note(f"{title}: {_ending(stage.done, total, stage.began)}")

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, file=self.stream, flush=True)


@dataclass(slots=True, eq=False)
class _PlainStage:
    progress: PlainProgress
    title: str
    total: int
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    spoke: float = field(default_factory=time.monotonic)
    doing: str = ""
    holds_others: bool = False
    """Whether its steps are stages of their own, whose times differ too much to extrapolate."""

    def advance(self, n: int = 1) -> None:
        self.done += n
        now = time.monotonic()
        if now - self.spoke < self.progress.quiet_seconds or self.done >= self.total:
            return
        self.spoke = now
        left = (now - self.began) / max(1, self.done) * (self.total - self.done)
        about = "" if self.holds_others else f", about {duration(left)} left"
        doing = f", {self.doing}" if self.doing else ""
        self.progress.note(f"{self.title}: {self.done} of {self.total}{about}{doing}")

    def note(self, text: str) -> None:
        self.doing = text


class LiveProgress:
    """Bars with rate and time left for a terminal; finished stages stay as lines above them."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._console = Console(file=stream, highlight=False)
        self._columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[doing]}", style="dim", markup=False),
        )
        self._make = Progress
        self._display: RichDisplay | None = None

    @contextmanager
    def stage(self, name: str, total: int, detail: str = "") -> Iterator[ProgressStage]:
        """Show a stage as a bar; stages may be nested."""
        outermost = self._display is None
        display = self._display or self._make(*self._columns, console=self._console, transient=True)
        if outermost:
            self._display = display
            display.start()
        title = f"{name} {detail}".rstrip()
        task = display.add_task(title, total=total, rate="", doing="")
        stage = _LiveStage(display, task)
        try:
            yield stage
            self.note(f"✓ {title}: {_ending(stage.done, total, stage.began)}")
        finally:
            # also after an error: the terminal must get its cursor back
            display.remove_task(task)
            if outermost:
                display.stop()
                self._display = None

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(text, markup=False)


@dataclass(slots=True)
class _LiveStage:
    display: RichDisplay
    task: TaskID
    began: float = field(default_factory=time.monotonic)
    done: int = 0

    def advance(self, n: int = 1) -> None:
        self.done += n
        # the clock may not have advanced yet
        rate = self.done / max(1e-9, time.monotonic() - self.began)
        text = f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
        self.display.update(self.task, advance=n, rate=text)

    def note(self, text: str) -> None:
        self.display.update(self.task, doing=text)


def _ending(done: int, total: int, began: float) -> str:
    # fewer than the total: the rest was stored before or failed; the caller knows which
    return f"{done} of {total} in {duration(time.monotonic() - began)}"


def duration(seconds: float) -> str:
    """Write ``0.4 s``, ``12 s``, ``3 min 05 s`` or ``2 h 10 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
