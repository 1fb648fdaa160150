"""Lots in workers of a cluster: a bounded number under way, lost ones tried again, never a hang.

A worker reads the bytes of its images itself and decodes them in worker processes of its own
(`alignkit.isolation`), so that an image kills no worker, and no image passes through the cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

from alignkit.errors import EngineError, EngineMissing
from alignkit.lots import DoneLot, ImagesDone, Lot, LotWork
from alignkit.lots.local import LocalEngine
from alignkit.version import ALL_LAYERS, __version__, code_version

logger = logging.getLogger(__name__)

MOST_LOST = 3
"""Workers that a lot may lose before the command ends."""
UNDER_WAY = 3
"""Lots handed out for each worker, so that none waits for the driver."""
SILENT = 60.0
"""Seconds without a sign of life after which a worker counts as lost. Workers give one every few
seconds, whatever they work on."""
WITHOUT_WORKER = 120.0
"""Seconds after which a cluster without any worker ends the command."""
_TICK = 5.0


@dataclass(frozen=True, slots=True)
class LostLot:
    """The end of a worker before its lot was done."""

    reason: str


class Cluster(Protocol):
    """Workers of an engine."""

    name: str

    def workers(self) -> int:
        """Count the lots that can run at a time now; 0 if no worker is left.

        Raises `EngineError` if the cluster is gone.
        """
        ...

    def submit(self, work: LotWork[Any], lot: Lot, processes: int) -> Hashable:
        """Begin `worked` on a lot in any worker; return its handle."""
        ...

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, str | LostLot]]:
        """Return the handles that are done, with the texts of their parts, in any order.

        None if that takes more than ``seconds``. Raises the exceptions of the work, and
        `EngineError` if the cluster is gone.
        """
        ...

    def cancel(self) -> None:
        """Give up all lots that are not done, if there are any."""
        ...


def worked(work: LotWork[Any], lot: Lot, processes: int, makers: Sequence[str]) -> str:
    """Work on one lot in a worker of a cluster, in so many processes; return its part as text.

    Raises `EngineMissing` if the worker has other libraries than the driver, whose ``makers``
    are given.
    """
    own = makers_of(work)
    if tuple(makers) != own:
        there, here = next((a, b) for a, b in zip(own, makers, strict=True) if a != b)
        raise EngineMissing(
            f"a worker has {there}, and this process has {here}; install the same in both"
        )
    (done,) = LocalEngine(processes, keep=True).parts(work, iter([lot]), lambda _: None)
    return work.text(done.part)


def makers_of(work: LotWork[Any]) -> tuple[str, ...]:
    """Name everything that the numbers depend on and that a worker may have another version of."""
    missing = [f"no {path.name} ({reason})" for path in work.paths if (reason := path.missing())]
    stages = [
        f"{path.name} with {stage} {version}"
        for path in work.paths
        if not path.missing()
        for stage, version in sorted(path.versions().items())
    ]
    code = code_version(ALL_LAYERS)[:12]
    libraries = [f"{name} {metadata.version(name)}" for name in ("numpy", "pillow")]
    own = [f"alignkit {__version__} of code {code}", *libraries, *missing, *stages]
    # as many where a path is missing, so that they can be compared one by one
    return tuple(own + [""] * (1 + len(libraries) + 2 * len(work.paths) - len(own)))


@dataclass(slots=True)
class RemoteEngine:
    """An `LotEngine` of a cluster's workers."""

    cluster: Cluster
    processes: int = 1
    """Worker processes in each worker."""
    lost: int = field(default=0, init=False)
    """Workers that were lost with a lot so far."""

    def parts(
        self, work: LotWork[Any], lots: Iterator[Lot], advance: ImagesDone
    ) -> Iterator[DoneLot]:
        """Work on the lots; see `LotEngine.parts`."""
        try:
            yield from self._parts(work, lots, advance)
        finally:
            # lots of a call that ended early must not be taken for those of the next one
            self.cluster.cancel()

    def _parts(
        self, work: LotWork[Any], lots: Iterator[Lot], advance: ImagesDone
    ) -> Iterator[DoneLot]:
        under_way: dict[Hashable, Lot] = {}
        tries: dict[int, int] = {}
        taken: list[Lot] = []
        """Lots from the oldest that is not done on, in their order."""
        done: set[int] = set()
        seen = time.monotonic()
        more = True
        while True:
            bound = UNDER_WAY * max(1, self.cluster.workers())
            while more and len(taken) < bound:
                lot = next(lots, None)
                more = lot is not None
                if lot is not None:
                    taken.append(lot)
                    under_way[self.cluster.submit(work.only(lot), lot, self.processes)] = lot
            if not under_way:
                return
            for handle, outcome in self.cluster.wait(_TICK):
                lot = under_way.pop(handle)
                if isinstance(outcome, LostLot):
                    tries[lot.number] = tries.get(lot.number, 0) + 1
                    self._lost(lot, tries[lot.number], outcome)
                    under_way[self.cluster.submit(work.only(lot), lot, self.processes)] = lot
                    continue
                done.add(lot.number)
                while taken and taken[0].number in done:
                    done.remove(taken.pop(0).number)
                advance(sum(work.groups(lot)))
                yield DoneLot(lot, work.parsed(outcome), outcome)
            if self.cluster.workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > WITHOUT_WORKER:
                raise EngineError(
                    f"{self.cluster.name}: no worker for {WITHOUT_WORKER:g} s; start one, and run "
                    "the same command again: with --reports it goes on where it stopped"
                )

    def tell_lost(self) -> None:
        """Warn of the lots that were tried again, once, if there were any."""
        if self.lost:
            times = "1 lot was" if self.lost == 1 else f"{self.lost} lots were"
            logger.warning(
                "%s: %s tried again, as a worker ended; no number depends on it",
                self.cluster.name, times,
            )  # fmt: skip

    def _lost(self, lot: Lot, tries: int, outcome: LostLot) -> None:
        self.lost += 1
        if tries >= MOST_LOST:
            raise EngineError(
                f"{self.cluster.name}: {lot} lost its worker {tries} times ({outcome.reason}); "
                f"the first of its images is {lot.samples.ids[0]}. Run the same command again: "
                "with --reports it goes on where it stopped"
            )
        logger.warning(
            "%s: a worker ended with %s (%s); it is tried again, %d of %d",
            self.cluster.name, lot, outcome.reason, tries + 1, MOST_LOST,
        )  # fmt: skip
