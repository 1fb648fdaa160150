"""`EntryView`: an entry of the matrix in words, for terminal, page and Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from alignkit.record import Estimate, MatrixEntry, RunRecord
from alignkit.record.stored import Placed
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, estimated, grouped, percent, shorten, unsigned

Found = TypeVar("Found", bound=Placed)
RECALL = "recall.macro"
MOST_REASON = 160
"""Characters of a reason."""
UNMEASURED = Estimate(None, None, None, "not measured")


@dataclass(frozen=True, slots=True)
class EntryView:
    """A matrix entry; a field that does not apply is a dash."""

    place: tuple[str, str, str]
    """Trained with, evaluated with, runtime."""
    change: str
    """Of macro recall, with its interval; the value if aligned; why the entry did not run."""
    churn: str = DASH
    lost: str = DASH
    """Images that were right and are wrong now."""
    gained: str = DASH
    images: str = DASH
    detectable: str = DASH
    is_significant: bool = False

    @property
    def both(self) -> str:
        """Images lost and gained, for a cell."""
        return DASH if self.lost == DASH else f"{self.lost} / {self.gained}"

    @property
    def flips(self) -> str:
        """Images lost and gained, in words."""
        return f"{self.lost} lost, {self.gained} gained of {self.images}"


def entry_view(entry: MatrixEntry, names: Names) -> EntryView:
    """Write an entry of any state."""
    place, drift = names.cells(entry), entry.drift
    if entry.state != "measured":
        return EntryView(place, f"{entry.state}: {shorten(entry.reason, MOST_REASON)}")
    if drift is None:
        own = entry.metrics.get(RECALL)
        return EntryView(place, f"aligned, {DASH if own is None else percent(own, 2)}")
    limit, churn = drift.detectable, drift.churn
    return EntryView(
        place,
        change=estimated(drift.metrics.get(RECALL, UNMEASURED)),
        churn=churn.reason if churn.value is None else percent(churn.value, 2),
        lost=grouped(drift.right_to_wrong),
        gained=grouped(drift.wrong_to_right),
        images=grouped(drift.n),
        detectable=DASH if limit is None else unsigned(limit),
        is_significant=bool(drift.is_significant(RECALL)),
    )


def served_elsewhere(found: Iterable[Found], record: RunRecord) -> list[Found]:
    """Keep what models served with another path than they were trained with show.

    Of the runtimes that a record measured, only that of its aligned cells.
    """
    runtimes = {each.column.runtime for each in record.matrix if each.aligned}
    return [
        each
        for each in found
        if each.evaluated_with not in each.row.preprocesses
        and (not runtimes or each.column.runtime in runtimes)
    ]
