"""The service table that torchpipe published, whose figures are never among measured ones."""

from __future__ import annotations

from typing import NamedTuple

from alignkit.report.table import Group, Notes, RowCells, Shown, Table, numbers
from alignkit.text.numbers import DASH

LABEL = "published, torchpipe, ResNet50 on an RTX 3080 Ti"
"""Over every published figure."""
CONDITIONS = (
    "Images of 1080×1080, processors limited to 300 %. No numbers of requests and no intervals "
    "were published; the unit of the times, milliseconds, follows from the numbers."
)


class ServiceRow(NamedTuple):
    """One row as it was published; times in milliseconds."""

    decode: str
    clients: int
    rate: str
    """Requests a second."""
    mean: str
    tp50: str
    tp99: str
    gain: str
    """Over the CPU row with as many clients; empty for that row itself."""


PUBLISHED_ROWS = (
    ServiceRow("CPU", 1, "70", "14.27", "14.24", "18.35", ""),
    ServiceRow("GPU", 1, "90", "11.08", "10.76", "14.46", "+28.57 %"),
    ServiceRow("CPU", 5, "276", "18.11", "12.62", "38.87", ""),
    ServiceRow("GPU", 5, "321", "15.59", "9.83", "40.43", "+16.30 %"),
    ServiceRow("CPU", 10, "271", "36.88", "30.11", "65.97", ""),
    ServiceRow("GPU", 10, "319", "31.34", "23.15", "61.60", "+17.71 %"),
)


def published_service() -> Table:
    """Return the published rows; a TP99 that worsens where the throughput improves is marked."""
    notes = Notes()
    base = {each.clients: each for each in PUBLISHED_ROWS if not each.gain}
    rows: list[RowCells] = [
        (
            Shown(each.decode, tone="muted"),
            # grey as no measured figure is
            *(
                Shown(text, tone="muted")
                for text in (str(each.clients), each.rate, each.mean, each.tp50)
            ),
            _tail(each, base[each.clients], notes),
            Shown(each.gain or DASH, tone="muted"),
        )
        for each in PUBLISHED_ROWS
    ]
    figures = numbers("Clients", "Requests/s", "Mean", "TP50", "TP99", "Gain")
    groups = (Group("", 1), Group(LABEL, len(figures)))
    caption = "Published, not measured here; milliseconds of a request"
    return Table.of(caption, ("Decode", *figures), rows, groups, notes=notes)


def _tail(row: ServiceRow, base: ServiceRow, notes: Notes) -> Shown:
    if float(row.tp99) <= float(base.tp99):
        return Shown(row.tp99, tone="muted")
    said = (
        f"Worse than on the {base.decode} ({base.tp99}) with {row.clients} clients, although the "
        "throughput is better; nothing published says whether that is chance."
    )
    return Shown(row.tp99, mark=notes.mark(said), tone="warn")
