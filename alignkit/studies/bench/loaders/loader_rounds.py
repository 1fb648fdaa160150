"""Loaders in turn: an epoch of each is a round; the memory of each is read at the epoch's end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alignkit.outcome import Failed, Measured
from alignkit.record.loader_facts import LoaderRound
from alignkit.serve.cpu_use import CpuTimes, cpu_times, held_bytes
from alignkit.studies.bench.loaders.loader_process import LoadedEpoch, LoaderProcess, cpu_seconds

if TYPE_CHECKING:
    from alignkit.compare.pixel_sums import PixelSums
    from alignkit.progress import Progress
    from alignkit.studies.bench.loaders.loader_kinds import LoaderOption

WARM_UP = 2
"""Epochs that are not counted: libraries are loaded, workers started and pools filled."""


@dataclass(slots=True, eq=False)
class RunLoader:
    """A loader with its rounds, or why it has none."""

    option: LoaderOption
    state: Literal["measured", "skipped", "failed"] = "measured"
    reason: str = ""
    process: LoaderProcess | None = None
    effective: dict[str, str] = field(default_factory=dict)
    rest: int | None = None
    """Bytes held before the first epoch; ``None`` where the system does not tell."""
    peak: int = 0
    """Greatest number of bytes that the warm-up held."""
    held: list[int | None] = field(default_factory=list)
    """Bytes at the end of each counted epoch."""
    rounds: list[LoaderRound] = field(default_factory=list)
    windows: list[tuple[float, CpuTimes | None]] = field(default_factory=list)
    """Seconds of each counted epoch, and times of the bench's CPUs meanwhile."""
    pixels: Measured[PixelSums] | Failed | None = None

    def open(self, cpus: Sequence[int], stack: ExitStack) -> None:
        """Start the process, if the loader can run here."""
        if reason := self.option.missing():
            self.state, self.reason = "skipped", reason
            return
        self.process = stack.enter_context(LoaderProcess(cpus))
        self.effective = self._of(self.process.open(self.option), "to open") or {}
        if self.process:
            self.rest = held_bytes(self.process.pid)

    def epoch(self, turn: int, cpus: Sequence[int]) -> None:
        """Load all images once; nothing happens after a fault."""
        if self.process is None:
            return
        counted = turn >= WARM_UP
        pid = self.process.pid
        used, before, clock = cpu_seconds(pid), cpu_times(cpus), time.perf_counter()
        # looking takes time from the loader: it is done in the warm-up alone
        ended = self.process.epoch(None if counted else self._look)
        seconds, after = time.perf_counter() - clock, cpu_times(cpus)
        loaded: LoadedEpoch | None = self._of(ended, f"in epoch {turn + 1}")
        if loaded is None or not counted:
            return
        spent = cpu_seconds(pid)
        meanwhile = after.since(before) if before and after else None
        self.held.append(held_bytes(pid))
        self.windows.append((seconds, meanwhile))
        self.rounds.append(
            LoaderRound(
                images=loaded.images,
                seconds=loaded.seconds,
                cpu_seconds=None if spent is None or used is None else spent - used,
                busy_seconds=meanwhile and meanwhile.busy,
                stolen_seconds=meanwhile and meanwhile.stolen,
                throttled_seconds=meanwhile and meanwhile.throttled,
            )
        )

    def compare(self, reference: Path) -> None:
        """Compare the pixels with the reference's, and end the process."""
        if self.process is not None:
            self.pixels = self.process.drift(reference)
            self.process.close()

    def _look(self, pid: int) -> str:
        self.peak = max(self.peak, held_bytes(pid) or 0)
        return ""

    def _of(self, ended: Measured[Any] | Failed, when: str) -> Any:
        """Return the value; after a fault end the process and return ``None``."""
        if isinstance(ended, Measured):
            return ended.value
        self.state, self.reason = "failed", f"failed {when}: {ended.message}"
        if self.process is not None:
            self.process.close()
            self.process = None
        return None


def run_loaders(
    options: Sequence[LoaderOption],
    epochs: int,
    cpus: Sequence[int],
    reference: Path,
    progress: Progress,
) -> list[RunLoader]:
    """Run the loaders; return what came of each, in their order.

    ``reference`` holds the pixels that theirs are compared with. A loader that fails leaves the
    others. All processes end with this function.
    """
    loaders = [RunLoader(each) for each in options]
    with ExitStack() as stack:
        with progress.stage("open", len(loaders), "every loader") as stage:
            for each in loaders:
                each.open(cpus, stack)
                stage.advance()
        opened = [each for each in loaders if each.process]
        total = (epochs + WARM_UP) * len(opened)
        with progress.stage("bench", total, f"{len(opened)} loaders in turn") as stage:
            for turn in range(epochs + WARM_UP):
                for step in range(len(opened)):
                    # who begins changes, so that none always follows the same one
                    opened[(turn + step) % len(opened)].epoch(turn, cpus)
                    stage.advance()
        for each in opened:
            each.compare(reference)
    return loaders
