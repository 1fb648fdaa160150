"""View of how far images differ, and whether the far ones are those that flip.

Read from the files that the record names, as the viewer's data is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from alignkit.compare.image_table import LAST, ImageTable, read_image_table
from alignkit.compare.predictions import read_class_answers
from alignkit.place import Column, Place
from alignkit.record import Cell, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.report.charts import Frame, Line, LinePlot, nice_ticks
from alignkit.report.page import Beside, Details, Graphic, PagePart, Paragraph, against
from alignkit.report.table import Notes, Shown, Table, numbers
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import grouped, percent, plain, significant

Distances = npt.NDArray[np.float32]
"""(n,), NaN where unknown."""
Flipped = npt.NDArray[np.bool_]
"""(n,)."""
MOST = 2_000
"""Images that are drawn of those that flipped, and of the others."""
_KNOTS = 200
"""Points of a distribution's line."""


class FlippedSpot(NamedTuple):
    """An image that flipped."""

    x: float
    y: float
    href: str
    """Of the image in the viewer."""
    title: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """Two clouds: images whose prediction stayed, and those that flipped."""

    frame: Frame
    stayed: str
    """SVG path of dots."""
    flipped: tuple[FlippedSpot, ...]
    stayed_words: str
    flipped_words: str


@dataclass(frozen=True, slots=True)
class DistributionSection:
    """One pair of paths."""

    reference: PathName
    candidate: PathName
    ecdf: LinePlot
    quantiles: Table
    scatter: Scatter | None
    """``None`` where no model was served with both paths, or its margins are unknown."""
    margins: Table | None
    words: str


def distribution_sections(
    record: RunRecord, names: Names, folder: Path
) -> tuple[DistributionSection, ...]:
    """Return a section for each pair of paths whose images were measured.

    Raises `RecordError` if a file that the record names is missing.
    """
    tables = [read_image_table(artifact_file(folder, each.table)) for each in record.images]
    # one axis for all pairs, so that they can be compared
    most = float(max((np.nanmax(t.mean_abs[LAST], initial=0.0) for t in tables), default=0.0))
    sections = []
    for index, (each, table) in enumerate(zip(record.images, tables, strict=True)):
        means = table.mean_abs[LAST]
        if not np.isfinite(means).any():  # no image was decoded by both paths
            continue
        cells = _cells(record, each.reference, each.candidate)
        margins = _margins(cells, folder, table) if cells else None
        pair = names.of(each.reference), names.of(each.candidate)
        sections.append(
            _section(
                index,
                pair,
                table,
                most,
                margins,
                _words(cells, names, record.task.output) if cells else "",
            )
        )
    return tuple(sections)


def distribution_parts(record: RunRecord, names: Names, folder: Path) -> list[PagePart]:
    """Return how far images differ and beside it their margins, folded; empty without any image.

    Raises `RecordError` if a file that the record names is missing.
    """
    parts: list[PagePart] = []
    for each in distribution_sections(record, names, folder):
        charts: list[list[PagePart]] = [[Graphic("ecdf", each.ecdf)]]
        parts.append(against(each.candidate, each.reference))
        if each.scatter:
            parts.append(Paragraph(each.words, "lead"))
            charts.append([Graphic("scatter", each.scatter)])
        tables = [each.quantiles, *([each.margins] if each.margins else [])]
        parts += [Beside(charts), Details("In numbers", tables)]
    beside = ", and their size against the margin" if record.task.class_scores else ""
    title = f"Distribution of the pixel differences{beside}"
    return [Details(title, parts, id="distributions")] if parts else []


def _section(
    index: int,
    pair: tuple[PathName, PathName],
    table: ImageTable,
    most: float,
    margins: tuple[Distances, Flipped] | None,
    words: str,
) -> DistributionSection:
    means = table.mean_abs[LAST]
    known = means[np.isfinite(means)]
    of_pair = f"{pair[0].name}>{pair[1].name}"
    ids = [f"{quote(of_pair, safe='')}/{quote(name, safe='')}" for name in table.ids]
    title = f"{pair[1].short} against {pair[0].short}"
    return DistributionSection(
        *pair,
        steps(
            known,
            id=f"ecdf-{index}",
            title=f"Share of images that differ by less, {title}",
            most=most,
        ),
        _quantiles(known, title),
        scatter(
            means,
            *margins,
            id=f"drift-margin-{index}",
            title=f"Drift and margin, {title}",
            images=list(zip(ids, table.ids, strict=True)),
            most=most,
        )
        if margins
        else None,
        _by_margin(means, *margins, title) if margins else None,
        words,
    )


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


