"""How far images differ, and whether the far ones are those that flip: charts and their tables.

Read from the files that the record names, as the viewer's data is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.compare.image_table import LAST
from alignkit.place import Column, Place
from alignkit.record import Cell, RunRecord
from alignkit.report.scatter import Scatter, Steps, scatter, steps
from alignkit.report.table import Notes, Shown, Table, number_columns, text_columns
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import grouped, percent, significant

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.compare.image_table import ImageTable

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class DistributionSection:
    """One pair of paths."""

    reference: PathName
    candidate: PathName
    ecdf: Steps
    quantiles: Table
    scatter: Scatter | None
    """``None`` where no model was served with both paths."""
    margins: Table | None
    words: str


def distribution_sections(
    record: RunRecord, names: Names, folder: Path
) -> tuple[DistributionSection, ...]:
    """A section for each pair of paths whose images were measured.

    Raises `RecordError` if a file that the record names is missing.
    """
    from alignkit.compare.image_table import read_image_table
    from alignkit.report.viewer_data import existing

    found = []
    for index, each in enumerate(record.images):
        table = read_image_table(existing(each.table, folder))
        section = _section(record, names, folder, index, (each.reference, each.candidate), table)
        found += [section] if section else []
    return tuple(found)


def _section(
    record: RunRecord,
    names: Names,
    folder: Path,
    index: int,
    pair: tuple[str, str],
    table: ImageTable,
) -> DistributionSection | None:
    import numpy as np

    means = table.mean_abs[LAST]
    known = means[np.isfinite(means)]
    if not len(known):
        return None
    reference, candidate = names.of(pair[0]), names.of(pair[1])
    title = f"{candidate.name} against {reference.name}"
    cells = _cells(record, pair)
    margins = _margins(cells, folder, table) if cells else None
    return DistributionSection(
        reference,
        candidate,
        steps(known, id=f"ecdf-{index}", title=f"Share of images that differ by less, {title}"),
        _quantiles(known, title),
        scatter(means, *margins, id=f"drift-margin-{index}", title=f"Drift and margin, {title}")
        if margins
        else None,
        _by_margin(means, *margins, title) if margins else None,
        _words(cells) if cells else "",
    )


def _cells(record: RunRecord, pair: tuple[str, str]) -> tuple[Cell, Cell] | None:
    """The reference's model under both paths: of the first seed, in the aligned runtime."""
    for home in record.cells:
        if not (home.aligned and home.trained_with == pair[0] and home.predictions):
            continue
        column = Column(pair[1], home.backend, home.precision)
        for cell in record.cells:
            same = (cell.seed, cell.place) == (home.seed, Place(home.row, column))
            if same and cell.predictions:
                return home, cell
    return None


def _words(cells: tuple[Cell, Cell]) -> str:
    home, cell = cells
    return (
        f"Trained with {home.trained_with}, seed {home.seed}, served with {cell.evaluated_with} "
        f"({cell.column.runtime}). The margin is the greatest logit less the second, as "
        "the model gives them on its own path."
    )


def _margins(
    cells: tuple[Cell, Cell], folder: Path, table: ImageTable
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Of each image of the table: the margin (NaN where unknown), and whether it flipped."""
    import numpy as np

    from alignkit.compare.predictions import Predictions
    from alignkit.report.viewer_data import existing

    home, cell = (
        Predictions.from_parquet(existing(each.predictions, folder))
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


def _quantiles(known: npt.NDArray[np.float32], title: str) -> Table:
    import numpy as np

    rows = [(percent(at, 0), significant(float(np.quantile(known, at)))) for at in QUANTILES]
    columns = (*text_columns("Images"), *number_columns("Mean |Δ| at most, grey levels"))
    equal = ("equal in every value", grouped(int((known == 0).sum())))
    return Table.of(f"Per-image pixel difference, {title}", columns, (*rows, equal))


def _by_margin(
    means: npt.NDArray[np.float32],
    margin: npt.NDArray[np.float32],
    flipped: npt.NDArray[np.bool_],
    title: str,
) -> Table:
    import numpy as np

    known = np.flatnonzero(np.isfinite(margin) & np.isfinite(means))
    notes = Notes()
    rows = []
    ordered = known[np.argsort(margin[known], kind="stable")]
    for name, part in zip(
        ("least", "second", "third", "greatest"), np.array_split(ordered, 4), strict=True
    ):
        if not len(part):
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
    columns = (
        *text_columns("Margin"),
        *number_columns("From … to", "Images", "Flipped", "Median |Δ|, flipped", "Median |Δ|, not"),
    )
    return Table.of(f"Flips by margin, {title}", columns, tuple(rows), notes=notes)


def _median(values: npt.NDArray[np.float32], notes: Notes, reason: str) -> Shown:
    import numpy as np

    return Shown(significant(float(np.median(values)))) if len(values) else notes.missing(reason)
