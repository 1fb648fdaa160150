"""Facts of a record → DataFrames. Columns have the record's names, also of an empty frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from alignkit.extras import require_libraries
from alignkit.record import ImageTableFacts, MatrixEntry, PixelStage
from alignkit.record.diff_document import DiffRecord, ImageDrift, PredictionDrift
from alignkit.record.document import artifact_file
from alignkit.text.column import Fact, arrow, named, of_part
from alignkit.text.run_columns import LOGITS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

_PIXELS = tuple(name for name in PixelStage.model_fields if name not in ("bias", "share_above"))
_DRIFTS = tuple(name for name in ImageDrift.model_fields if name != "kinds")
_PIXELS_OF, _DRIFTS_OF = attrgetter(*_PIXELS), attrgetter(*_DRIFTS)
_PLACE = ("trained_with", "evaluated_with", "backend", "precision")


def pandas_module() -> ModuleType:
    """Import pandas, which the core does not need; raise `MissingDependency` without it."""
    require_libraries("pandas")
    import pandas as pd

    return pd


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as `pandas.read_parquet` reads it."""
    pandas_module()
    frame: pd.DataFrame = table.to_pandas()
    return frame


def pixel_frame(stages: Iterable[PixelStage], **besides: str) -> pd.DataFrame:
    """Return a row for each pair of paths, stage and mode; ``besides`` are more columns."""
    rows = [
        (*besides.values(), *_PIXELS_OF(stage), *(stage.bias or (None, None, None)))
        for stage in stages
    ]
    return _frame(rows, (*besides, *_PIXELS, "bias_r", "bias_g", "bias_b"))


def drift_frame(record: DiffRecord) -> pd.DataFrame:
    """Return a row for each of the worst images of each pair, with the kinds of its file."""
    kinds = tuple(dict.fromkeys(each.dimension for each in record.census))
    rows = [
        (pair.reference, pair.candidate, *_DRIFTS_OF(image), *map(image.kinds.get, kinds))
        for pair in record.pairs
        for image in pair.worst
    ]
    return _frame(rows, ("reference", "candidate", *_DRIFTS, *kinds))


def figure_frame(matrix: Iterable[MatrixEntry]) -> pd.DataFrame:
    """Return a row for each point of each line of the figures that the task gives."""
    rows = [
        (*entry.place.names, figure.name, line.name, line.side, x, y)
        for entry in matrix
        for figure in (entry.drift.figures if entry.drift else ())
        for line in figure.series
        for x, y in zip(line.x, line.y, strict=True)
    ]
    return _frame(rows, (*_PLACE, "figure", "series", "side", "x", "y"))


def fact_frame(matrix: Iterable[MatrixEntry]) -> pd.DataFrame:
    """Return a row for each cell of the tables that the task gives, with its interval."""
    rows = [
        (*entry.place.names, table.name, row.label, column, cell.value, cell.low, cell.high,
         row.unit, cell.reason)
        for entry in matrix
        for table in (entry.drift.tables if entry.drift else ())
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]  # fmt: skip
    return _frame(
        rows, (*_PLACE, "table", "row", "column", "value", "low", "high", "unit", "reason")
    )


def prediction_frame(record: DiffRecord) -> pd.DataFrame:
    """Return a row for each candidate that a model was served with."""
    drift: tuple[Fact[PredictionDrift], ...] = (
        Fact("", lambda found: found.n, "count", name="images"),
        *named("count", "left_out", "flips"),
        Fact("", lambda found: found.churn, "share", name="churn", interval=True),
        *of_part(map(LOGITS.__getitem__, ("mean_abs", "max_abs", "cosine")), attrgetter("logits")),
    )
    pair = named("text", "reference", "candidate")
    compared = [each for each in record.pairs if each.predictions]
    return frame_of(arrow((*pair, *of_part(drift, attrgetter("predictions"))), compared))


def image_frame(tables: Sequence[ImageTableFacts], folder: Path) -> pd.DataFrame:
    """Return a row for each image of each pair of paths.

    Raises `DamagedRecord` if a table is not what the run wrote.
    """
    pandas = pandas_module()
    outcomes = {"reference": "reference_outcome", "candidate": "candidate_outcome"}
    frames = []
    for each in tables:
        read = pandas.read_parquet(artifact_file(folder, each.table)).rename(columns=outcomes)
        read.insert(0, "reference", each.reference)
        read.insert(1, "candidate", each.candidate)
        frames.append(read)
    names = ["reference", "candidate", "id", *outcomes.values()]
    joined: pd.DataFrame = (
        pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(columns=names)
    )
    return joined


def _frame(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pd.DataFrame:
    frame: pd.DataFrame = pandas_module().DataFrame(rows, columns=list(columns))
    return frame