def _words(cells: tuple[Cell, Cell], names: Names, output: str) -> str:
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
    shares = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
    rows = [(percent(at, 0), significant(float(np.quantile(known, at)))) for at in shares]
    rows.append(("equal in every value", grouped(int((known == 0).sum()))))
    columns = ("Images", *numbers("Mean |Δ| at most, grey levels"))
    return Table.of(f"Per-image pixel difference, {title}", columns, rows)


def _by_margin(
    means: Distances,
    margin: Distances,
    flipped: Flipped,
    title: str,
) -> Table:
    known = np.flatnonzero(np.isfinite(margin) & np.isfinite(means))
    notes = Notes()
    rows = []
    quarters = np.array_split(known[np.argsort(margin[known], kind="stable")], 4)
    for name, part in zip(("least", "second", "third", "greatest"), quarters, strict=True):
        if not len(part):  # fewer than four images
            continue
        lost = part[flipped[part]]
        kept = part[~flipped[part]]
        rows.append(
            (
                f"{name} quarter",
                f"{plain(margin[part].min(), 2)} … {plain(margin[part].max(), 2)}",
                grouped(len(part)),
                f"{grouped(len(lost))} ({percent(len(lost) / len(part))})",
                _median(means[lost], notes, "no image of it flipped"),
                _median(means[kept], notes, "every image of it flipped"),
            )
        )
    medians = ("Median |Δ|, flipped", "Median |Δ|, not")
    columns = ("Margin", *numbers("From … to", "Images", "Flipped", *medians))
    return Table.of(f"Flips by margin, {title}", columns, rows, notes=notes)


def _median(values: Distances, notes: Notes, reason: str) -> Shown:
    return Shown(significant(float(np.median(values)))) if len(values) else notes.missing(reason)


def steps(values: Distances, *, id: str, title: str, most: float) -> LinePlot:  # noqa: A002 - the attribute it becomes
    """Draw the empirical distribution of finite values up to ``most``, at `_KNOTS` even shares."""
    shares = np.linspace(0, 1, min(_KNOTS, len(values)) + 1)
    frame = Frame(
        id,
        title,
        nice_ticks(0.0, most),
        nice_ticks(0.0, 1.0),
        "mean |Δ|, grey levels",
        "share of images",
    )
    spots = zip(np.quantile(values, shares).tolist(), shares.tolist(), strict=True)
    return LinePlot(frame, (Line(" ".join(f"{frame.x(x):g},{frame.y(y):g}" for x, y in spots)),))


def scatter(
    drift: Distances,
    margin: Distances,
    flipped: Flipped,
    *,
    id: str,  # noqa: A002
    title: str,
    images: Sequence[tuple[str, str]],
    most: float,
) -> Scatter:
    """Draw the images of (n,) values each, except those without drift or margin (NaN).

    ``images``: of each its place in an address, and its name. ``most`` ends the axis of the drift.
    """
    known = np.isfinite(drift) & np.isfinite(margin)
    stayed, stayed_words = _thinned(known & ~flipped, "kept their class")
    lost, lost_words = _thinned(known & flipped, "flipped")
    frame = Frame(
        id,
        title,
        nice_ticks(0.0, float(margin[known].max(initial=0.0))),
        nice_ticks(0.0, most),
        "margin of the model",
        "mean |Δ|, grey levels",
    )

    def placed(which: npt.NDArray[np.intp]) -> list[tuple[float, float]]:
        spots = zip(margin[which].tolist(), drift[which].tolist(), strict=True)
        return [(frame.x(x), frame.y(y)) for x, y in spots]

    return Scatter(
        frame,
        # one path for all: thousands of elements would make the page large and slow
        "".join(f"M{x:g} {y:g}h0" for x, y in placed(stayed)),
        tuple(
            FlippedSpot(
                x, y, f"#/image/{images[at][0]}", _spot_words(images[at][1], drift[at], margin[at])
            )
            for at, (x, y) in zip(lost.tolist(), placed(lost), strict=True)
        ),
        stayed_words,
        lost_words,
    )


def _thinned(which: Flipped, did: str) -> tuple[npt.NDArray[np.intp], str]:
    """Choose at most `MOST` of some images, evenly; say how many there are, and are drawn."""
    places = np.flatnonzero(which)
    drawn = places[np.linspace(0, len(places) - 1, min(MOST, len(places))).astype(int)]
    of = f", {grouped(len(drawn))} of them drawn" if len(drawn) < len(places) else ""
    return drawn, f"{grouped(len(places))} {did}{of}"


def _spot_words(name: str, drift: float, margin: float) -> str:
    return f"{name}: mean |Δpixel| {plain(float(drift), 2)}, margin {plain(float(margin), 2)}"
