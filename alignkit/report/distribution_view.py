"""View of how far images differ, and whether the far ones are those that flip.

Read from the files that the record names, as the viewer's data is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignkit.compare.image_table import LAST, ImageTable, read_image_table
from alignkit.compare.predictions import Predictions
from alignkit.place import Column, Place
from alignkit.record import Cell, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.report.charts import Frame, Line, LinePlot, nice_ticks
from alignkit.report.table import Notes, Shown, Table, numbers
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import grouped, percent, significant

Distances = npt.NDArray[np.float32]
"""(n,), NaN where unknown."""
Flipped = npt.NDArray[np.bool_]
"""(n,)."""
MOST = 2_000
"""Images that did not flip and are drawn; those that flipped are all drawn."""
_KNOTS = 200
"""Points of a distribution's line."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Two clouds: images whose prediction stayed, and those that flipped."""

    frame: Frame
    stayed: str
    """SVG path of dots."""
    flipped: str
    """SVG path of crosses."""
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
    """``None`` where no model was served with both paths."""
    margins: Table | None
    words: str


def distribution_sections(
    record: RunRecord, names: Names, folder: Path
) -> tuple[DistributionSection, ...]:
    """Return a section for each pair of paths whose images were measured.

    Raises `RecordError` if a file that the record names is missing.
    """
    sections = []
    for index, each in enumerate(record.images):
        table = read_image_table(artifact_file(folder, each.table))
        means = table.mean_abs[LAST]
        if not np.isfinite(means).any():  # no image was decoded by both paths
            continue
        cells = _cells(record, each.reference, each.candidate)
        margins = _margins(cells, folder, table) if cells else None
        pair = names.of(each.reference), names.of(each.candidate)
        sections.append(
            _section(index, pair, means, margins, _words(cells, names) if cells else "")
        )
    return tuple(sections)


def _section(
    index: int,
    pair: tuple[PathName, PathName],
    means: Distances,
    margins: tuple[Distances, Flipped] | None,
    words: str,
) -> DistributionSection:
    known = means[np.isfinite(means)]
    title = f"{pair[1].short} against {pair[0].short}"
    return DistributionSection(
        *pair,
        steps(known, id=f"ecdf-{index}", title=f"Share of images that differ by less, {title}"),
        _quantiles(known, title),
        scatter(means, *margins, id=f"drift-margin-{index}", title=f"Drift and margin, {title}")
        if margins
        else None,
        _by_margin(means, *margins, title) if margins else None,
        words,
    )


def _cells(record: RunRecord, reference: str, candidate: str) -> tuple[Cell, Cell] | None:
    """Find the reference's model under both paths: of the first seed, in the aligned runtime."""
    predicted = [cell for cell in record.cells if cell.predictions]
    cells = {(cell.seed, cell.place): cell for cell in predicted}
    for home in predicted:
        if home.aligned and home.trained_with == reference:
            place = Place(home.row, Column(candidate, home.backend, home.precision))
            if cell := cells.get((home.seed, place)):
                return home, cell
    return None


def _words(cells: tuple[Cell, Cell], names: Names) -> str:
    home, cell = cells
    trained, served = names.short(home.trained_with), names.short(cell.evaluated_with)
    return (
        f"Trained with {trained}, seed {home.seed}, served with {served} "
        f"({cell.column.runtime}). The margin is the greatest logit less the second, as "
        "the model gives them on its own path."
    )


def _margins(
    cells: tuple[Cell, Cell], folder: Path, table: ImageTable
) -> tuple[Distances, Flipped]:
    """Return (n,) of the table's images: the margin, NaN where unknown, and whether it flipped."""
    home, cell = (
        Predictions.from_parquet(artifact_file(folder, each.predictions))
        for each in cells
        if each.predictions
    )
    top = np.sort(home.logits, axis=1)
    gaps = dict(zip(home.ids, (top[:, -1] - top[:, -2]).tolist(), strict=True))
    was = dict(zip(home.ids, home.predicted.tolist(), strict=True))
    now = dict(zip(cell.ids, cell.predicted.tolist(), strict=True))
    both = was.keys() & now.keys()
    margin = np.array([gaps[name] if name in both else np.nan for name in table.ids], np.float32)
    flipped = np.array([name in both and was[name] != now[name] for name in table.ids])
    return margin, flipped


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
                f"{margin[part].min():.2f} … {margin[part].max():.2f}",
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


def steps(values: Distances, *, id: str, title: str) -> LinePlot:  # noqa: A002 - the attribute it becomes
    """Draw the empirical distribution of finite values, at `_KNOTS` evenly spaced shares."""
    shares = np.linspace(0, 1, min(_KNOTS, len(values)) + 1)
    frame = Frame(
        id,
        title,
        nice_ticks(0.0, float(values.max())),
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
) -> Scatter:
    """Draw the images of (n,) values each, except those without drift or margin (NaN)."""
    known = np.isfinite(drift) & np.isfinite(margin)
    stayed, lost = np.flatnonzero(known & ~flipped), np.flatnonzero(known & flipped)
    drawn = stayed[np.linspace(0, len(stayed) - 1, min(MOST, len(stayed))).astype(int)]
    frame = Frame(
        id,
        title,
        nice_ticks(0.0, float(margin[known].max(initial=0.0))),
        nice_ticks(0.0, float(drift[known].max(initial=0.0))),
        "margin of the model",
        "mean |Δ|, grey levels",
    )

    def placed(which: npt.NDArray[np.intp], mark: str) -> str:
        # one path for all: thousands of elements would make the page large and slow
        spots = zip(margin[which].tolist(), drift[which].tolist(), strict=True)
        return "".join(f"M{frame.x(x):g} {frame.y(y):g}{mark}" for x, y in spots)

    of = f", {grouped(len(drawn))} of them drawn" if len(drawn) < len(stayed) else ""
    return Scatter(
        frame,
        placed(drawn, "h0"),
        placed(lost, "m-3-3l6 6m0-6l-6 6"),
        f"{grouped(len(stayed))} kept their class{of}",
        f"{grouped(len(lost))} flipped",
    )
