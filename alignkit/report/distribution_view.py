"""How far images differ, and whether the far ones are those that flip.

Read from the files that the record names, as the viewer's data is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from alignkit.compare.image_table import LAST, ImageTable, read_image_table
from alignkit.compare.predictions import read_class_answers
from alignkit.place import Column, Place
from alignkit.record import Cell, RunRecord
from alignkit.record.document import artifact_file
from alignkit.report.axis import Axis
from alignkit.report.marks import Dot, Line
from alignkit.report.page import Beside, Details, PagePart, Paragraph, against
from alignkit.report.plot import Plot
from alignkit.report.table import Table
from alignkit.text.column import Fact
from alignkit.text.names import Names
from alignkit.text.numbers import grouped, percent, plain, significant

Distances = npt.NDArray[np.float32]
"""(n,), NaN where unknown."""
Flipped = npt.NDArray[np.bool_]
"""(n,)."""
MOST = 2_000
"""Images that are drawn of those that flipped, and of the others."""
_KNOTS = 200
"""Points of a distribution's line."""
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Of images, in the table."""


def distribution_parts(
    record: RunRecord, names: Names, folder: Path, *, has_viewer: bool
) -> list[PagePart]:
    """Return how far images differ and beside it their margins, folded; empty without any image.

    With a viewer the images that flipped lead to it. Raises `RecordError` if a file that the
    record names is missing.
    """
    tables = [read_image_table(artifact_file(folder, each.table)) for each in record.images]
    # one axis for all pairs, so that they can be compared
    most = float(max((np.nanmax(t.mean_abs[LAST], initial=0.0) for t in tables), default=0.0))
    parts: list[PagePart] = []
    for each, table in zip(record.images, tables, strict=True):
        means = table.mean_abs[LAST]
        known = means[np.isfinite(means)]
        if not len(known):  # no image was decoded by both paths
            continue
        reference, candidate = names.of(each.reference), names.of(each.candidate)
        title = f"{candidate.short} against {reference.short}"
        charts: list[list[PagePart]] = [[ecdf(known, title, most)]]
        numbers: list[PagePart] = [_quantiles(known, title)]
        parts.append(against(candidate, reference))
        cells = _cells(record, each.reference, each.candidate)
        if cells and (margins := _margins(cells, folder, table)):
            opens = f"{reference.name}>{candidate.name}" if has_viewer else ""
            parts.append(Paragraph(_served(cells, names, record.task.output), "lead"))
            points = scatter(means, *margins, title=title, names=table.ids, most=most, opens=opens)
            charts.append([points])
            numbers.append(_by_margin(means, *margins, title))
        parts += [Beside(charts), Details("In numbers", numbers)]
    beside = ", and their size against the margin" if record.task.class_scores else ""
    title = f"Distribution of the pixel differences{beside}"
    return [Details(title, parts, id="distributions")] if parts else []


def _cells(record: RunRecord, reference: str, candidate: str) -> tuple[Cell, Cell] | None:
    """Find the reference's model under both paths: of the first seed, in the aligned runtime."""
    if not record.task.class_scores:  # other answers have no margin
        return None
    predicted = [cell for cell in record.cells if cell.predictions]
    cells = {(cell.seed, cell.place): cell for cell in predicted}
    for home in predicted:
        if home.aligned and home.trained_with == reference:
            place = Place(home.row, Column(candidate, home.backend, home.precision))
            if cell := cells.get((home.seed, place)):
                return home, cell
    return None


def _served(cells: tuple[Cell, Cell], names: Names, output: str) -> str:
    home, cell = cells
    trained, served = names.short(home.trained_with), names.short(cell.evaluated_with)
    return (
        f"Trained with {trained}, seed {home.seed}, served with {served} "
        f"({cell.column.runtime}). Margin: top-1 minus top-2 {output} on the path of the training."
    )


def _margins(
    cells: tuple[Cell, Cell], folder: Path, table: ImageTable
) -> tuple[Distances, Flipped] | None:
    """Return (n,) of the table's images: the margin, NaN where unknown, and whether it flipped.

    ``None`` if no margin is known.
    """
    home, cell = (
        read_class_answers(artifact_file(folder, each.predictions))
        for each in cells
        if each.predictions
    )
    gaps = dict(zip(home.ids, home.margins().tolist(), strict=True))
    was = dict(zip(home.ids, home.predicted.tolist(), strict=True))
    now = dict(zip(cell.ids, cell.predicted.tolist(), strict=True))
    both = was.keys() & now.keys()
    margin = np.array([gaps[name] if name in both else np.nan for name in table.ids], np.float32)
    flipped = np.array([name in both and was[name] != now[name] for name in table.ids])
    return (margin, flipped) if np.isfinite(margin).any() else None


