"""The process of one loader, and its requests: an epoch, the drift of its pixels, full queues."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from alignkit.errors import DataError
from alignkit.isolation import WARM_UP_SECONDS
from alignkit.outcome import Failed, Measured
from alignkit.serve.answering_process import AnsweringProcess, answer_requests
from alignkit.serve.cpu_use import process_tree

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.compare.pixel_sums import PixelSums
    from alignkit.preprocess.normalise import Normalise
    from alignkit.studies.bench.loaders.loader_kinds import Loader, LoaderOption

_EPOCH_SECONDS = 3600.0
"""Limit of an epoch: a loader that hangs must not hang the bench."""
_GRID = 256
"""Steps of a level that pixels are read back to: 60 times as coarse as the rounding of float32
around 2.6, the greatest usual value of a normalised image."""
_IDLE_SECONDS = 0.3
_IDLE_SHARE = 0.2
"""A loader whose processes compute in less than this share of that time waits for the loop."""
_Request = Literal["open", "epoch", "drift", "fill"]


class LoadedEpoch(NamedTuple):
    """One epoch as it was timed."""

    images: int
    """Images in the time: without those that were ready before it began."""
    seconds: float


class LoaderProcess(AnsweringProcess):
    """A loader in a process of its own, which the context manager ends."""

    def __init__(self, cpus: Sequence[int]) -> None:
        """Start it on these CPUs; without any, on those of the caller."""
        super().__init__(cpus, __name__)

    def open(self, option: LoaderOption) -> Measured[dict[str, str]] | Failed:
        """Make the loader and import all that it needs; return what it says of itself."""
        opened: Measured[dict[str, str]] | Failed
        opened = self._asked("open", option, seconds=WARM_UP_SECONDS)
        return opened

    def epoch(self, watch: Callable[[int], str] | None = None) -> Measured[LoadedEpoch] | Failed:
        """Load every image once."""
        ended: Measured[LoadedEpoch] | Failed
        ended = self._asked("epoch", seconds=_EPOCH_SECONDS, watch=watch)
        return ended

    def drift(self, reference: Path) -> Measured[PixelSums] | Failed:
        """Compare the pixels of an epoch with those of a file: (images, h, w, 3), levels."""
        ended: Measured[PixelSums] | Failed
        ended = self._asked("drift", reference, seconds=_EPOCH_SECONDS)
        return ended

    def fill(self, watch: Callable[[int], str]) -> Measured[None] | Failed:
        """Let all batches become ready that the loader makes ahead, while the loop has one."""
        ended: Measured[None] | Failed
        ended = self._asked("fill", seconds=_EPOCH_SECONDS, watch=watch)
        return ended

    def _asked(
        self,
        request: _Request,
        *values: Any,
        seconds: float,
        watch: Callable[[int], str] | None = None,
    ) -> Any:
        return self.asked(request, *values, seconds=seconds, watch=watch)


def serve(channel: int) -> NoReturn:
    """Answer the requests of a `LoaderProcess` until its end of the channel is closed."""
    answer_requests(channel, partial(_answered, []), ExitStack())


@dataclass(slots=True)
class _Open:
    option: LoaderOption
    loader: Loader


def _answered(
    opened: list[_Open],
    alive: Callable[[], None],  # noqa: ARG001 - an epoch is short
    request: _Request,
    *values: Any,
) -> Any:
    if request == "open":
        from alignkit.studies.bench.loaders.loader_kinds import open_loader

        (option,) = values
        opened.append(_Open(option, open_loader(option)))
        return opened[0].loader.facts()
    (only,) = opened
    if request == "epoch":
        return _epoch(only)
    return _drift(only, *values) if request == "drift" else _fill(only)


def _epoch(opened: _Open) -> LoadedEpoch:
    skipped, images, seen = opened.option.left_ready, 0, 0
    begun = time.perf_counter()
    for number, batch in enumerate(opened.loader.epoch(), 1):
        seen += len(batch)
        if number == skipped:
            begun = time.perf_counter()
        elif number > skipped:
            images += len(batch)
        del batch
    seconds = time.perf_counter() - begun
    if seen != len(opened.option.files):
        raise DataError(f"an epoch of {len(opened.option.files)} images gave {seen}")
    # cycles would be freed at any time, and the readings of memory would differ by them
    gc.collect()
    return LoadedEpoch(images, seconds)


def _drift(opened: _Open, reference: Path) -> PixelSums:
    import numpy as np

    from alignkit.compare.pixel_sums import pixel_sums

    expected = np.load(reference, mmap_mode="r")
    sums: list[PixelSums] = []
    for batch in opened.loader.epoch():
        for tensor in batch.numpy():
            pixels = levels(tensor, opened.option.preprocess.normalise)
            wanted = on_grid(expected[len(sums)])
            if pixels.shape != wanted.shape:
                size = "{}x{}".format(*pixels.shape[:2])
                raise DataError(f"{size} pixels, the reference {'{}x{}'.format(*wanted.shape[:2])}")
            sums.append(pixel_sums(wanted, pixels))
    return sum(sums[1:], sums[0])


def levels(tensor: Any, normalise: Normalise) -> Pixels:
    """Read normalised (3, h, w) float32 back to grey levels, (h, w, 3) on a grid of 1/256."""
    import numpy as np

    mean, std = np.array(normalise.mean), np.array(normalise.std)
    return on_grid((tensor.transpose(1, 2, 0).astype(np.float64) * std + mean) * 255)


def on_grid(pixels: Any) -> Pixels:
    """Round (h, w, 3) levels to 1/256; ``uint8`` if all are whole and in 0..255, else float32.

    A tensor holds a level in float32 only nearly, and every library rounds it in its own way.
    """
    import numpy as np

    rounded = np.rint(np.asarray(pixels, np.float64) * _GRID) / _GRID
    whole = bool(
        (rounded == np.rint(rounded)).all() and rounded.min() >= 0 and rounded.max() <= 255
    )
    return np.ascontiguousarray(rounded.astype(np.uint8 if whole else np.float32))


def _fill(opened: _Open) -> None:
    """Take a batch, and wait until nothing computes: the queues are full; then take the rest."""
    for number, batch in enumerate(opened.loader.epoch()):
        if not number:
            _wait_until_idle()
        del batch


def _wait_until_idle() -> None:
    # a batch is tried only where the system tells memory, and then it tells this
    used = cpu_seconds(os.getpid()) or 0.0
    while True:
        time.sleep(_IDLE_SECONDS)
        before, used = used, cpu_seconds(os.getpid()) or 0.0
        if used - before < _IDLE_SHARE * _IDLE_SECONDS:
            return


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time that a process and those below it have used, in the system's ticks.

    ``None`` where the system does not tell it.
    """
    if not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for each in process_tree(pid):
        try:
            # the name, in brackets, may hold spaces; then follow the fields from the third on
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def of_batch(option: LoaderOption, batch: int) -> LoaderOption:
    """Return the loader with another batch size, and images enough to fill its queues."""
    needed = batch * (option.ready_batches + 2)
    return replace(option, batch=batch, files=tuple(islice(cycle(option.files), needed)))
