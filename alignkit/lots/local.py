"""`LocalEngine`: lots in the worker processes of this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from alignkit.isolation.worker import Encoded
from alignkit.lots import DoneLot, ImagesDone, Lot, LotWork
from alignkit.preprocess.image_taps import run_isolated


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """A pool that works on the images of one lot after the other without a pause between them."""

    processes: int | None = None
    """Worker processes; by default one for each CPU."""
    keep: bool = False
    """Whether to keep them for the next call, see `alignkit.isolation`."""

    def parts(
        self, work: LotWork[Any], lots: Iterator[Lot], advance: ImagesDone
    ) -> Iterator[DoneLot]:
        """Work on the lots in their order; see `LotEngine.parts`."""
        begun: deque[Lot] = deque()

        def images() -> Iterator[Encoded]:
            for lot in lots:
                begun.append(lot)
                yield from work.encoded(lot)

        results = run_isolated(
            work.work,
            work.paths,
            images(),
            processes=self.processes,
            limits=work.limits,
            images_a_task=work.images_a_task,
            keep=self.keep,
        )
        # closed here and now, also by an error of `add`: later its workers may be others
        with closing(results):
            yield from self._parts(work, results, begun, advance)

    def _parts(
        self,
        work: LotWork[Any],
        results: Iterator[Any],
        begun: deque[Lot],
        advance: ImagesDone,
    ) -> Iterator[DoneLot]:
        for first in results:
            lot = begun.popleft()
            part, held, groups = work.empty(lot), [first], deque(work.groups(lot))
            while True:
                counted = sum(map(work.images, held))
                # images of a task that killed its worker come one by one, and are added up as one
                # group, in whose order float sums are rounded
                if counted == groups[0]:
                    part, held = work.add(part, held), []
                    advance(groups.popleft())
                    if not groups:
                        break
                held.append(next(results))
            yield DoneLot(lot, part)