def _quantiles(known: Distances, title: str) -> Table:
    rows = [(percent(at, 0), significant(float(np.quantile(known, at)))) for at in _SHARES]
    rows.append(("equal in every value", grouped(int((known == 0).sum()))))
    columns: tuple[Fact[tuple[str, str]], ...] = (
        Fact("Images", lambda row: row[0]),
        Fact("Mean |Δ| at most, grey levels", lambda row: row[1], "levels"),
    )
    return Table.made(f"Per-image pixel difference, {title}", columns, rows)


class _Quarter(NamedTuple):
    """Images of about the same margin."""

    name: str
    margins: Distances
    kept: Distances
    """Mean |Δ| of those that did not flip."""
    lost: Distances


_QUARTER: tuple[Fact[_Quarter], ...] = (
    Fact("Margin", lambda each: f"{each.name} quarter"),
    Fact("From … to", lambda each: " … ".join(
           plain(float(end), 2) for end in (each.margins.min(), each.margins.max())), "levels"),
    Fact("Images", lambda each: len(each.margins), "count"),
    Fact("Flipped", lambda each:
           f"{grouped(len(each.lost))} ({percent(len(each.lost) / len(each.margins))})", "count"),
    Fact("Median |Δ|, flipped", lambda each: _median(each.lost), "value",
           note="no image of it flipped"),
    Fact("Median |Δ|, not", lambda each: _median(each.kept), "value",
           note="every image of it flipped"),
)  # fmt: skip


def _by_margin(means: Distances, margin: Distances, flipped: Flipped, title: str) -> Table:
    known = np.flatnonzero(np.isfinite(margin) & np.isfinite(means))
    quarters = np.array_split(known[np.argsort(margin[known], kind="stable")], 4)
    rows = [
        _Quarter(name, margin[part], means[part[~flipped[part]]], means[part[flipped[part]]])
        for name, part in zip(("least", "second", "third", "greatest"), quarters, strict=True)
        if len(part)  # of fewer than four images some are empty
    ]
    return Table.made(f"Flips by margin, {title}", _QUARTER, rows)


def _median(values: Distances) -> float | None:
    return float(np.median(values)) if len(values) else None


def ecdf(values: Distances, title: str, most: float) -> Plot:
    """Draw the empirical distribution of finite values up to ``most``, at `_KNOTS` even shares."""
    shares = np.linspace(0, 1, min(_KNOTS, len(values)) + 1)
    points = zip(np.quantile(values, shares).tolist(), shares.tolist(), strict=True)
    return Plot(
        title=f"Share of images that differ by less, {title}",
        x=Axis(name="mean |Δ|, grey levels", holds=(0.0, most)),
        y=Axis(name="share of images", holds=(0.0, 1.0)),
        marks=[Line([*points])],
    )


def scatter(
    drift: Distances,
    margin: Distances,
    flipped: Flipped,
    *,
    title: str,
    names: Sequence[str],
    most: float,
    opens: str = "",
) -> Plot:
    """Draw the images of (n,) values each, except those without drift or margin (NaN).

    ``most`` ends the axis of the drift. Those that flipped open in the viewer of the pair
    ``opens``, if that is given.
    """
    known = np.isfinite(drift) & np.isfinite(margin)
    stayed, stayed_words = _thinned(known & ~flipped, "kept their class")
    lost, lost_words = _thinned(known & flipped, "flipped")
    lost_words += ": a cross opens its image" if opens else ""
    kept = [*zip(margin[stayed].tolist(), drift[stayed].tolist(), strict=True)]

    def cross(at: int) -> Dot:
        x, y, name = float(margin[at]), float(drift[at]), names[at]
        title = f"{name}: mean |Δpixel| {plain(y, 2)}, margin {plain(x, 2)}"
        link = f"#/image/{quote(opens, safe='')}/{quote(name, safe='')}" if opens else ""
        return Dot(x, y, "t1", "cross", lost_words, title, link)

    return Plot(
        title=f"Drift and margin, {title}",
        x=Axis(name="margin of the model", holds=(0.0,)),
        y=Axis(name="mean |Δ|, grey levels", holds=(0.0, most)),
        marks=[Line(kept, key=stayed_words, loose=True), *map(cross, lost.tolist())],
    )


def _thinned(which: Flipped, did: str) -> tuple[npt.NDArray[np.intp], str]:
    """Choose at most `MOST` of some images, evenly; say how many there are, and are drawn."""
    places = np.flatnonzero(which)
    drawn = places[np.linspace(0, len(places) - 1, min(MOST, len(places))).astype(int)]
    of = f", {grouped(len(drawn))} of them drawn" if len(drawn) < len(places) else ""
    return drawn, f"{grouped(len(places))} {did}{of}"
