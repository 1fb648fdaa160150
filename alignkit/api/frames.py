"""Facts of a record → DataFrames. Columns have the record's names, also of an empty frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from alignkit.extras import require_libraries
from alignkit.record import Drift, ImageTableFacts, MatrixEntry, PixelStage
from alignkit.record.artifacts import artifact_file
from alignkit.record.diff_document import DiffRecord, ImageDrift

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

_PIXELS = tuple(name for name in PixelStage.model_fields if name not in ("bias", "share_above"))
_DRIFTS = tuple(name for name in ImageDrift.model_fields if name != "kinds")
_BIAS = ("bias_r", "bias_g", "bias_b")
_PREDICTED = (
    "reference", "candidate", "images", "left_out", "flips", "churn", "churn_low", "churn_high",
    "logit_mean_abs", "logit_max_abs", "logit_cosine",
)  # fmt: skip

_PLACE = ("trained_with", "evaluated_with", "backend", "precision")
_POINTS = (*_PLACE, "figure", "series", "side", "x", "y")
_FACTS = (*_PLACE, "table", "row", "column", "value", "low", "high", "unit", "reason")


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
    rows: list[dict[str, Any]] = []
    for each in stages:
        bias = each.bias or (None, None, None)
        row = {name: getattr(each, name) for name in _PIXELS}
        rows.append({**besides, **row, **dict(zip(_BIAS, bias, strict=True))})
    return _frame(rows, (*besides, *_PIXELS, *_BIAS))


def drift_frame(record: DiffRecord) -> pd.DataFrame:
    """Return a row for each of the worst images of each pair, with the kinds of its file."""
    kinds = tuple(dict.fromkeys(each.dimension for each in record.census))
    rows = [
        {
            "reference": pair.reference,
            "candidate": pair.candidate,
            **{name: getattr(image, name) for name in _DRIFTS},
            **{kind: image.kinds.get(kind) for kind in kinds},
        }
        for pair in record.pairs
        for image in pair.worst
    ]
    return _frame(rows, ("reference", "candidate", *_DRIFTS, *kinds))


def figure_frame(matrix: Iterable[MatrixEntry]) -> pd.DataFrame:
    """Return a row for each point of each line of the figures that the task gives."""
    rows = [
        (*place, figure.name, line.name, line.side, x, y)
        for place, drift in _compared(matrix)
        for figure in drift.figures
        for line in figure.series
        for x, y in zip(line.x, line.y, strict=True)
    ]
    return _frame([dict(zip(_POINTS, row, strict=True)) for row in rows], _POINTS)


def fact_frame(matrix: Iterable[MatrixEntry]) -> pd.DataFrame:
    """Return a row for each cell of the tables that the task gives, with its interval."""
    rows = [
        (*place, table.name, row.label, column, each.value, each.low, each.high, row.unit,
         each.reason)
        for place, drift in _compared(matrix)
        for table in drift.tables
        for row in table.rows
        for column, each in zip(table.columns, row.cells, strict=True)
    ]  # fmt: skip
    return _frame([dict(zip(_FACTS, row, strict=True)) for row in rows], _FACTS)


def _compared(matrix: Iterable[MatrixEntry]) -> Iterator[tuple[tuple[str, ...], Drift]]:
    for each in matrix:
        if each.drift:
            yield each.place.names, each.drift


def prediction_frame(record: DiffRecord) -> pd.DataFrame:
    """Return a row for each candidate that a model was served with."""
    rows = []
    for pair in record.pairs:
        if (found := pair.predictions) is None:
            continue
        place = pair.reference, pair.candidate, found.n, found.left_out, found.flips
        churn = found.churn.value, found.churn.low, found.churn.high
        logits = found.logits.mean_abs, found.logits.max_abs, found.logits.cosine
        rows.append(dict(zip(_PREDICTED, (*place, *churn, *logits), strict=True)))
    return _frame(rows, _PREDICTED)


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


def _frame(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    frame: pd.DataFrame = pandas_module().DataFrame(list(rows), columns=list(columns))
    return frame
