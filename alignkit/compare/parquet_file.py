"""Parquet files of a run, read as if a stranger had written them: a run's folder may be foreign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

_SMALL = 1 << 28
_RATIO = 100
"""Bytes in memory for a byte in the file: logits hardly compress, but a kilobyte of a hostile file
may hold a billion equal rows."""


def read_parquet(path: Path) -> Any:
    """Read a table (`pyarrow.Table`); raises `DataError` for a file that cannot be one of ours."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        described = parquet.read_metadata(path)
        columns = [described.schema.column(index) for index in range(described.num_columns)]
        groups = [described.row_group(index) for index in range(described.num_row_groups)]
        # of a list each of its numbers is a value
        size = sum(
            group.column(index).num_values * max(8, column.length or 0)
            for group in groups
            for index, column in enumerate(columns)
        )
        _check_size(size, path)
        # as a dictionary, a long text takes its memory once, however many rows have it
        texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
        # not read_table: it imports a second of modules for data sets of many files
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            return _with_text(file.read(), path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error})") from error


def _check_size(size: int, path: Path) -> None:
    if size > max(_SMALL, _RATIO * path.stat().st_size):
        raise DataError(f"{path} would unpack to {size} bytes, too many for its size")


def _with_text(table: Any, path: Path) -> Any:
    """Write out the columns of text that were read as dictionaries."""
    import pyarrow as pa
    from pyarrow import compute

    for index, name in enumerate(table.column_names):
        column = table.column(index)
        if not pa.types.is_dictionary(column.type):
            continue
        lengths = (
            compute.take(compute.binary_length(each.dictionary), each.indices)
            for each in column.chunks
        )
        _check_size(sum(compute.sum(each).as_py() or 0 for each in lengths), path)
        table = table.set_column(index, name, column.cast(column.type.value_type))
    return table


def ids_of(table: Any, path: Path) -> tuple[str, ...]:
    """Return the column ``id``; raises `DataError` if it is not text."""
    import pyarrow as pa

    if "id" not in table.column_names or table.schema.field("id").type != pa.string():
        raise DataError(f"{path} has no column 'id' of text")
    if table["id"].null_count:
        raise DataError(f"{path} has rows without an id")
    return tuple(table["id"].to_pylist())


def numbers_of(table: Any, name: str, path: Path) -> npt.NDArray[Any]:
    """Return a column (n,) of numbers, NaN where null; raises `DataError` for any other column."""
    import numpy as np
    import pyarrow as pa

    # not by `column_names`: it lists all names, for each of a thousand columns of logits
    index = table.schema.get_field_index(name)
    column = table.column(index) if index >= 0 else None
    if column is None or not (
        pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    ):
        raise DataError(f"{path} has no column {name!r} of numbers")
    column = column.combine_chunks()
    # to_numpy would import pandas, which takes a second
    values: npt.NDArray[Any] = np.from_dlpack(column.drop_null())
    if not column.null_count:
        return values
    kind = values.dtype if values.dtype.kind == "f" else np.float64
    found: npt.NDArray[Any] = np.full(len(column), np.nan, kind)
    found[np.from_dlpack(column.is_valid().cast(pa.uint8())).view(np.bool_)] = values
    return found
